package store

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// Nothing that a token is made of belongs to one lock, runs out, or is forgotten with history: a name that was left alone
// for long, and one never used before, get tokens above all of before.
func TestTokensGrowThoughAllThatWasKeptIsGone(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.New(t)
	s := openToClose(t, etcd.Client(t))
	var last int64
	grew := func(what string, l Lock) {
		t.Helper()
		if l.Token <= last {
			t.Errorf("%s: token %d after %d", what, l.Token, last)
		}
		last = l.Token
	}
	for round := range 2 {
		l := mustHold(t, s, Claim{Name: "x"})
		grew("a name used before", l)
		mustRelease(t, s, l)
		grew("one left to run out", mustHold(t, s, Claim{Name: "run out", TTL: time.Second, Wait: within}))
		queuedUp(t, s, "run out", 0)
		if err := s.Close(ctxFor(t)); err != nil {
			t.Fatal(err)
		}
		client := etcd.Client(t)
		now, err := client.Get(ctxFor(t), "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Compact(ctxFor(t), now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Defragment(ctxFor(t), etcd.Endpoint()); err != nil {
			t.Fatal(err)
		}
		etcd.Restart()
		s = openToClose(t, etcd.Client(t))
		grew("a name never used", mustHold(t, s, Claim{Name: fmt.Sprint("new ", round)}))
	}
	if err := s.Close(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
}

// A number that a JSON reader of doubles would round is no token: whatever etcd's revision was set to, and whatever the
// clock says, there is an epoch with room for tokens below it, or none.
func TestTokensAreNumbersThatEveryReaderHas(t *testing.T) {
	for _, revision := range []int64{1, 1_000_000_000, 1 << 40, 1 << 52, 1<<53 - 1, 1<<53 + 1, 1 << 60} {
		for _, now := range []time.Time{time.Now(), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2260, 1, 1, 0, 0, 0, 0, time.UTC)} {
			e, err := Epoch{Revision: revision}.next(now, 0)
			if err != nil {
				continue
			}
			const grants = 1 << 31 // more than a store commits between two looks at its epoch
			if token := e.Base + revision + grants; token != int64(float64(token)) || token >= 1<<53 || token <= 0 {
				t.Errorf("at revision %d in %d an epoch begins whose tokens reach %d", revision, now.Year(), token)
			}
		}
	}
	for _, revision := range []int64{1, 1_000_000_000} { // a new store, and one restored as the manual says
		if _, err := (Epoch{Revision: revision}).next(time.Now(), 0); err != nil {
			t.Errorf("at revision %d: %v", revision, err)
		}
	}
}
