package store

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// electedFaulty is elected, with faults between B and etcd.
func electedFaulty(t *testing.T) (a, b *Store, faults *etcdtest.Faults, elect func()) {
	t.Helper()
	etcd := etcdtest.New(t)
	faults = etcdtest.NewFaults(t)
	a, b = open(t, etcd.Client(t)), open(t, etcd.Client(t, faults))
	return a, b, faults, electing(t, etcd, a, b)
}

// halfMove is a replica that dies after the first step of moving a client's lease.
func halfMove(t testing.TB, s *Store, lease Lease) (was, now clientv3.LeaseID) {
	t.Helper()
	w := witness{key: s.keys.leaseOf(calledOf(t, lease.ID)), id: lease.ID}
	var err error
	if w.record, err = s.readLease(ctxFor(t), calledOf(t, lease.ID)); err != nil {
		t.Fatal(err)
	}
	g, err := s.beginLease(ctxFor(t), holdLease, w.record.ttl())
	if err != nil {
		t.Fatal(err)
	}
	next := *w.record
	next.Lease, next.Was = g.id, w.record.Lease
	if err := s.putRecord(ctxFor(t), &w, next); err != nil {
		t.Fatal(err)
	}
	return next.Was, g.id
}

// wantWhole waits for what is held on a lease to run out, and asks whether that was a TTL after all was renewed.
func wantWhole(t *testing.T, s *Store, name string, renewed time.Time, ttl time.Duration) {
	t.Helper()
	getHeld(t, claimInBackground(t, s, Claim{Name: name, Wait: within}))
	if early := ttl - time.Since(renewed); early > 0 {
		t.Errorf("%s went to another %v before the TTL of its lease was over, counted from the last answer that it is held", name, early)
	}
}

func TestClaimOnAHalfMovedLeaseRenewsAllThatIsOnIt(t *testing.T) {
	a, b, elect := elected(t)
	const ttl = 6 * time.Second
	lease := mustLease(t, a, ttl)
	mustHold(t, a, Claim{Name: "first", LeaseID: lease.ID})
	elect()
	halfMove(t, a, lease)
	time.Sleep(ttl / 2)
	mustHold(t, b, Claim{Name: "second", LeaseID: lease.ID})
	sent := time.Now()
	if again := mustHold(t, b, Claim{Name: "second", LeaseID: lease.ID}); !again.Replayed {
		t.Errorf("got %+v, want it replayed", again)
	}
	wantWhole(t, b, "first", sent, ttl)
}

func TestRenewalThatCouldNotMoveAllIsFinishedByTheNextClaim(t *testing.T) {
	a, b, faults, elect := electedFaulty(t)
	const ttl = 10 * time.Second
	lease := mustLease(t, a, ttl)
	mustHold(t, a, Claim{Name: "first", LeaseID: lease.ID})
	elect()
	looks := faults.Every(etcdtest.Method(etcdtest.MethodLeaseTimeToLive)).Drop()
	if _, err := b.Renew(ctxFor(t), lease.ID, time.Now()); !errors.Is(err, ErrUnknown) {
		t.Errorf("a renewal that could not move all: got %v, want that nobody knows", err)
	}
	looks.Remove()
	sent := time.Now()
	mustHold(t, b, Claim{Name: "second", LeaseID: lease.ID})
	wantWhole(t, b, "first", sent, ttl)
}

func TestLookThatMeetsAMoveShowsWhatStands(t *testing.T) {
	a, b, faults, elect := electedFaulty(t)
	lock, lease := mustHold(t, a, Claim{Name: "x"}), mustLease(t, a, 30*time.Second)
	elect()
	for _, id := range []string{lock.ID, lease.ID} {
		before := etcdLeaseOf(t, a, id)
		asked := faults.Next(etcdtest.Method(etcdtest.MethodLeaseTimeToLive)).Hold()
		look := inBackground(func() (Lock, error) { return Lock{}, errOf(b.GetLease(ctxFor(t), id)) })
		asked.WaitArrived(t)
		if _, err := a.Renew(ctxFor(t), id, time.Now()); err != nil {
			t.Fatal(err)
		}
		wantGone(t, a, before)
		asked.Release()
		if _, err := get(t, look); err != nil {
			t.Errorf("a look at a lease that stands: %v", err)
		}
	}
}

func TestLookMissesNothingThatIsMovedMeanwhile(t *testing.T) {
	a, b, faults, elect := electedFaulty(t)
	lease := mustLease(t, a, 30*time.Second)
	const locks = 3
	for i := range locks {
		mustHold(t, a, Claim{Name: fmt.Sprint("x", i), LeaseID: lease.ID})
	}
	elect()
	halfMove(t, a, lease)
	var asked atomic.Int64
	second := faults.Next(func(c etcdtest.Call) bool {
		return c.Method == etcdtest.MethodLeaseTimeToLive && c.Request != nil && asked.Add(1) == 2
	}).Hold()
	found := make(chan int, 1)
	look := inBackground(func() (Lock, error) {
		l, err := b.GetLease(ctxFor(t), lease.ID)
		found <- len(l.Locks)
		return Lock{}, err
	})
	second.WaitArrived(t)
	if _, err := a.Renew(ctxFor(t), lease.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	second.Release()
	if _, err := get(t, look); err != nil || <-found != locks {
		t.Errorf("got an error %v, or not all %d locks", err, locks)
	}
}

// TestHeldClaimThatCouldNotBeMovedIsToldAsUnknown: it stands, so "nothing was done" would be a lie.
func TestHeldClaimThatCouldNotBeMovedIsToldAsUnknown(t *testing.T) {
	a, b, faults, elect := electedFaulty(t)
	lease := mustLease(t, b, 30*time.Second)
	elect()
	r := current(t, b)
	eventually(t, "the registration is moved", func() bool { return b.fresh(r.onLease()) })
	grants := faults.Every(etcdtest.Method(etcdtest.MethodLeaseGrant)).Drop()
	_, err := b.Claim(ctxFor(t), Claim{Name: "x", LeaseID: lease.ID})
	grants.Remove()
	if stand := claimsOn(t, a, "x"); len(stand) != 1 || !errors.Is(err, ErrUnknown) {
		t.Errorf("%d claims stand, and the client is told %v", len(stand), err)
	}
}

func TestClaimStandsOnTheEtcdLeaseOfTheRecordItCompares(t *testing.T) {
	a, _, elect := elected(t)
	lease := mustLease(t, a, 30*time.Second)
	before, err := a.readLease(ctxFor(t), calledOf(t, lease.ID))
	if err != nil {
		t.Fatal(err)
	}
	elect()
	if _, err := a.Renew(ctxFor(t), lease.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	wantGone(t, a, before.Lease)
	ctx, r := ctxFor(t), current(t, a)
	claim, err := a.newAcquire(Claim{Name: "y", LeaseID: lease.ID, Arrived: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if err := claim.describeWish(ctx, r); err != nil {
		t.Fatal(err)
	}
	// Another request has read the record before it was moved, and notes it only now.
	a.remember(witness{key: a.keys.leaseOf(calledOf(t, lease.ID)), id: lease.ID, record: before})
	if l, err := claim.try(ctx, ctx, r); err != nil {
		t.Errorf("a claim on a lease that stands: %+v, %v", l, err)
	}
}

// TestRequestsThatConfirmOneLockShareNothing is for the race detector.
func TestRequestsThatConfirmOneLockShareNothing(t *testing.T) {
	a, b := pair(t)
	for i := range 50 {
		l := mustHold(t, a, Claim{Name: fmt.Sprint("x", i)})
		var asks []<-chan result
		for range 3 {
			asks = append(asks, askInBackground(t, b, l, 0))
			asks = append(asks, inBackground(func() (Lock, error) { return Lock{}, errOf(b.Renew(ctxFor(t), l.ID, time.Now())) }))
		}
		for _, ask := range asks {
			if _, err := get(t, ask); err != nil {
				t.Error(err)
			}
		}
		mustRelease(t, a, l)
	}
}

// TestReleaseWhoseAnswerWasLostIsDoneAnywhere, as the design has it: what is then gone was given back.
func TestReleaseWhoseAnswerWasLostIsDoneAnywhere(t *testing.T) {
	a, b, faults, _ := electedFaulty(t)
	held := mustHold(t, a, Claim{Name: "x"})
	place := enqueue(t, a, Claim{Name: "x"})
	for _, l := range []Lock{place, held} {
		faults.Next(etcdtest.Txns(deletes)).LoseReply()
		mustRelease(t, b, l)
	}
}

func TestWaitingLeaseOfAnEarlierTermIsNotKeptSpare(t *testing.T) {
	a, b, elect := elected(t)
	mustHold(t, b, Claim{Name: "x", TTL: 60 * time.Second})
	leave := func() {
		mustRelease(t, a, enqueue(t, a, Claim{Name: "x"}))
		eventually(t, "no waiting lease has a claim", func() bool { return onSlots(t, a) == 0 })
	}
	leave()
	elect()
	leave()
	p := &current(t, a).presence
	p.due()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sl := range p.slots {
		if !sl.gone && !a.fresh(sl.id) {
			t.Errorf("the waiting lease %x is kept, and cannot be used", sl.id)
		}
	}
}
