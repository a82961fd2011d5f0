package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestNamesComeIntoContentionLongAfterTheTokensOfOtherWatches: an authentication token is bound to the stream that it opened.
// A name that many have waited for since then keeps such a stream open; the next name must not depend on it.
func TestNamesComeIntoContentionLongAfterTheTokensOfOtherWatches(t *testing.T) {
	const (
		user, password = "latchkey", "correct-horse"
		tokenTTL       = 2 * time.Second // etcd counts in whole seconds: one more or less
		names          = watchStreams + 2
		handOff        = 5 * time.Second
	)
	etcd := etcdtest.NewCluster(t, 1, etcdtest.JWT(keyFile(t), tokenTTL))
	if err := etcd.EnableAuth(ctxFor(t), user, password, "/"); err != nil {
		t.Fatal(err)
	}
	a, b := open(t, etcd.UserClient(t, user, password)), open(t, etcd.UserClient(t, user, password))
	held, waits := make([]Lock, names), make([]<-chan result, names)
	for i := range names {
		name := fmt.Sprintf("x%d", i)
		held[i] = mustHold(t, a, Claim{Name: name})
		waits[i] = claimInBackground(t, b, Claim{Name: name, Wait: 2 * within})
		queuedUp(t, a, name, 2)
		over := time.NewTimer(tokenTTL + 100*time.Millisecond)
		<-over.C
	}
	for i := names - 1; i >= 0; i-- { // while the others go on being waited for
		released := time.Now()
		mustRelease(t, a, held[i])
		getHeld(t, waits[i])
		if took := time.Since(released); took > handOff {
			t.Errorf("name %d of %d was handed to another replica after %v", i, names, took)
		} else {
			t.Logf("name %d was handed on after %v", i, took.Round(time.Millisecond))
		}
	}
}
