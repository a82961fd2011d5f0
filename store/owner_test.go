package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func as(t testing.TB, principal string) context.Context { return As(ctxFor(t), principal) }

func claimAs(t testing.TB, s *Store, principal string, c Claim) Lock {
	t.Helper()
	if c.LeaseID == "" {
		c.TTL = 30 * time.Second
	}
	l, err := s.Claim(as(t, principal), c)
	if err != nil {
		t.Fatalf("claim %q as %q: %v", c.Name, principal, err)
	}
	return l
}

// TestIDsAreOfNoUseToAnotherPrincipal tries every call with another's id, of a held lock, a queued one and a lease: each
// answers what it answers for an id that never was, and changes nothing. Both where the claim was made, where it is
// remembered, and at another replica.
func TestIDsAreOfNoUseToAnotherPrincipal(t *testing.T) {
	a, b := pair(t)
	lease, err := a.NewLease(as(t, "ann"), Lease{TTL: 30 * time.Second}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	held := claimAs(t, a, "ann", Claim{Name: "x"})
	on := claimAs(t, a, "ann", Claim{Name: "y", LeaseID: lease.ID})
	queued := claimAs(t, a, "ann", Claim{Name: "x", Queue: true})
	for _, l := range []Lock{held, on, queued} {
		if l.Owner != "ann" {
			t.Errorf("owner: got %q, want ann", l.Owner)
		}
	}
	if _, err := a.Renew(as(t, "ann"), held.ID, time.Now()); err != nil { // now it is remembered
		t.Fatal(err)
	}
	for i, s := range []*Store{a, b} {
		for _, other := range []string{"bob", ""} {
			ctx := as(t, other)
			for what, err := range map[string]error{
				"look":                 errOf(s.Look(ctx, held.ID)),
				"look at the queued":   errOf(s.Look(ctx, queued.ID)),
				"ask":                  errOf(s.Ask(ctx, queued.ID, 0, time.Now())),
				"follow":               s.Follow(ctx, queued.ID, time.Now(), func(Lock) error { return errors.New("told") }),
				"release":              s.Release(ctx, held.ID),
				"release on the lease": s.Release(ctx, on.ID),
				"leave":                s.Release(ctx, queued.ID),
			} {
				wantErr(t, fmt.Sprintf("%s by %q at %d", what, other, i), err, ErrNoLock)
			}
			for what, err := range map[string]error{
				"renew the lock":    errOf(s.Renew(ctx, held.ID, time.Now())),
				"renew the queued":  errOf(s.Renew(ctx, queued.ID, time.Now())),
				"renew the lease":   errOf(s.Renew(ctx, lease.ID, time.Now())),
				"get the lease":     errOf(s.GetLease(ctx, lease.ID)),
				"get by the lock":   errOf(s.GetLease(ctx, held.ID)),
				"end the lease":     s.EndLease(ctx, lease.ID),
				"end by the lock":   s.EndLease(ctx, held.ID),
				"keep the lease":    s.Keep(ctx, lease.ID, func(Kept) error { return errors.New("told") }),
				"keep by the lock":  s.Keep(ctx, held.ID, func(Kept) error { return errors.New("told") }),
				"claim on it":       errOf(s.Claim(ctx, Claim{Name: "z", LeaseID: lease.ID})),
				"wait on it":        errOf(s.Claim(ctx, Claim{Name: "x", LeaseID: lease.ID, Queue: true})),
				"its claim again":   errOf(s.Claim(ctx, Claim{Name: "y", LeaseID: lease.ID})),
				"its claim, queued": errOf(s.Claim(ctx, Claim{Name: "y", LeaseID: lease.ID, Queue: true})),
			} {
				wantErr(t, fmt.Sprintf("%s by %q at %d", what, other, i), err, ErrNoLease)
			}
		}
	}
	for _, s := range []*Store{a, b} {
		if _, err := s.Renew(as(t, "ann"), held.ID, time.Now()); err != nil {
			t.Errorf("the owner renews: %v", err)
		}
		if l, err := s.GetLease(as(t, "ann"), lease.ID); err != nil || len(l.Locks) != 1 {
			t.Errorf("the owner's lease: %+v, %v", l, err)
		}
		if l, err := s.Look(as(t, "ann"), queued.ID); err != nil || l.Position != 1 {
			t.Errorf("the owner's place: %+v, %v", l, err)
		}
	}
	if err := b.Release(as(t, "ann"), held.ID); err != nil {
		t.Errorf("the owner releases: %v", err)
	}
	if l, err := b.Ask(as(t, "ann"), queued.ID, within, time.Now()); err != nil || l.State != Held || l.ID != queued.ID {
		t.Errorf("the owner's place after that: %+v, %v", l, err)
	}
}

// TestAKeyIsOneOfItsPrincipals: whoever knows another's idempotency key finds nothing by it.
func TestAKeyIsOneOfItsPrincipals(t *testing.T) {
	a, b := pair(t)
	const key = "a key that is known to both"
	mine := claimAs(t, a, "ann", Claim{Name: "x", Key: key})
	_, err := b.Claim(as(t, "bob"), Claim{Name: "x", Key: key, TTL: 30 * time.Second})
	var held *HeldError
	if !errors.As(err, &held) || held.Holder.Owner != "ann" || held.Holder.ID != "" {
		t.Errorf("the same key of another: got %v, want it held by ann, without an id", err)
	}
	if again := claimAs(t, b, "ann", Claim{Name: "x", Key: key}); again.ID != mine.ID || !again.Replayed {
		t.Errorf("the same key again: got %+v, want %+v", again, mine)
	}
}

// TestWhatIsMovedStaysItsOwners: a new raft term moves a lock to another etcd lease, and the owner with it.
func TestWhatIsMovedStaysItsOwners(t *testing.T) {
	etcd := etcdtest.New(t)
	s := open(t, etcd.Client(t))
	held := claimAs(t, s, "ann", Claim{Name: "x"})
	lease, err := s.NewLease(as(t, "ann"), Lease{TTL: 30 * time.Second}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	on := claimAs(t, s, "ann", Claim{Name: "y", LeaseID: lease.ID})
	etcd.Restart()
	for _, id := range []string{held.ID, lease.ID} {
		eventually(t, "renewed after the new term", func() bool {
			_, err := s.Renew(as(t, "ann"), id, time.Now())
			return err == nil
		})
	}
	for _, id := range []string{held.ID, on.ID} {
		wantErr(t, "look by another", errOf(s.Look(as(t, "bob"), id)), ErrNoLock)
		if l, err := s.Look(as(t, "ann"), id); err != nil || l.Owner != "ann" {
			t.Errorf("look by the owner: %+v, %v", l, err)
		}
	}
}
