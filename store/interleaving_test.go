package store

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// Interleavings of two replicas that broke an earlier design, each forced on a real etcd.

// faulty is a replica whose traffic with etcd can be held, cut and lost.
func faulty(t testing.TB, change ...func(*Config)) (*Store, *etcdtest.Faults) {
	faults := etcdtest.NewFaults(t)
	return open(t, etcdtest.Shared(t).Client(t, faults), change...), faults
}

// puts matches transactions that put under a prefix of keys, and not those that only compare or read it.
func puts(s *Store, key string) etcdtest.Match {
	return etcdtest.Txns(func(txn *pb.TxnRequest) bool { return putsIn(txn, key) })
}

func putsIn(txn *pb.TxnRequest, key string) bool {
	for _, op := range append(append([]*pb.RequestOp(nil), txn.Success...), txn.Failure...) {
		if p := op.GetRequestPut(); p != nil && len(p.Key) >= len(key) && string(p.Key[:len(key)]) == key {
			return true
		}
		if inner := op.GetRequestTxn(); inner != nil && putsIn(inner, key) {
			return true
		}
	}
	return false
}

func deletes(txn *pb.TxnRequest) bool {
	for _, op := range append(append([]*pb.RequestOp(nil), txn.Success...), txn.Failure...) {
		if op.GetRequestDeleteRange() != nil || op.GetRequestTxn() != nil && deletes(op.GetRequestTxn()) {
			return true
		}
	}
	return false
}

func asItStands(t testing.TB, s *Store, id string) standing {
	t.Helper()
	want, ok := parseLockID(id)
	if !ok {
		t.Fatalf("%q is no id", id)
	}
	got, err := s.read(ctxFor(t), clientv3.OpGet(s.keys.claim(want.name, want.nonce)))
	if err != nil {
		t.Fatal(err)
	}
	st, err := s.found(got.ranges[0], want)
	if err != nil {
		t.Fatalf("the claim does not stand: %v", err)
	}
	return st
}

func current(t testing.TB, s *Store) *registration {
	t.Helper()
	r, err := s.registered(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLateBeliefInAQueuedClaimChangesNothing(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x"})
	mine := enqueue(t, a, Claim{Name: "x"})
	old := asItStands(t, b, mine.ID)
	wait := askInBackground(t, a, mine, within)
	mustRelease(t, a, held)
	won := getHeld(t, wait)
	after := asItStands(t, b, mine.ID)

	r := current(t, b)
	sl, err := r.presence.take(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	if now, err := r.adopt(ctxFor(t), old, sl); err != nil || !now.Held {
		t.Errorf("a late adoption: got %+v, %v, want it told that the claim is held", now, err)
	}
	if now, _, err := r.grant(ctxFor(t), old, time.Now()); err != nil || now.Lease != after.Lease {
		t.Errorf("a late grant: got %+v, %v, want A's grant", now, err)
	}
	if now, err := r.takeOut(ctxFor(t), old); err != nil || !now.Held { // lapse and leaving are this
		t.Errorf("a late leaving: got %+v, %v, want the claim held", now, err)
	}
	r.presence.give(sl)
	if got := asItStands(t, b, mine.ID); got.modified != after.modified || got.onLease != after.onLease {
		t.Errorf("the claim was written: got %+v, want %+v", got, after)
	}
	if _, err := a.Renew(ctxFor(t), won.ID, time.Now()); err != nil {
		t.Errorf("the holder's renewal: %v", err)
	}
}

func TestOwnAnswerDoesNotAdvanceTheView(t *testing.T) {
	a := open(t, etcdtest.Shared(t).Client(t))
	b, faults := faulty(t)
	held := mustHold(t, a, Claim{Name: "x"})
	ctx, leave := context.WithCancel(ctxFor(t))
	first := inBackground(func() (Lock, error) {
		return b.Claim(ctx, Claim{Name: "x", TTL: 30 * time.Second, Wait: within})
	})
	eventually(t, "b watches the name", func() bool { return current(t, b).waiting("x") == 2 })

	lag := faults.Every(etcdtest.WatchReplies(nil)).HoldReply()
	lists := faults.Every(etcdtest.Txns(nil).And(etcdtest.Touches(b.keys.queue("x"))).And(func(c etcdtest.Call) bool { return !etcdtest.Writes(c) })).Hold()
	leave()
	if _, err := get(t, first); err == nil {
		t.Fatal("the cut wait succeeded")
	}
	queuedUp(t, a, "x", 1)
	older := claimInBackground(t, a, Claim{Name: "x", Wait: within, Key: "older-claim-of-a"})
	queuedUp(t, a, "x", 2)
	mine := claimInBackground(t, b, Claim{Name: "x", Wait: within})
	queuedUp(t, a, "x", 3)
	mustRelease(t, a, held)
	won := getHeld(t, older)
	// b knows of its own claim, and by its view of nothing else that could be ahead.
	if got := claimsOn(t, a, "x"); len(got) != 2 || got[0].State != Held || got[1].State != Queued {
		t.Fatalf("with the older claim held: got %+v", got)
	}
	stillWaiting(t, mine)
	lag.Release()
	lists.Release()
	mustRelease(t, a, won)
	getHeld(t, mine)
}

func TestAttemptHeldUpOnItsWayCannotApplyAfterItsRepeat(t *testing.T) {
	for what, claim := range map[string]func(t *testing.T, s *Store) Claim{
		"on its own lease": func(*testing.T, *Store) Claim { return Claim{Name: "x"} },
		"on its client's": func(t *testing.T, s *Store) Claim {
			return Claim{Name: "x", LeaseID: mustLease(t, s, 60*time.Second).ID}
		},
		"queued": func(t *testing.T, s *Store) Claim {
			mustHold(t, s, Claim{Name: "x"})
			return Claim{Name: "x", Queue: true}
		},
	} {
		t.Run(what, func(t *testing.T) {
			s, faults := faulty(t, func(c *Config) { c.RequestBound = 3 * time.Second })
			c := claim(t, s)
			before := len(claimsOn(t, s, "x"))
			late := faults.Next(puts(s, s.keys.locks())).Late()
			l := mustClaim(t, s, c)
			mustRelease(t, s, l)
			late.Release()
			late.WaitDone(t)
			if got := claimsOn(t, s, "x"); len(got) != before {
				t.Errorf("the late attempt applied: %+v", got)
			}
		})
	}
}

func TestLostReplyOfAClaimIsNotMetAsBusy(t *testing.T) {
	s, faults := faulty(t)
	lost := faults.Next(puts(s, s.keys.locks())).BreakReply(codes.Unavailable)
	l := mustHold(t, s, Claim{Name: "x"})
	lost.WaitDone(t)
	if l.Replayed {
		t.Error("a claim that met its own attempt says that it was replayed")
	}
	queuedUp(t, s, "x", 1)

	lost = faults.Next(puts(s, s.keys.locks())).BreakReply(codes.Unavailable)
	wait := claimInBackground(t, s, Claim{Name: "x", Wait: within})
	lost.WaitDone(t)
	queuedUp(t, s, "x", 2)
	mustRelease(t, s, l)
	if won := getHeld(t, wait); won.Replayed {
		t.Error("a queued claim that met its own attempt says that it was replayed")
	}
}

func TestLostReplyOfAReleaseIsARelease(t *testing.T) {
	s, faults := faulty(t)
	l := mustHold(t, s, Claim{Name: "x"})
	faults.Next(etcdtest.Txns(deletes)).BreakReply(codes.Unavailable)
	mustRelease(t, s, l)
	wantErr(t, "the client's own repeat", s.Release(ctxFor(t), l.ID), ErrNoLock)
}

func TestUnknownOutcomeIsToldAndConverges(t *testing.T) {
	a, faults := faulty(t, func(c *Config) { c.RequestBound = time.Second })
	b := open(t, etcdtest.Shared(t).Client(t))
	const key = "0123456789abcdef"
	lost := faults.Every(puts(a, a.keys.locks())).BreakReply(codes.Unavailable)
	fence := faults.Every(puts(a, a.keys.prefix+"replicas/")).Fail(codes.Unavailable)
	_, err := a.Claim(ctxFor(t), Claim{Name: "x", Key: key, TTL: 30 * time.Second})
	wantErr(t, "a claim without an answer", err, ErrUnknown)
	lost.WaitDone(t)
	found := mustHold(t, b, Claim{Name: "x", Key: key})
	if !found.Replayed {
		t.Errorf("found at b: %+v, want it replayed", found)
	}
	if _, err := b.Renew(ctxFor(t), found.ID, time.Now()); err != nil {
		t.Fatalf("renew at b: %v", err)
	}
	before := current(t, a).behind()
	lost.Remove()
	fence.Remove()
	eventually(t, "a has settled its doubt", func() bool { return current(t, a).behind() > before })
	mustHold(t, a, Claim{Name: "settled"})
	if got := asItStands(t, b, found.ID); !got.Held {
		t.Errorf("a took back what b told: %+v", got)
	}
	mustRelease(t, b, found)
	other := mustHold(t, b, Claim{Name: "x"})
	if _, err := b.Renew(ctxFor(t), other.ID, time.Now()); err != nil {
		t.Errorf("the next holder: %v", err)
	}
}

func TestUnknownOutcomeThatNobodyCanAskForLeavesNothing(t *testing.T) {
	for _, wait := range []time.Duration{0, within} {
		t.Run(wait.String(), func(t *testing.T) {
			a, faults := faulty(t, func(c *Config) { c.RequestBound = time.Second })
			held := Lock{}
			if wait > 0 {
				held = mustHold(t, a, Claim{Name: "x"})
			}
			lost := faults.Every(puts(a, a.keys.locks())).BreakReply(codes.Unavailable)
			fence := faults.Every(puts(a, a.keys.prefix+"replicas/")).Fail(codes.Unavailable)
			_, err := a.Claim(ctxFor(t), Claim{Name: "x", TTL: 60 * time.Second, Wait: wait})
			wantErr(t, "a claim without an answer", err, ErrUnknown)
			lost.Remove()
			fence.Remove()
			if wait > 0 {
				queuedUp(t, a, "x", 1)
				mustRelease(t, a, held)
			}
			queuedUp(t, a, "x", 0)
		})
	}
}

func TestKeyedClaimOfUnknownOutcomeThatNobodyRepeatsLapses(t *testing.T) {
	a, faults := faulty(t, func(c *Config) { c.RequestBound = time.Second })
	held := mustHold(t, a, Claim{Name: "x"})
	lost := faults.Every(puts(a, a.keys.locks())).BreakReply(codes.Unavailable)
	fence := faults.Every(puts(a, a.keys.prefix+"replicas/")).Fail(codes.Unavailable)
	_, err := a.Claim(ctxFor(t), Claim{Name: "x", TTL: 60 * time.Second, Wait: within, Key: "0123456789abcdef"})
	wantErr(t, "a claim without an answer", err, ErrUnknown)
	lost.Remove()
	fence.Remove()
	queuedUp(t, a, "x", 1)
	mustRelease(t, a, held)
}

func TestGrantTheClientAskedForElsewhereIsNotTakenBack(t *testing.T) {
	a, faults := faulty(t)
	b := open(t, etcdtest.Shared(t).Client(t))
	held := mustHold(t, a, Claim{Name: "x"})
	ctx, cut := context.WithCancel(ctxFor(t))
	first := inBackground(func() (Lock, error) {
		return a.Claim(ctx, Claim{Name: "x", TTL: 30 * time.Second, Wait: within, Key: "0123456789abcdef"})
	})
	mine := queuedUp(t, b, "x", 2)[1]
	grant := faults.Next(puts(a, a.keys.locks())).HoldReply()
	mustRelease(t, b, held)
	grant.WaitDone(t)
	cut()
	if _, err := get(t, first); err == nil {
		t.Error("the cut wait succeeded")
	}
	told, err := b.Ask(ctxFor(t), mine.ID, 0, time.Now())
	if err != nil || told.State != Held {
		t.Fatalf("ask at b: got %+v, %v", told, err)
	}
	grant.Release()
	eventually(t, "a has forgotten the place", func() bool { return a.serving() == 0 })
	if _, err := b.Renew(ctxFor(t), mine.ID, time.Now()); err != nil {
		t.Errorf("the lock was taken back: %v", err)
	}
}

func TestGrantThatNobodyCanKnowIsTakenBack(t *testing.T) {
	a, faults := faulty(t)
	held := mustHold(t, a, Claim{Name: "x"})
	ctx, cut := context.WithCancel(ctxFor(t))
	first := inBackground(func() (Lock, error) {
		return a.Claim(ctx, Claim{Name: "x", TTL: 60 * time.Second, Wait: within})
	})
	queuedUp(t, a, "x", 2)
	grant := faults.Next(puts(a, a.keys.locks())).HoldReply()
	mustRelease(t, a, held)
	grant.WaitDone(t)
	cut()
	if _, err := get(t, first); err == nil {
		t.Error("the cut wait succeeded")
	}
	grant.Release()
	queuedUp(t, a, "x", 0)
}

func TestReplicaPausedBetweenGrantAndAnswerTellsNoStaleHold(t *testing.T) {
	a, faults := faulty(t, func(c *Config) { c.RequestBound = within })
	b := open(t, shared(t))
	const ttl, pause = 4 * time.Second, 3 * time.Second // more than a third of the TTL, less than an attempt may take
	grant := faults.Next(puts(a, a.keys.locks())).HoldReply()
	slow := claimInBackground(t, a, Claim{Name: "x", TTL: ttl})
	grant.WaitDone(t)
	sleep(ctxFor(t), pause)
	grant.Release()
	told := getHeld(t, slow)
	answered := time.Now()
	next := getHeld(t, claimInBackground(t, b, Claim{Name: "x", Wait: within}))
	if gap := time.Since(answered); gap < ttl-ttl/3 { // renewed, at most a third of the TTL before it was told
		t.Errorf("another held %v after the answer, want at least two thirds of %v", gap, ttl)
	}
	if next.Token <= told.Token {
		t.Errorf("tokens: %d after %d", next.Token, told.Token)
	}
}

func TestReplayStartsTheTTLAgain(t *testing.T) {
	a, b := pair(t)
	const key, ttl = "0123456789abcdef", 3 * time.Second
	mustHold(t, a, Claim{Name: "x", Key: key, TTL: ttl})
	sleep(ctxFor(t), 2*time.Second)
	sent := time.Now()
	if again := mustHold(t, b, Claim{Name: "x", Key: key, TTL: ttl}); !again.Replayed {
		t.Fatalf("got %+v, want it replayed", again)
	}
	getHeld(t, claimInBackground(t, a, Claim{Name: "x", Wait: within}))
	if took := time.Since(sent); took < ttl {
		t.Errorf("granted to another %v after the replay was sent, want at least %v", took, ttl)
	}
}

func TestGrantAfterAWaitLongerThanItsTTLHasAWholeTTL(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x"})
	wait := claimInBackground(t, b, Claim{Name: "x", TTL: 2 * time.Second, Wait: within})
	queuedUp(t, a, "x", 2)
	sleep(ctxFor(t), 4*time.Second)
	mustRelease(t, a, held)
	won := getHeld(t, wait)
	sleep(ctxFor(t), time.Second)
	if _, err := a.Renew(ctxFor(t), won.ID, time.Now()); err != nil {
		t.Errorf("renew half a TTL after the grant: %v", err)
	}
}

func TestEndOfOneReplicasWaitLeavesAPlaceServedElsewhere(t *testing.T) {
	a, b := pair(t)
	const key = "0123456789abcdef"
	held := mustHold(t, a, Claim{Name: "x"})
	// As long as it waits, a would take the claim back after a third of the waiting TTL.
	first := claimInBackground(t, a, Claim{Name: "x", Wait: 500 * time.Millisecond, Key: key})
	queuedUp(t, a, "x", 2)
	second := claimInBackground(t, b, Claim{Name: "x", Wait: within, Key: key})
	if l, err := get(t, first); err != nil || l.State != Queued {
		t.Errorf("the first wait: got %+v, %v, want it told that the claim stands", l, err)
	}
	mustRelease(t, b, held)
	getHeld(t, second)
}

// TestAnswerThatComesAfterTheGrantDoesNotHideIt: a takes its claim back from b, b grants it, and a's watch tells that
// before a has the answer to what it did.
func TestAnswerThatComesAfterTheGrantDoesNotHideIt(t *testing.T) {
	a, faults := faulty(t, func(c *Config) { c.RequestBound = within })
	b := open(t, shared(t))
	const key = "0123456789abcdef"
	held := mustHold(t, b, Claim{Name: "x", TTL: 60 * time.Second})
	first := claimInBackground(t, a, Claim{Name: "x", Key: key, Wait: within})
	queuedUp(t, b, "x", 2)
	back := faults.Next(puts(a, a.keys.queue("x"))).HoldReply()
	second := claimInBackground(t, b, Claim{Name: "x", Key: key, Wait: within})
	back.WaitDone(t)
	mustRelease(t, b, held)
	won := getHeld(t, second)
	r := current(t, a)
	r.mu.Lock()
	line := r.lines["x"]
	r.mu.Unlock()
	eventually(t, "a has heard of the grant", func() bool {
		busy := line.busy("")
		return busy != nil && busy.Holder != nil && busy.Holder.Token == won.Token
	})
	stillWaiting(t, first)
	told := time.Now()
	back.Release()
	getHeld(t, first)
	if took := time.Since(told); took > within/2 {
		t.Errorf("told %v after a had the answer", took)
	}
}

func TestReleaseThatMeetsAGrantLeavesTheWaitingLeaseAlone(t *testing.T) {
	a, faults := faulty(t)
	b := open(t, shared(t)) // a release through A would grant in the same transaction
	held := mustHold(t, a, Claim{Name: "x"})
	mine := enqueue(t, a, Claim{Name: "x"})
	wait := askInBackground(t, a, mine, within)
	queuedUp(t, a, "x", 2)
	grant := faults.Next(puts(a, a.keys.locks())).Hold()
	mustRelease(t, b, held)
	grant.WaitArrived(t)
	before := asItStands(t, a, mine.ID)
	mustRelease(t, b, mine) // through A it would go behind the grant, which then can be first
	grant.Release()
	if _, err := get(t, wait); !errors.Is(err, ErrPlaceLost) {
		t.Errorf("the wait on a released claim: got %v, want %v", err, ErrPlaceLost)
	}
	sleep(ctxFor(t), 300*time.Millisecond) // what is revoked or pooled is so beside the release
	resp, err := a.left(ctxFor(t), before.onLease)
	if err != nil || resp.TTL <= 0 {
		t.Errorf("the waiting lease is gone: %v, %v", resp, err)
	}
	for lease, ok := takeIdle(t, b, mine.TTL); ok; lease, ok = takeIdle(t, b, mine.TTL) {
		if lease == before.onLease {
			t.Error("the waiting lease is among B's idle ones, and it is A's")
		}
	}
}

func takeIdle(t *testing.T, s *Store, ttl time.Duration) (clientv3.LeaseID, bool) {
	l, ok := current(t, s).pool.take(ttl)
	return l.id, ok
}

func TestPlaceWhoseKeyVanishesEndsItsWait(t *testing.T) {
	a, b := pair(t)
	mustHold(t, a, Claim{Name: "x"})
	mine := enqueue(t, a, Claim{Name: "x"})
	wait := askInBackground(t, a, mine, within)
	eventually(t, "somebody is attached", func() bool { return a.serving() == 1 })
	st := asItStands(t, b, mine.ID)
	if _, err := b.etcd.Delete(ctxFor(t), st.key); err != nil {
		t.Fatal(err)
	}
	_, err := get(t, wait)
	if !errors.Is(err, ErrPlaceLost) && !errors.Is(err, ErrNoLock) {
		t.Errorf("got %v, want %v", err, ErrPlaceLost)
	}
}
