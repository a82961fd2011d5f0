package latchkey_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

func TestLockOnALeaseThatEndsElsewhereIsLost(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	lease := mustLease(t, c, latchkey.LeaseOptions{TTL: 6 * time.Second})
	broken := mustLockOn(t, lease, "roster/broken", latchkey.LockOptions{})
	released := mustLockOn(t, lease, "roster/released", latchkey.LockOptions{})
	kept := mustLockOn(t, lease, "roster/kept", latchkey.LockOptions{})
	own := mustLockOn(t, lease, "roster/own", latchkey.LockOptions{})
	work, other := broken.Context(t.Context()), released.Context(t.Context())
	if _, err := own.Release(); err != nil {
		t.Fatal(err)
	}
	if err := c.Break(within(t), broken.ID(), "host web-3 is gone"); err != nil {
		t.Fatal(err)
	}
	if err := c.Release(within(t), released.ID()); err != nil {
		t.Fatal(err)
	}
	lost := as[*latchkey.LostError](t, await(t, work))
	wantIs(t, lost, latchkey.ErrLockBroken)
	if lost.Name != "roster/broken" || lost.Why() != "was broken by an administrator: host web-3 is gone" {
		t.Errorf("told %v, want the name and the reason", lost)
	}
	lost = as[*latchkey.LostError](t, await(t, other))
	wantIs(t, lost, latchkey.ErrLockNotFound)
	if broken.Held() || broken.Remaining() != 0 || !kept.Held() || !lease.Held() {
		t.Errorf("broken: %v, with %v left; kept: %v; the lease: %v", broken.Check(), broken.Remaining(), kept.Check(), lease.Check())
	}
	wantIs(t, own.Check(), latchkey.ErrReleased)
	if done, err := broken.Release(); done || err == nil {
		t.Errorf("its release: %v, %v", done, err)
	}
}

func TestManyLocksOnALeaseAreLookedAtSeldom(t *testing.T) {
	t.Parallel()
	const many = 101
	sent := newLines(t)
	c := newClient(t, latchkey.Config{Transport: sent})
	lease := mustLease(t, c, latchkey.LeaseOptions{TTL: 3 * time.Second})
	var first *latchkey.Lock
	for i := range many {
		if lock := mustLockOn(t, lease, fmt.Sprint("roster/many/", i), latchkey.LockOptions{}); first == nil {
			first = lock
		}
	}
	before, looks := len(sent.all(http.MethodPut)), len(sent.all(http.MethodGet))
	if err := c.Release(within(t), first.ID()); err != nil {
		t.Fatal(err)
	}
	as[*latchkey.LostError](t, await(t, first.Context(t.Context())))
	renewals, looked := len(sent.all(http.MethodPut))-before, len(sent.all(http.MethodGet))-looks
	if looked > 2+renewals/5 { // of the lease, and of the lock that it has no more
		t.Errorf("it looked %d times in %d renewals", looked, renewals)
	}
}
