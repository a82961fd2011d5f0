package latchkey_test

import (
	"net/http"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
	"github.com/latchkey/latchkey/store/etcdtest"
)

func mustLease(t *testing.T, c *latchkey.Client, opts latchkey.LeaseOptions) *latchkey.Lease {
	t.Helper()
	lease, err := c.Lease(within(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lease.Release() })
	return lease
}

func mustLockOn(t *testing.T, lease *latchkey.Lease, name string, opts latchkey.LockOptions) *latchkey.Lock {
	t.Helper()
	lock, err := lease.Lock(within(t), name, opts)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestLeaseHoldsManyLocksOnOneHeartbeat(t *testing.T) {
	t.Parallel()
	sent := newLines(t)
	c := newClient(t, latchkey.Config{Transport: sent})
	lease := mustLease(t, c, latchkey.LeaseOptions{TTL: 4 * time.Second, Holder: "a"})
	one := mustLockOn(t, lease, "lease/one", latchkey.LockOptions{})
	two := mustLockOn(t, lease, "lease/two", latchkey.LockOptions{Wait: time.Minute})
	eventually(t, "renewed for more than a TTL", func() bool { return len(sent.all(http.MethodPut)) >= 5 })
	for _, put := range sent.all(http.MethodPut) {
		if put.path != "/leases/"+lease.ID() {
			t.Errorf("%s was renewed, and not the lease", put.path)
		}
	}
	if !one.Held() || !two.Held() || one.LeaseID() != lease.ID() || one.TTL() != 4*time.Second {
		t.Errorf("one: %v, two: %v, on the lease for %v", one.Check(), two.Check(), one.TTL())
	}
	status, err := c.LeaseStatus(within(t), lease.ID())
	if err != nil || len(status.Locks) != 2 || status.Holder != "a" {
		t.Errorf("the lease is %+v, %v, want two locks on it", status, err)
	}

	if released, err := one.Release(); !released || err != nil {
		t.Errorf("release: %v, %v", released, err)
	}
	wantIs(t, one.Check(), latchkey.ErrReleased)
	if !two.Held() || !lease.Held() {
		t.Error("the release of one lock ended the lease")
	}
	work := two.Context(t.Context())
	if released, err := lease.Release(); !released || err != nil {
		t.Errorf("release of the lease: %v, %v", released, err)
	}
	wantIs(t, await(t, work), latchkey.ErrReleased)
	if all := claims(t, c, "lease/two"); len(all) != 0 {
		t.Errorf("after the end of the lease the claims are %+v", all)
	}
}

func TestEndOfALeaseIsTheLossOfAll(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	lease := mustLease(t, c, latchkey.LeaseOptions{TTL: 6 * time.Second})
	lock := mustLockOn(t, lease, "lease/lost", latchkey.LockOptions{})
	mustLock(t, c, "lease/taken", latchkey.LockOptions{})
	waits := make(chan error, 1)
	go func() {
		_, err := lease.Lock(t.Context(), "lease/taken", latchkey.LockOptions{Wait: latchkey.Forever})
		waits <- err
	}()
	awaitClaims(t, c, "lease/taken", number(2))
	work := lock.Context(t.Context())
	if err := c.EndLease(within(t), lease.ID()); err != nil {
		t.Fatal(err)
	}
	lost := as[*latchkey.LostError](t, await(t, work))
	wantIs(t, lost, latchkey.ErrLeaseNotFound)
	wantIs(t, lease.Check(), lost)
	select {
	case err := <-waits:
		wantIs(t, err, latchkey.ErrNotHeld)
	case <-time.After(bound):
		t.Errorf("a wait on the lease has not ended %v after its end", bound)
	}
	if _, err := lock.Release(); err == nil {
		t.Error("the release of a lost lock tells no loss")
	}
	if _, err := lease.Release(); err == nil {
		t.Error("the release of a lost lease tells no loss")
	}
	awaitClaims(t, c, "lease/taken", number(1))
}

func TestLockOnALeaseIsGrantedAfterAWait(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	first := mustLock(t, c, "lease/waited", latchkey.LockOptions{})
	lease := mustLease(t, c, latchkey.LeaseOptions{})
	granted := make(chan *latchkey.Lock, 1)
	go func() {
		lock, err := lease.Lock(within(t), "lease/waited", latchkey.LockOptions{Wait: time.Minute})
		if err != nil {
			t.Error(err)
		}
		granted <- lock
	}()
	awaitClaims(t, c, "lease/waited", number(2))
	first.Release()
	if lock := <-granted; lock == nil || !lock.Held() || lock.Token() <= first.Token() {
		t.Errorf("granted %+v after token %d", lock, first.Token())
	}
}

func TestLeaseThatBecomesUncertainEndsItsWaits(t *testing.T) {
	t.Parallel()
	mustLock(t, newClient(t, latchkey.Config{}), "lease/unsure", latchkey.LockOptions{})
	line := etcdtest.NewProxy(t, address(shared))
	c := newClient(t, latchkey.Config{Servers: []string{"http://" + line.Addr()}})
	lease := mustLease(t, c, latchkey.LeaseOptions{TTL: 2 * time.Second})
	waits := make(chan error, 1)
	go func() {
		_, err := lease.Lock(t.Context(), "lease/unsure", latchkey.LockOptions{
			Wait: latchkey.Forever, OnWait: func(latchkey.Progress) { line.Blackhole() },
		})
		waits <- err
	}()
	select {
	case err := <-waits:
		as[*latchkey.UncertainError](t, err)
	case <-time.After(bound):
		t.Fatalf("a wait on the lease has not ended within %v", bound)
	}
}
