package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// fused matches the transactions that release one claim on a name and grant another.
func fused(s *Store, name string) etcdtest.Match {
	return etcdtest.Txns(func(txn *etcdserverpb.TxnRequest) bool { return deletes(txn) && putsIn(txn, s.keys.queue(name)) })
}

// aboutToHandOff is a lock held with one waiter behind it, served and seen by a.
func aboutToHandOff(t testing.TB, a *Store, c Claim) (held Lock, wait <-chan result) {
	t.Helper()
	c.Name, c.Wait = "x", within
	held = mustHold(t, a, Claim{Name: "x"})
	wait = claimInBackground(t, a, c)
	eventually(t, "a watches the name", func() bool { return current(t, a).waiting("x") == 2 })
	return held, wait
}

func releaseInBackground(t testing.TB, s *Store, l Lock) <-chan result {
	ctx := ctxFor(t)
	return inBackground(func() (Lock, error) { return l, s.Release(ctx, l.ID) })
}

// wantSoleHolder asks that l alone stands on its name, with its token, and can be renewed.
func wantSoleHolder(t testing.TB, s *Store, l Lock) {
	t.Helper()
	if got := claimsOn(t, s, l.Name); len(got) != 1 || got[0].State != Held || got[0].Token != l.Token {
		t.Errorf("got %+v on the name, want it held with token %d", got, l.Token)
	}
	if id, _ := parseLockID(l.ID); l.Token != current(t, s).epoch.Base+id.revision {
		t.Errorf("token %d is not that of revision %d", l.Token, id.revision)
	}
	if _, err := s.Renew(ctxFor(t), l.ID, time.Now()); err != nil {
		t.Errorf("renew: %v", err)
	}
}

func TestHandOffWhoseReplyIsLostReleasesAndGrantsOnce(t *testing.T) {
	for name, lose := range map[string]func(*etcdtest.Fault) *etcdtest.Fault{
		"lost":   (*etcdtest.Fault).LoseReply,
		"broken": func(x *etcdtest.Fault) *etcdtest.Fault { return x.BreakReply(codes.Unavailable) },
		"late":   (*etcdtest.Fault).HoldReply,
	} {
		t.Run(name, func(t *testing.T) {
			a, faults := faulty(t)
			held, wait := aboutToHandOff(t, a, Claim{})
			reply := lose(faults.Next(fused(a, "x")))
			if err := a.Release(ctxFor(t), held.ID); err != nil {
				t.Errorf("release: %v", err)
			}
			reply.WaitDone(t)
			won := getHeld(t, wait)
			reply.Release()
			if won.Token <= held.Token {
				t.Errorf("token %d after %d", won.Token, held.Token)
			}
			wantErr(t, "the client's own repeat", a.Release(ctxFor(t), held.ID), ErrNoLock)
			wantSoleHolder(t, a, won)
			mustRelease(t, a, won)
			queuedUp(t, a, "x", 0)
		})
	}
}

func TestHandOffHeldUpOnItsWayCannotApplyAfterItsFence(t *testing.T) {
	a, faults := faulty(t, func(c *Config) { c.RequestBound = within / 2 })
	held, wait := aboutToHandOff(t, a, Claim{})
	late := faults.Next(fused(a, "x")).Late()
	repeat := faults.Next(etcdtest.Txns(deletes).And(etcdtest.Touches(a.keys.queue("x")))).Hold()
	release := releaseInBackground(t, a, held)
	repeat.WaitArrived(t) // so the fence has been raised, and all stands as it did
	late.Release()
	late.WaitDone(t)
	if got := claimsOn(t, a, "x"); len(got) != 2 || got[0].Token != held.Token || got[1].State != Queued {
		t.Errorf("the late hand-off applied: %+v", got)
	}
	stillWaiting(t, wait)
	repeat.Release()
	if _, err := get(t, release); err != nil {
		t.Errorf("release: %v", err)
	}
	wantSoleHolder(t, a, getHeld(t, wait))
}

// TestReleasePassesWhateverBecameOfItsHeir lets something happen to the next in line while the hand-off is on its way.
func TestReleasePassesWhateverBecameOfItsHeir(t *testing.T) {
	type scene struct {
		etcd  *etcdtest.Server
		a, b  *Store
		atA   *etcdtest.Faults
		atB   *etcdtest.Faults
		lease Lease
		mine  Lock
		leave context.CancelFunc
		wait  <-chan result
		after func(t *testing.T)
	}
	for name, meanwhile := range map[string]func(t *testing.T, s *scene){
		"adopted by another replica": func(t *testing.T, s *scene) {
			old := asItStands(t, s.b, s.mine.ID)
			elsewhere := askInBackground(t, s.b, s.mine, within)
			eventually(t, "b adopts the claim", func() bool { return asItStands(t, s.b, s.mine.ID).onLease != old.onLease })
			// Either may grant it on what it then knows.
			grants := []*etcdtest.Fault{s.atA.Every(puts(s.a, s.a.keys.queue("x"))).Hold(), s.atB.Every(puts(s.b, s.b.keys.queue("x"))).Hold()}
			s.after = func(t *testing.T) {
				if asItStands(t, s.b, s.mine.ID).Held {
					t.Error("granted on what was known before the claim was written again")
				}
				for _, grant := range grants {
					grant.Remove()
					grant.Release()
				}
				getHeld(t, elsewhere)
				wantSoleHolder(t, s.a, getHeld(t, s.wait))
			}
		},
		"its client's lease has ended": func(t *testing.T, s *scene) {
			record, err := s.b.readLease(ctxFor(t), calledOf(t, s.lease.ID))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.b.etcd.Revoke(ctxFor(t), record.Lease); err != nil {
				t.Fatal(err)
			}
			s.after = func(t *testing.T) {
				_, err := get(t, s.wait)
				wantErr(t, "the wait on an ended lease", err, ErrNoLease)
				queuedUp(t, s.b, "x", 0)
			}
		},
		"its client has left": func(t *testing.T, s *scene) {
			s.leave()
			s.after = func(t *testing.T) {
				if _, err := get(t, s.wait); err == nil {
					t.Error("the cut wait succeeded")
				}
				queuedUp(t, s.b, "x", 0)
			}
		},
		"released": func(t *testing.T, s *scene) {
			mustRelease(t, s.b, s.mine)
			s.after = func(t *testing.T) {
				_, err := get(t, s.wait)
				wantErr(t, "the wait on a released claim", err, ErrPlaceLost)
				queuedUp(t, s.b, "x", 0)
			}
		},
		"the store is full": func(t *testing.T, s *scene) {
			alarm(t, s.etcd, etcdserverpb.AlarmRequest_ACTIVATE)
			s.after = func(t *testing.T) {
				queuedUp(t, s.b, "x", 1)
				stillWaiting(t, s.wait)
				alarm(t, s.etcd, etcdserverpb.AlarmRequest_DEACTIVATE)
				wantSoleHolder(t, s.a, getHeld(t, s.wait))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := etcdtest.New(t)
			s := &scene{etcd: etcd, atA: etcdtest.NewFaults(t), atB: etcdtest.NewFaults(t)}
			s.a, s.b = open(t, etcd.Client(t, s.atA), patient), open(t, etcd.Client(t, s.atB), patient)
			c := Claim{Name: "x", Wait: within, TTL: 30 * time.Second}
			if name == "its client's lease has ended" {
				s.lease = mustLease(t, s.a, 60*time.Second)
				c.LeaseID, c.TTL = s.lease.ID, 0
			}
			held := mustHold(t, s.a, Claim{Name: "x"})
			var ctx context.Context
			ctx, s.leave = context.WithCancel(ctxFor(t))
			defer s.leave()
			s.wait = inBackground(func() (Lock, error) { return s.a.Claim(ctx, c) })
			s.mine = queuedUp(t, s.b, "x", 2)[1]
			eventually(t, "a watches the name", func() bool { return current(t, s.a).waiting("x") == 2 })

			both := s.atA.Next(fused(s.a, "x")).Hold()
			release := releaseInBackground(t, s.a, held)
			both.WaitArrived(t)
			meanwhile(t, s)
			both.Release()
			if _, err := get(t, release); err != nil {
				t.Errorf("release: %v", err)
			}
			if _, err := s.b.Look(ctxFor(t), held.ID); !errors.Is(err, ErrNoLock) {
				t.Errorf("the released lock: got %v, want %v", err, ErrNoLock)
			}
			s.after(t)
		})
	}
}

// TestLineIsHandedOnWithoutTheWatch releases one after the other while no event arrives. What the events then tell is
// known, and grants nothing again.
func TestLineIsHandedOnWithoutTheWatch(t *testing.T) {
	const waiters = 4
	a, faults := faulty(t)
	held := mustHold(t, a, Claim{Name: "x"})
	begun := asItStands(t, a, held.ID).created
	var waits []<-chan result
	for i := range waiters {
		waits = append(waits, claimInBackground(t, a, Claim{Name: "x", Wait: within, Holder: fmt.Sprint(i)}))
		eventually(t, "a sees them in order", func() bool { return current(t, a).waiting("x") == 2+i })
	}
	lag := faults.Every(etcdtest.WatchReplies(nil)).HoldReply()
	handOffs := faults.Every(fused(a, "x")).Count()
	for i, wait := range waits {
		mustRelease(t, a, held)
		next := getHeld(t, wait)
		if next.Token <= held.Token {
			t.Errorf("token %d after %d", next.Token, held.Token)
		}
		if n := handOffs.Hits(); n != i+1 {
			t.Fatalf("release %d: %d granted the next in line, want each", i+1, n)
		}
		held = next
	}
	lag.WaitArrived(t)
	lag.Release()
	last := claimInBackground(t, a, Claim{Name: "x", Wait: within})
	eventually(t, "the late events have come", func() bool { return current(t, a).waiting("x") == 2 })
	wantSoleHolderAhead(t, a, held)
	mustRelease(t, a, held)
	wantSoleHolder(t, a, getHeld(t, last))
	for key, puts := range history(t, a, "x", begun) {
		for created, n := range puts {
			if want := 2; created != begun && n != want {
				t.Errorf("the claim of revision %d under %q was put %d times, want %d: queued, held", created, key, n, want)
			}
		}
	}
}

func wantSoleHolderAhead(t testing.TB, s *Store, l Lock) {
	t.Helper()
	got := claimsOn(t, s, l.Name)
	if len(got) != 2 || got[0].State != Held || got[0].Token != l.Token || got[1].State != Queued {
		t.Errorf("got %+v, want token %d held and one behind it", got, l.Token)
	}
}

// history counts the puts of every claim on a name since a revision: by key and create-revision.
func history(t testing.TB, s *Store, name string, from int64) map[string]map[int64]int {
	t.Helper()
	end, err := s.etcd.Put(ctxFor(t), s.keys.prefix+"end", "")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[int64]int{}
	events := s.etcd.Watch(ctxFor(t), s.keys.prefix, clientv3.WithPrefix(), clientv3.WithRev(from))
	for resp := range events {
		if err := resp.Err(); err != nil {
			t.Fatal(err)
		}
		for _, e := range resp.Events {
			if e.Kv.ModRevision == end.Header.Revision {
				return found
			}
			key := string(e.Kv.Key)
			if e.Type != clientv3.EventTypePut || !strings.HasPrefix(key, s.keys.queue(name)) {
				continue
			}
			if found[key] == nil {
				found[key] = map[int64]int{}
			}
			found[key][e.Kv.CreateRevision]++
		}
	}
	t.Fatal("the watch ended")
	return nil
}
