package store

import (
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestMaxHold: a lock is renewed for as long as may be, then refused and left to run out; a client's lease too, with what is
// held on it.
func TestMaxHold(t *testing.T) {
	const most = 4 * time.Second
	etcd := etcdtest.Shared(t)
	bounded := func(c *Config) { c.MaxHold = most }
	a, b := open(t, etcd.Client(t), bounded), open(t, etcd.Client(t), bounded)
	const ttl = 3 * time.Second
	begun := time.Now()
	lock := mustHold(t, a, Claim{Name: "x", TTL: ttl, Key: "the key of this claim"})
	lease := mustLease(t, a, ttl)
	on := mustHold(t, b, Claim{Name: "y", LeaseID: lease.ID})
	for what, ends := range map[string]time.Time{"lock": lock.HoldEnds, "lease": lease.HoldEnds, "on the lease": on.HoldEnds} {
		if left := time.Until(ends); left <= 0 || left > most {
			t.Errorf("%s: ends in %v, want within %v", what, left, most)
		}
	}
	for time.Since(begun) < most-time.Second {
		for _, id := range []string{lock.ID, lease.ID} {
			if _, err := b.Renew(ctxFor(t), id, time.Now()); err != nil {
				t.Fatalf("renew %v after it began: %v", time.Since(begun), err)
			}
		}
		sleep(ctxFor(t), 200*time.Millisecond)
	}
	sleep(ctxFor(t), time.Until(lock.HoldEnds)+10*time.Millisecond)
	sleep(ctxFor(t), time.Until(lease.HoldEnds)+10*time.Millisecond)
	for i, s := range []*Store{a, b} {
		for what, err := range map[string]error{
			"renew the lock":       errOf(s.Renew(ctxFor(t), lock.ID, time.Now())),
			"renew the lease":      errOf(s.Renew(ctxFor(t), lease.ID, time.Now())),
			"keep the lock":        s.Keep(ctxFor(t), lock.ID, func(Kept) error { return nil }),
			"repeat the claim":     errOf(s.Claim(ctxFor(t), Claim{Name: "x", TTL: ttl, Key: "the key of this claim"})),
			"repeat on the lease":  errOf(s.Claim(ctxFor(t), Claim{Name: "y", LeaseID: lease.ID})),
			"ask for what is held": errOf(s.Ask(ctxFor(t), lock.ID, 0, time.Now())),
		} {
			if i > 0 && time.Since(lease.HoldEnds) > ttl/2 {
				break // it may have run out by now
			}
			wantErr(t, what, err, ErrMaxHold)
		}
	}
	won := getHeld(t, claimInBackground(t, b, Claim{Name: "x", TTL: ttl, Wait: within}))
	if won.Token <= lock.Token {
		t.Errorf("after it ran out: token %d, want more than %d", won.Token, lock.Token)
	}
	if left := time.Until(won.HoldEnds); left <= most/2 {
		t.Errorf("a new hold has %v left, want about %v", left, most)
	}
}

// TestNothingIsGrantedOnALeaseWhoseHoldIsOver: whoever waits on one is refused when its turn comes, and the next in line is
// granted.
func TestNothingIsGrantedOnALeaseWhoseHoldIsOver(t *testing.T) {
	const most = 2 * time.Second
	etcd := etcdtest.Shared(t)
	a := open(t, etcd.Client(t), func(c *Config) { c.MaxHold = most })
	b := open(t, etcd.Client(t))
	for _, name := range []string{"alone", "handed on"} { // by the line, and in the releasing transaction
		first, releasing := mustHold(t, b, Claim{Name: name}), b
		lease, err := a.NewLease(ctxFor(t), Lease{TTL: 30 * time.Second}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		wait := claimInBackground(t, a, Claim{Name: name, LeaseID: lease.ID, Wait: within})
		queued := queuedUp(t, b, name, 2)[1]
		next := claimInBackground(t, b, Claim{Name: name, Wait: within})
		queuedUp(t, b, name, 3)
		sleep(ctxFor(t), time.Until(lease.HoldEnds)+10*time.Millisecond)
		if name == "handed on" {
			releasing = a
		}
		mustRelease(t, releasing, first)
		l, err := get(t, wait)
		wantErr(t, name, err, ErrMaxHold)
		if l.ID != "" {
			t.Errorf("%s: got %+v", name, l)
		}
		getHeld(t, next)
		wantErr(t, "look at what was refused", errOf(b.Look(ctxFor(t), queued.ID)), ErrNoLock)
	}
}
