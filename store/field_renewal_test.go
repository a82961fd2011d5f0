package store

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestRenewalAnsweredAtTheEndOfTheTTLCountsFromItsSending renews near the end of a TTL while every answer of etcd comes
// late: the client may take the success at its word, a whole TTL from when it asked.
func TestRenewalAnsweredAtTheEndOfTheTTLCountsFromItsSending(t *testing.T) {
	for name, delay := range map[string]time.Duration{"inside": 700 * time.Millisecond, "after": 2 * time.Second} {
		t.Run("answers come "+name+" the TTL", func(t *testing.T) {
			t.Parallel()
			etcd := etcdtest.Shared(t)
			proxy := etcdtest.NewProxy(t, etcd.Endpoint())
			a, b := open(t, proxy.Client(t), patient, farWaiting), open(t, etcd.Client(t))
			const ttl = 3 * time.Second
			held := mustHold(t, a, Claim{Name: "x", TTL: ttl})
			next := claimInBackground(t, b, Claim{Name: "x", Wait: 2 * within})
			sleep(ctxFor(t), ttl-time.Second)
			proxy.Delay(delay, etcdtest.ToClient)
			sent := time.Now()
			_, err := a.Renew(ctxFor(t), held.ID, sent)
			told := time.Now()
			proxy.Heal()
			if err == nil && told.Before(sent.Add(ttl)) {
				stillWaiting(t, next)
			}
			won := getHeld(t, next)
			granted := time.Since(sent)
			switch {
			case err == nil && granted < ttl:
				t.Errorf("another was granted the lock %v after a renewal was sent that succeeded", granted)
			case err != nil && !errors.Is(err, ErrNoLease) && !errors.Is(err, ErrUnknown):
				t.Errorf("renew: %v", err)
			}
			t.Logf("the renewal came to %v after %v, another was granted the lock after %v", err, told.Sub(sent), granted)
			if won.Token <= held.Token {
				t.Errorf("token %d after %d", won.Token, held.Token)
			}
		})
	}
}

// farWaiting is for a replica that is to keep its registration whatever its line does.
func farWaiting(c *Config) { c.WaitingTTL = time.Minute }

// TestPlacesAreKeptAliveAgainAfterARenewalFailed breaks the stream on which a place's lease is renewed, once.
func TestPlacesAreKeptAliveAgainAfterARenewalFailed(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	a := open(t, etcdtest.Shared(t).Client(t, faults))
	held := mustHold(t, a, Claim{Name: "x"})
	wait := claimInBackground(t, a, Claim{Name: "x", Wait: within})
	queuedUp(t, a, "x", 2)
	p := &current(t, a).presence
	slot := func() (id clientv3.LeaseID, proven time.Time) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.slots[0].id, p.slots[0].proven
	}
	id, _ := slot()
	broken := faults.Next(requestsFor(id)).Fail(codes.Unavailable)
	broken.WaitArrived(t)
	failed := time.Now()
	eventually(t, "the lease is renewed after that", func() bool {
		_, proven := slot()
		return proven.After(failed)
	})
	stillWaiting(t, wait)
	mustRelease(t, a, held)
	getHeld(t, wait)
}
