package store

import (
	"context"
	"errors"
	"testing"
	"time"
)

func mustLease(t testing.TB, s *Store, ttl time.Duration) Lease {
	t.Helper()
	l, err := s.NewLease(ctxFor(t), Lease{TTL: ttl, Holder: "h"}, time.Now())
	if err != nil {
		t.Fatalf("begin a lease: %v", err)
	}
	return l
}

func TestManyLocksOnOneLease(t *testing.T) {
	a, b := pair(t)
	lease := mustLease(t, a, 30*time.Second)
	first := mustHold(t, a, Claim{Name: "x", LeaseID: lease.ID})
	second := mustHold(t, b, Claim{Name: "y", LeaseID: lease.ID})
	if first.LeaseID != lease.ID || first.TTL != lease.TTL {
		t.Errorf("got %+v, want it on %+v", first, lease)
	}
	again := mustHold(t, b, Claim{Name: "x", LeaseID: lease.ID})
	if !again.Replayed || again.ID != first.ID || again.Token != first.Token {
		t.Errorf("the same lease on the same name: got %+v, want %+v replayed", again, first)
	}
	got, err := b.GetLease(ctxFor(t), lease.ID)
	if err != nil || len(got.Locks) != 2 || got.Locks[0].Name != "x" || got.Locks[1].Name != "y" {
		t.Fatalf("get the lease: %+v, %v, want x and y on it", got, err)
	}
	if got.Left < 0 || got.Left > got.TTL {
		t.Errorf("TTL left: got %v of %v", got.Left, got.TTL)
	}
	for _, l := range []Lock{first, second} {
		_, err := a.Renew(ctxFor(t), l.ID, time.Now())
		wantErr(t, "renew by the id of a lock on a client's lease", err, ErrOnLease)
	}
	mustRelease(t, a, first)
	if _, err := a.Renew(ctxFor(t), lease.ID, time.Now()); err != nil {
		t.Errorf("renew after releasing one of two: %v", err)
	}
	if err := b.EndLease(ctxFor(t), lease.ID); err != nil {
		t.Fatalf("end the lease: %v", err)
	}
	mustHold(t, a, Claim{Name: "y"})
	for what, err := range map[string]error{
		"end it again": a.EndLease(ctxFor(t), lease.ID),
		"renew it":     errOf(a.Renew(ctxFor(t), lease.ID, time.Now())),
		"get it":       errOf(a.GetLease(ctxFor(t), lease.ID)),
		"claim on it":  errOf(a.Claim(ctxFor(t), Claim{Name: "z", LeaseID: lease.ID})),
	} {
		wantErr(t, what, err, ErrNoLease)
	}
	if got := claimsOn(t, a, "z"); len(got) != 0 {
		t.Errorf("a claim on a lease that ended stands: %+v", got)
	}
}

func errOf[T any](_ T, err error) error { return err }

func TestIDOfALockActsForItsOwnLease(t *testing.T) {
	a, b := pair(t)
	l := mustHold(t, a, Claim{Name: "x"})
	got, err := b.Renew(ctxFor(t), l.ID, time.Now())
	if err != nil || got.Token != l.Token || got.ID != l.ID {
		t.Errorf("renew: got %+v, %v", got, err)
	}
	if got, err := b.GetLease(ctxFor(t), l.ID); err != nil || len(got.Locks) != 1 || got.Locks[0].ID != l.ID {
		t.Errorf("get: got %+v, %v", got, err)
	}
	mine := enqueue(t, b, Claim{Name: "x"})
	_, err = a.Renew(ctxFor(t), mine.ID, time.Now())
	wantErr(t, "renew a queued lock", err, ErrLockQueued)
	wantErr(t, "get by a queued lock's id", errOf(a.GetLease(ctxFor(t), mine.ID)), ErrNoLease)
	wantErr(t, "end by a queued lock's id", a.EndLease(ctxFor(t), mine.ID), ErrNoLease)
	if err := a.EndLease(ctxFor(t), l.ID); err != nil {
		t.Errorf("end by a held lock's id: %v", err)
	}
	wantErr(t, "release after that", a.Release(ctxFor(t), l.ID), ErrNoLock)
}

func TestClaimOnALeaseRenewedLongAgoStartsAWholeTTL(t *testing.T) {
	a, b := pair(t)
	const ttl = 3 * time.Second
	lease := mustLease(t, a, ttl)
	sleep(ctxFor(t), 2*time.Second)
	sent := time.Now()
	mustHold(t, b, Claim{Name: "x", LeaseID: lease.ID})
	getHeld(t, claimInBackground(t, a, Claim{Name: "x", Wait: within}))
	if took := time.Since(sent); took < ttl {
		t.Errorf("granted to another %v after the claim was sent, want at least %v", took, ttl)
	}
}

func TestWaitOnAClientsLeaseIsGrantedWithAWholeTTL(t *testing.T) {
	a, b := pair(t)
	const ttl = 3 * time.Second
	held := mustHold(t, a, Claim{Name: "x"})
	lease := mustLease(t, a, ttl)
	wait := claimInBackground(t, b, Claim{Name: "x", LeaseID: lease.ID, Wait: within})
	queuedUp(t, a, "x", 2)
	sleep(ctxFor(t), 2*time.Second)
	granted := time.Now()
	mustRelease(t, a, held)
	if won := getHeld(t, wait); won.LeaseID != lease.ID {
		t.Errorf("got %+v, want it on the client's lease", won)
	}
	getHeld(t, claimInBackground(t, a, Claim{Name: "x", Wait: within}))
	if took := time.Since(granted); took < ttl {
		t.Errorf("granted to another %v after the grant, want at least %v", took, ttl)
	}
}

func TestEndOfAClientsLeaseEndsItsWaits(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x"})
	lease := mustLease(t, a, 30*time.Second)
	waits := claimInBackground(t, b, Claim{Name: "x", LeaseID: lease.ID, Wait: within})
	queuedUp(t, a, "x", 2)
	if err := a.EndLease(ctxFor(t), lease.ID); err != nil {
		t.Fatal(err)
	}
	_, err := get(t, waits)
	wantErr(t, "the wait on a lease that ended", err, ErrNoLease)
	queuedUp(t, a, "x", 1)
	mustRelease(t, a, held)
}

func TestWaitOnAClientsLeaseWhoseWaiterLeftDoesNotBlockTheName(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x"})
	lease := mustLease(t, a, 60*time.Second)
	ctx, leave := context.WithCancel(ctxFor(t))
	gone := inBackground(func() (Lock, error) { return b.Claim(ctx, Claim{Name: "x", LeaseID: lease.ID, Wait: within}) })
	queuedUp(t, a, "x", 2)
	next := claimInBackground(t, a, Claim{Name: "x", Wait: within})
	queuedUp(t, a, "x", 3)
	leave()
	if _, err := get(t, gone); !errors.Is(err, context.Canceled) {
		t.Errorf("the wait that was left: got %v", err)
	}
	mustRelease(t, a, held)
	getHeld(t, next)
}

func TestKeepRenewsForAsLongAsItsClientListens(t *testing.T) {
	a, b := pair(t)
	l := mustHold(t, a, Claim{Name: "x", TTL: 3 * time.Second})
	ctx, stop := context.WithCancel(ctxFor(t))
	begun := time.Now()
	told := 0
	err := b.Keep(ctx, l.ID, func(k Kept) error {
		if k.Err != nil || k.Lease.Token != l.Token || k.Sent.Before(begun) {
			t.Errorf("told %+v", k)
		}
		if told++; time.Since(begun) > 6*time.Second {
			stop()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || told < 6 {
		t.Errorf("got %v after %d renewals", err, told)
	}
	if _, err := a.Look(ctxFor(t), l.ID); err != nil {
		t.Errorf("after two TTLs of keeping: %v", err)
	}
	released := false
	err = b.Keep(ctxFor(t), l.ID, func(Kept) error {
		if !released {
			mustRelease(t, a, l)
			released = true
		}
		return nil
	})
	wantErr(t, "keeping a lock that was released", err, ErrNoLease)
	if !released {
		t.Error("the lock ran out before it was kept")
	}
}

func TestTTLOutOfBoundsIsRefused(t *testing.T) {
	a, _ := pair(t)
	least, most := a.TTLBounds()
	if least != time.Second || most != 24*time.Hour {
		t.Errorf("bounds: got %v and %v", least, most)
	}
	for _, ttl := range []time.Duration{0, -time.Second, least - 1, most + 1, 1500 * time.Millisecond, 1<<63 - 1} {
		var bad *InputError
		if _, err := a.Claim(ctxFor(t), Claim{Name: "x", TTL: ttl}); !errors.As(err, &bad) || bad.Field != "TTL" {
			t.Errorf("claim with TTL %v: got %v", ttl, err)
		}
		if _, err := a.NewLease(ctxFor(t), Lease{TTL: ttl}, time.Now()); !errors.As(err, &bad) || bad.Field != "TTL" {
			t.Errorf("lease with TTL %v: got %v", ttl, err)
		}
	}
	if got := claimsOn(t, a, "x"); len(got) != 0 {
		t.Errorf("a refused claim stands: %+v", got)
	}
}
