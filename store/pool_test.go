package store

import (
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// pooled are the etcd leases in a replica's pool.
func pooled(t testing.TB, s *Store) []clientv3.LeaseID {
	t.Helper()
	p := &current(t, s).pool
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []clientv3.LeaseID
	for _, leases := range p.idle {
		for _, l := range leases {
			ids = append(ids, l.id)
		}
	}
	return ids
}

// wantTaken asks for a lock on the etcd lease that was pooled.
func wantTaken(t testing.TB, s *Store, l Lock, lease clientv3.LeaseID) standing {
	t.Helper()
	st := asItStands(t, s, l.ID)
	if st.onLease != lease || st.Lease != lease {
		t.Fatalf("%q is on the etcd lease %x, want the pooled %x", l.Name, st.onLease, lease)
	}
	return st
}

func TestPooledLeaseThatEndedUnnoticedIsNotHeldOn(t *testing.T) {
	const ttl = 3 * time.Second
	for name, end := range map[string]func(t *testing.T, s *Store, id clientv3.LeaseID){
		"revoked": func(t *testing.T, s *Store, id clientv3.LeaseID) {
			if _, err := s.etcd.Revoke(ctxFor(t), id); err != nil {
				t.Fatal(err)
			}
		},
		"ran out": func(t *testing.T, s *Store, id clientv3.LeaseID) {
			p := &current(t, s).pool
			p.mu.Lock()
			p.idle[ttl][0].until = time.Now().Add(time.Hour) // as after a pause that the clock did not count
			p.mu.Unlock()
			eventually(t, "it has run out", func() bool { return ended(t, s, id) })
		},
	} {
		for what, c := range map[string]Claim{"a try": {}, "a wait": {Wait: within}} {
			t.Run(name+" before "+what, func(t *testing.T) {
				s := open(t, shared(t))
				first := mustHold(t, s, Claim{Name: "x", TTL: ttl})
				dead := asItStands(t, s, first.ID).Lease
				mustRelease(t, s, first)
				if got := pooled(t, s); !slices.Equal(got, []clientv3.LeaseID{dead}) {
					t.Fatalf("got %x pooled, want %x", got, dead)
				}
				end(t, s, dead)
				c.Name, c.TTL = "y", ttl
				l := mustHold(t, s, c)
				if st := asItStands(t, s, l.ID); st.onLease == dead || st.onLease != st.Lease {
					t.Errorf("held on the etcd lease %x, want another than %x", st.onLease, dead)
				}
				wantSoleHolder(t, s, l)
				if got := pooled(t, s); len(got) != 0 {
					t.Errorf("got %x pooled again", got)
				}
			})
		}
	}
}

func TestLateRenewalByTheLastUserOfALeaseIsRefused(t *testing.T) {
	for _, next := range []string{"y", "x"} { // on its name too: then under the same key
		t.Run(next, func(t *testing.T) {
			a, b := pair(t)
			last := mustHold(t, a, Claim{Name: "x"})
			lease := asItStands(t, a, last.ID).Lease
			if _, err := b.Renew(ctxFor(t), last.ID, time.Now()); err != nil {
				t.Fatal(err)
			}
			if _, known := b.remembered(last.ID); !known {
				t.Fatal("b has not kept the witness of a renewal")
			}
			mustRelease(t, a, last)
			l := mustHold(t, a, Claim{Name: next})
			st := wantTaken(t, a, l, lease)
			for range 2 {
				for who, s := range map[string]*Store{"a": a, "b": b} {
					_, err := s.Renew(ctxFor(t), last.ID, time.Now())
					wantErr(t, "a late renewal at "+who, err, ErrNoLease)
				}
			}
			if now := asItStands(t, b, l.ID); now.modified != st.modified || now.onLease != lease {
				t.Errorf("the next user's lock: got %+v, want %+v", now, st)
			}
			for _, s := range []*Store{a, b, b} {
				if got, err := s.Renew(ctxFor(t), l.ID, time.Now()); err != nil || got.Token != l.Token {
					t.Errorf("the next user's renewal: got %+v, %v", got, err)
				}
			}
			wantSoleHolder(t, b, l)
		})
	}
}

// TestRepeatLeavesALeaseAloneThatItsUnansweredAttemptGaveAway lets a claim be found by its key at another replica while
// its own still waits for etcd's answer, be released there, and its etcd lease go to a third.
func TestRepeatLeavesALeaseAloneThatItsUnansweredAttemptGaveAway(t *testing.T) {
	const key = "0123456789abcdef"
	for name, third := range map[string]string{"and claims": "y", "and meets the third": "x"} {
		t.Run(name, func(t *testing.T) {
			a, faults := faulty(t, func(c *Config) { c.RequestBound = within / 2 })
			b := open(t, shared(t))
			first := faults.Next(puts(a, a.keys.queue("x"))).HoldReply()
			repeat := faults.Next(puts(a, a.keys.queue("x"))).Hold()
			try := claimInBackground(t, a, Claim{Name: "x", Key: key})
			first.WaitDone(t)
			found := mustHold(t, b, Claim{Name: "x", Key: key})
			lease := asItStands(t, b, found.ID).Lease
			mustRelease(t, b, found)
			other := mustHold(t, b, Claim{Name: third})
			st := wantTaken(t, b, other, lease)
			repeat.WaitArrived(t)
			repeat.Release()
			l, err := get(t, try)
			if third == "x" {
				wantBusy(t, "the repeat", err)
			} else if err != nil || l.State != Held || asItStands(t, b, l.ID).onLease == lease {
				t.Errorf("the repeat: got %+v, %v, want it held on a lease of its own", l, err)
			} else {
				mustRelease(t, a, l)
			}
			wantLeftAlone(t, a, b, other, st)
		})
	}
}

func TestRepeatOfAGrantLeavesALeaseAloneThatItsUnansweredAttemptGaveAway(t *testing.T) {
	a, faults := faulty(t, func(c *Config) { c.RequestBound = within / 2 })
	b := open(t, shared(t))
	held := mustHold(t, b, Claim{Name: "x"})
	mine := enqueue(t, a, Claim{Name: "x"})
	wait := askInBackground(t, a, mine, within)
	eventually(t, "a watches the name", func() bool { return current(t, a).waiting("x") == 2 })
	first := faults.Next(puts(a, a.keys.queue("x"))).HoldReply()
	repeat := faults.Next(puts(a, a.keys.queue("x"))).Count()
	mustRelease(t, b, held)
	first.WaitDone(t)
	lease := asItStands(t, b, mine.ID).Lease
	mustRelease(t, b, mine)
	eventually(t, "b has its lease pooled, on top", func() bool {
		got := pooled(t, b)
		return len(got) == 2 && got[1] == lease
	})
	other := mustHold(t, b, Claim{Name: "y"})
	st := wantTaken(t, b, other, lease)
	_, err := get(t, wait)
	wantErr(t, "the wait on a released claim", err, ErrPlaceLost)
	repeat.WaitArrived(t)
	eventually(t, "a has its answer", func() bool { return a.serving() == 0 })
	wantLeftAlone(t, a, b, other, st)
}

// wantLeftAlone asks that a lock stands on its etcd lease as it did, and that replica a has no hand on that.
func wantLeftAlone(t testing.TB, a, b *Store, l Lock, st standing) {
	t.Helper()
	if got := pooled(t, a); slices.Contains(got, st.onLease) {
		t.Errorf("a has pooled %x, which %q is on", st.onLease, l.Name)
	}
	if now := asItStands(t, b, l.ID); now.modified != st.modified || now.onLease != st.onLease {
		t.Errorf("%q: got %+v, want %+v", l.Name, now, st)
	}
	if left, err := a.left(ctxFor(t), st.onLease); err != nil || left.TTL <= 0 {
		t.Errorf("the etcd lease of %q: %+v, %v", l.Name, left, err)
	}
	if next := mustHold(t, a, Claim{Name: "next"}); asItStands(t, a, next.ID).onLease == st.onLease {
		t.Errorf("a put another lock on the etcd lease of %q", l.Name)
	}
	wantSoleHolder(t, b, l)
}
