package store

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// elected are two replicas and an etcd whose leader can change: one that starts again begins another raft term.
func elected(t testing.TB) (a, b *Store, elect func()) {
	t.Helper()
	etcd := etcdtest.New(t)
	a, b = open(t, etcd.Client(t)), open(t, etcd.Client(t))
	return a, b, electing(t, etcd, a, b)
}

// electing begins another term, and waits until the replicas have seen it.
func electing(t testing.TB, etcd *etcdtest.Server, replicas ...*Store) func() {
	return func() {
		t.Helper()
		before := replicas[0].terms.last.Load()
		etcd.Restart()
		for _, s := range replicas {
			eventually(t, "the replica sees another term", func() bool { return s.Ready() == nil && s.terms.last.Load() > before })
		}
	}
}

func TestHeldLockIsMovedOnceAfterAnElection(t *testing.T) {
	a, b, elect := elected(t)
	l := mustHold(t, a, Claim{Name: "x"})
	for _, s := range []*Store{a, b} { // both know it, on the etcd lease of before
		if _, err := s.Renew(ctxFor(t), l.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	before := etcdLeaseOf(t, a, l.ID)
	elect()
	var moved clientv3.LeaseID
	for i, s := range []*Store{a, b, a, b} {
		got, err := s.Renew(ctxFor(t), l.ID, time.Now())
		if err != nil || got.ID != l.ID || got.Token != l.Token {
			t.Fatalf("renewal %d: got %+v, %v", i, got, err)
		}
		now := etcdLeaseOf(t, a, l.ID)
		switch {
		case now == before, !a.fresh(now):
			t.Fatalf("after renewal %d it is on the etcd lease %x, of before the election", i, now)
		case i > 0 && now != moved:
			t.Fatalf("renewal %d has moved it again, from %x to %x", i, moved, now)
		}
		moved = now
	}
	wantGone(t, a, before)
	mustRelease(t, b, l)
	next := mustHold(t, b, Claim{Name: "x"})
	if now := etcdLeaseOf(t, a, next.ID); now != moved {
		t.Errorf("the next lock is on %x, not on the etcd lease of the one released, %x", now, moved)
	}
}

// wantGone waits until an etcd lease is no more.
func wantGone(t testing.TB, s *Store, id clientv3.LeaseID) {
	t.Helper()
	eventually(t, "the etcd lease of before is ended", func() bool { return ended(t, s, id) })
}

func ended(t testing.TB, s *Store, id clientv3.LeaseID) bool {
	t.Helper()
	left, err := s.left(ctxFor(t), id)
	return err == nil && left.TTL < 0
}

func TestRenewalsThatMoveALockTogetherAllCount(t *testing.T) {
	a, b, elect := elected(t)
	var locks []Lock
	for i := range 20 {
		locks = append(locks, mustHold(t, a, Claim{Name: fmt.Sprint("x", i)}))
	}
	elect()
	var renewals []<-chan result
	for _, l := range locks {
		for _, s := range []*Store{a, b, a, b} {
			renewals = append(renewals, inBackground(func() (Lock, error) {
				return Lock{}, errOf(s.Renew(ctxFor(t), l.ID, time.Now()))
			}))
		}
	}
	for _, r := range renewals {
		if _, err := get(t, r); err != nil {
			t.Errorf("renew: %v", err)
		}
	}
	for _, l := range locks {
		if id := etcdLeaseOf(t, b, l.ID); !b.fresh(id) {
			t.Errorf("it is on %x, of before the election", id)
		}
		if !t.Failed() {
			mustRelease(t, b, l)
		}
	}
	eventually(t, "no etcd lease is left but those of replicas, pools and waits", func() bool {
		resp, err := a.etcd.Leases(ctxFor(t))
		return err == nil && len(resp.Leases) <= 2*2+len(locks)
	})
}

// TestPooledLeasesOfAnEarlierTermAreNotUsed: what is claimed after an election is on etcd leases that no earlier leader knows.
func TestPooledLeasesOfAnEarlierTermAreNotUsed(t *testing.T) {
	a, _, elect := elected(t)
	mustRelease(t, a, mustHold(t, a, Claim{Name: "x"}))
	eventually(t, "its etcd lease is idle", func() bool { return current(t, a).pool.count() == 1 })
	elect()
	l := mustHold(t, a, Claim{Name: "x"})
	if id := etcdLeaseOf(t, a, l.ID); !a.fresh(id) {
		t.Errorf("it is on %x, of before the election", id)
	}
}

// TestClientsLeaseIsMovedWithAllThatIsOnIt has more on a lease than one transaction takes, claims and grants on it meanwhile,
// and somebody who begins to move it and dies.
func TestClientsLeaseIsMovedWithAllThatIsOnIt(t *testing.T) {
	a, b, elect := elected(t)
	lease := mustLease(t, a, 30*time.Second)
	const locks = 150
	for i := range locks {
		mustHold(t, a, Claim{Name: fmt.Sprint("x", i), LeaseID: lease.ID})
	}
	other := mustHold(t, b, Claim{Name: "waited for"})
	wait := claimInBackground(t, b, Claim{Name: "waited for", LeaseID: lease.ID, Wait: within})
	queuedUp(t, a, "waited for", 2)
	before := etcdLeaseOf(t, a, lease.ID)
	elect()

	half := witness{key: a.keys.leaseOf(calledOf(t, lease.ID)), id: lease.ID}
	var err error
	if half.record, err = a.readLease(ctxFor(t), calledOf(t, lease.ID)); err != nil {
		t.Fatal(err)
	}
	g, err := a.beginLease(ctxFor(t), holdLease, half.record.ttl())
	if err != nil {
		t.Fatal(err)
	}
	next := *half.record
	next.Lease, next.Was = g.id, before
	if err := a.putRecord(ctxFor(t), &half, next); err != nil { // and here it dies
		t.Fatal(err)
	}
	if got, err := b.GetLease(ctxFor(t), lease.ID); err != nil || len(got.Locks) != locks {
		t.Errorf("half moved: got %d locks, %v", len(got.Locks), err)
	}
	mustHold(t, b, Claim{Name: "meanwhile", LeaseID: lease.ID}) // its replica remembers the lease as it was
	mustRelease(t, b, other)
	getHeld(t, wait)

	var work sync.WaitGroup
	for _, s := range []*Store{a, b, a, b} {
		work.Go(func() {
			if _, err := s.Renew(ctxFor(t), lease.ID, time.Now()); err != nil {
				t.Errorf("renew: %v", err)
			}
		})
	}
	work.Wait()
	got, err := b.GetLease(ctxFor(t), lease.ID)
	if err != nil || len(got.Locks) != locks+2 {
		t.Errorf("moved: got %d locks, %v, want %d", len(got.Locks), err, locks+2)
	}
	for _, l := range got.Locks {
		if st := asItStands(t, a, l.ID); st.onLease != g.id || st.Lease != g.id {
			t.Fatalf("%s stands on %x and names %x, want %x", l.Name, st.onLease, st.Lease, g.id)
		}
	}
	wantGone(t, a, before)
	if err := a.EndLease(ctxFor(t), lease.ID); err != nil {
		t.Errorf("end the lease: %v", err)
	}
	if left := claimsOn(t, b, "x0"); len(left) > 0 {
		t.Errorf("%d claims are left of a lease that was ended", len(left))
	}
}

// TestLeaseThatIsEndedWhileItIsMovedIsGone: exactly one of both happens, and what is told is true.
func TestLeaseThatIsEndedWhileItIsMovedIsGone(t *testing.T) {
	a, b, elect := elected(t)
	var leases []Lease
	for i := range 20 {
		leases = append(leases, mustLease(t, a, 30*time.Second))
		mustHold(t, a, Claim{Name: fmt.Sprint("x", i), LeaseID: leases[i].ID})
	}
	elect()
	for i, l := range leases {
		renewal := inBackground(func() (Lock, error) { return Lock{}, errOf(b.Renew(ctxFor(t), l.ID, time.Now())) })
		time.Sleep(time.Duration(i%5) * time.Millisecond)
		if err := a.EndLease(ctxFor(t), l.ID); err != nil {
			t.Fatalf("end lease %d: %v", i, err)
		}
		if _, err := a.GetLease(ctxFor(t), l.ID); !errors.Is(err, ErrNoLease) {
			t.Errorf("lease %d was ended and stands: %v", i, err)
		}
		if left := claimsOn(t, a, fmt.Sprint("x", i)); len(left) > 0 {
			t.Errorf("lease %d was ended, and %d claims on it are left", i, len(left))
		}
		if _, err := get(t, renewal); err != nil && !errors.Is(err, ErrNoLease) {
			t.Errorf("renewal %d: %v", i, err)
		}
	}
}

// TestPlacesAndRegistrationAreMovedAfterAnElection: no earlier leader knows what they are on either.
func TestPlacesAndRegistrationAreMovedAfterAnElection(t *testing.T) {
	a, b, elect := elected(t)
	held := mustHold(t, b, Claim{Name: "x", TTL: 60 * time.Second})
	const places = claimsPerSlot + 10
	var waits []Lock
	for range places {
		waits = append(waits, enqueue(t, a, Claim{Name: "x"}))
	}
	first := inBackground(func() (Lock, error) { return a.Ask(ctxFor(t), waits[0].ID, 2*within, time.Now()) })
	r := current(t, a)
	elect()
	eventually(t, "all places are moved", func() bool {
		for _, l := range waits {
			if !a.fresh(asItStands(t, a, l.ID).onLease) {
				return false
			}
		}
		return a.fresh(r.onLease())
	})
	got, err := a.read(ctxFor(t), clientv3.OpGet(r.key))
	if err != nil || len(got.ranges[0].Kvs) == 0 || clientv3.LeaseID(got.ranges[0].Kvs[0].Lease) != r.onLease() {
		t.Errorf("the fence is on another lease than the one that is renewed: %v, %v", got.ranges, err)
	}
	eventually(t, "no waiting lease counts a claim twice", func() bool { return onSlots(t, a) == places })
	stillWaiting(t, first)
	mustRelease(t, b, held)
	getHeld(t, first)
	if now := current(t, a); now != r {
		t.Error("the replica has registered anew")
	}
}

// TestNothingIsMovedWhileAReplicaOfAnEarlierBuildIsThere: that one remembers the etcd leases of locks, and confirms renewals of
// them.
func TestNothingIsMovedWhileAReplicaOfAnEarlierBuildIsThere(t *testing.T) {
	a, _, elect := elected(t)
	earlier, err := a.etcd.Grant(ctxFor(t), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.etcd.Put(ctxFor(t), a.keys.replica(newNonce()), "1", clientv3.WithLease(earlier.ID)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is seen", a.stays.Load)
	l, lease := mustHold(t, a, Claim{Name: "x", TTL: 60 * time.Second}), mustLease(t, a, 60*time.Second)
	before := []clientv3.LeaseID{etcdLeaseOf(t, a, l.ID), etcdLeaseOf(t, a, lease.ID)}
	elect()
	for i, id := range []string{l.ID, lease.ID} {
		if _, err := a.Renew(ctxFor(t), id, time.Now()); err != nil {
			t.Fatal(err)
		}
		if now := etcdLeaseOf(t, a, id); now != before[i] {
			t.Errorf("it was moved from %x to %x", before[i], now)
		}
	}
	if _, err := a.etcd.Revoke(ctxFor(t), earlier.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func() bool { return !a.stays.Load() })
	for i, id := range []string{l.ID, lease.ID} {
		if _, err := a.Renew(ctxFor(t), id, time.Now()); err != nil {
			t.Fatal(err)
		}
		if etcdLeaseOf(t, a, id) == before[i] {
			t.Error("it was not moved")
		}
	}
}
