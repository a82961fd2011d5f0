package store

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestDeadLeaseInABatchFailsItsOwnMemberAlone(t *testing.T) {
	const members, dead = 40, 17
	s, faults := faulty(t, patient)
	open := shut(t, s, faults)
	sent := logTxns(s, faults)
	errs := make([]error, members)
	var work sync.WaitGroup
	for i := range members {
		work.Go(func() {
			lease := clientv3.LeaseID(0)
			if i == dead {
				lease = newLeaseID(holdLease, 1) // which etcd has never heard of
			}
			_, errs[i] = s.commit(ctxFor(t), nil, func(*registration, bool) (part, error) {
				return partOf(s, fmt.Sprintf("member/%d", i), lease, false), nil
			})
		})
	}
	gathered(t, s, members)
	open()
	work.Wait()
	for i, err := range errs {
		if i == dead && !errors.Is(err, rpctypes.ErrLeaseNotFound) || i != dead && err != nil {
			t.Errorf("member %d: got %v", i, err)
		}
	}
	got, err := s.etcd.Get(ctxFor(t), s.keys.prefix+"member/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || got.Count != members-1 {
		t.Errorf("got %d keys, %v, want %d", got.Count, err, members-1)
	}
	if n := sent.largest(t); n != members {
		t.Errorf("at most %d travelled together, want all %d", n, members)
	}
	if n, most := sent.count(), 1+2*bits.Len(members); n > most {
		t.Errorf("it took %d transactions, want at most %d: halves", n, most)
	}
}

func TestRevokedPooledLeaseDelaysNoClaimThatTravelsWithIt(t *testing.T) {
	const pooled, claims, ttl = 5, 40, 20 * time.Second
	s, faults := faulty(t, patient)
	var before []Lock
	for i := range pooled {
		before = append(before, mustHold(t, s, Claim{Name: fmt.Sprintf("before %d", i), TTL: ttl}))
	}
	dead := asItStands(t, s, before[pooled/2].ID).Lease
	for _, l := range before {
		mustRelease(t, s, l)
	}
	if n := s.idleLeases(); n != pooled {
		t.Fatalf("%d leases are pooled, want %d", n, pooled)
	}
	if _, err := s.etcd.Revoke(ctxFor(t), dead); err != nil {
		t.Fatal(err)
	}
	open := shut(t, s, faults)
	sent := logTxns(s, faults)
	grants := faults.Calls(etcdtest.MethodLeaseGrant)
	var waits []<-chan result
	for i := range claims {
		waits = append(waits, claimInBackground(t, s, Claim{Name: fmt.Sprintf("n%d", i), TTL: ttl}))
	}
	gathered(t, s, claims)
	open()
	leases := map[clientv3.LeaseID]bool{dead: true}
	for _, wait := range waits {
		l := getHeld(t, wait)
		st := asItStands(t, s, l.ID)
		if leases[st.onLease] {
			t.Errorf("%q is on a lease that is dead or another's", l.Name)
		}
		leases[st.onLease] = true
	}
	if n := sent.largest(t); n != claims {
		t.Errorf("at most %d travelled together, want all %d", n, claims)
	}
	if n, want := faults.Calls(etcdtest.MethodLeaseGrant)-grants, claims-pooled+1; n != want {
		t.Errorf("%d leases were begun, want %d: one in the place of the dead one", n, want)
	}
}

func TestClaimsOfOneNameNeverTravelTogether(t *testing.T) {
	const rivals, others = 3, 6
	s, faults := faulty(t, patient)
	open := shut(t, s, faults)
	sent := logTxns(s, faults)
	var waits []<-chan result
	for i := range rivals + others {
		name := "x"
		if i >= rivals {
			name = fmt.Sprintf("n%d", i)
		}
		waits = append(waits, claimInBackground(t, s, Claim{Name: name, Queue: true}))
	}
	gathered(t, s, rivals+others)
	open()
	held := 0
	created := map[int64]bool{}
	for i, wait := range waits {
		l, err := get(t, wait)
		if err != nil {
			t.Fatal(err)
		}
		if i >= rivals {
			if l.State != Held {
				t.Errorf("%q: got %+v, want it held", l.Name, l)
			}
			continue
		}
		if id, _ := parseLockID(l.ID); created[id.revision] {
			t.Errorf("two claims of one name have the revision %d", id.revision)
		} else {
			created[id.revision] = true
		}
		if l.State == Held {
			held++
		}
	}
	if held != 1 {
		t.Errorf("%d claims of one name are held, want 1", held)
	}
	if n := sent.largest(t); n != others+1 {
		t.Errorf("at most %d travelled together, want %d: one of each name", n, others+1)
	}
}

func TestReleasesOfOneLockNeverTravelTogether(t *testing.T) {
	s, faults := faulty(t, patient)
	l, other := mustHold(t, s, Claim{Name: "x"}), mustHold(t, s, Claim{Name: "y"})
	open := shut(t, s, faults)
	sent := logTxns(s, faults)
	release := func(l Lock) <-chan result {
		ctx := ctxFor(t)
		return inBackground(func() (Lock, error) { return l, s.Release(ctx, l.ID) })
	}
	first, second, third := release(l), release(l), release(other)
	gathered(t, s, 3)
	open()
	_, err1 := get(t, first)
	_, err2 := get(t, second)
	if (err1 == nil) == (err2 == nil) || !errors.Is(errors.Join(err1, err2), ErrNoLock) {
		t.Errorf("two releases of one lock: got %v and %v, want one of them told that it is gone", err1, err2)
	}
	if _, err := get(t, third); err != nil {
		t.Errorf("the other release: %v", err)
	}
	if n := s.idleLeases(); n != 2 {
		t.Errorf("%d leases are pooled, want each of two once", n)
	}
	if n := sent.largest(t); n != 2 {
		t.Errorf("at most %d travelled together, want one of each name", n)
	}
}

func TestGrantsOfOneClaimNeverTravelTogether(t *testing.T) {
	s, faults := faulty(t, patient)
	held := mustHold(t, s, Claim{Name: "x"})
	mine := enqueue(t, s, Claim{Name: "x"})
	mustRelease(t, s, held) // nobody is attached: it stays queued
	st, r := asItStands(t, s, mine.ID), current(t, s)
	open := shut(t, s, faults)
	sent := logTxns(s, faults)
	grants := make([]standing, 2)
	var work sync.WaitGroup
	for i := range grants {
		work.Go(func() {
			var err error
			if grants[i], _, err = r.grant(ctxFor(t), st, time.Now()); err != nil {
				t.Errorf("grant: %v", err)
			}
		})
	}
	gathered(t, s, len(grants))
	open()
	work.Wait()
	if now := asItStands(t, s, mine.ID); grants[0].Lease != now.onLease || grants[1].Lease != now.onLease {
		t.Errorf("granted on %x and %x, and stands on %x", grants[0].Lease, grants[1].Lease, now.onLease)
	}
	if n := sent.largest(t); n != 1 {
		t.Errorf("%d grants of one claim travelled together", n)
	}
}

func TestReleasesPassInAFullStoreThoughClaimsTravelWithThem(t *testing.T) {
	const each = 8
	etcd := etcdtest.New(t)
	faults := etcdtest.NewFaults(t)
	s := open(t, etcd.Client(t, faults), patient)
	var held []Lock
	for i := range each {
		held = append(held, mustHold(t, s, Claim{Name: fmt.Sprintf("held %d", i)}))
	}
	let := shut(t, s, faults)
	sent := logTxns(s, faults)
	var claims, releases []<-chan result
	for i, l := range held {
		claims = append(claims, claimInBackground(t, s, Claim{Name: fmt.Sprintf("new %d", i)}))
		ctx := ctxFor(t)
		releases = append(releases, inBackground(func() (Lock, error) { return l, s.Release(ctx, l.ID) }))
	}
	gathered(t, s, 2*each)
	alarm(t, etcd, etcdserverpb.AlarmRequest_ACTIVATE)
	let()
	for i := range each {
		if _, err := get(t, releases[i]); err != nil {
			t.Errorf("release %d: %v", i, err)
		}
		_, err := get(t, claims[i])
		wantErr(t, "a claim in a full store", err, ErrUnavailable)
	}
	if n := sent.largest(t); n != 2*each {
		t.Errorf("at most %d travelled together, want all %d", n, 2*each)
	}
	got, err := s.etcd.Get(ctxFor(t), s.keys.locks(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || got.Count != 0 {
		t.Errorf("got %d claims, %v, want none", got.Count, err)
	}
}

func TestWhatNobodyWaitsForAnyMoreIsNotSent(t *testing.T) {
	s, faults := faulty(t, patient)
	open := shut(t, s, faults)
	ctx, cut := context.WithCancel(ctxFor(t))
	left, stays := travel(ctx, s, "member/left"), travel(ctxFor(t), s, "member/stays")
	gathered(t, s, 2)
	cut()
	_, err := get(t, left)
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown) {
		t.Errorf("one that left before it was sent: got %v, want %v", err, ErrUnavailable)
	}
	open()
	if _, err := get(t, stays); err != nil {
		t.Errorf("the one beside it: %v", err)
	}
	if keys := members(t, s); !slices.Equal(keys, []string{"member/stays"}) {
		t.Errorf("got %q in etcd, want only the one that stayed", keys)
	}
}

func TestOneThatLeavesUnderWayIsToldThatNobodyKnows(t *testing.T) {
	s, faults := faulty(t, patient)
	open := shut(t, s, faults)
	ctx, cut := context.WithCancel(ctxFor(t))
	batch := faults.Next(etcdtest.Touches(s.keys.prefix + "member/")).Hold()
	left, stays := travel(ctx, s, "member/left"), travel(ctxFor(t), s, "member/stays")
	gathered(t, s, 2)
	open()
	batch.WaitArrived(t)
	cut()
	_, err := get(t, left)
	wantErr(t, "one that left under way", err, ErrUnknown)
	stillWaiting(t, stays)
	batch.Release()
	if _, err := get(t, stays); err != nil {
		t.Errorf("the one beside it: %v", err)
	}
	if keys := members(t, s); !slices.Contains(keys, "member/stays") { // the other may be there or not: its fence may have stopped it
		t.Errorf("got %q in etcd, want the one that stayed", keys)
	}
}

func TestBatchIsLoadedWithoutWhomNobodyWaitsFor(t *testing.T) {
	s := open(t, shared(t))
	r := current(t, s)
	gone, cut := context.WithCancel(ctxFor(t))
	cut()
	passengers := make([]*passenger, 4)
	for i, subject := range []string{"a", "b", "a", "c"} {
		passengers[i] = &passenger{ctx: ctxFor(t), part: part{subject: subject}, done: make(chan arrival, 1)}
	}
	passengers[1].ctx = gone
	batch, left := loadBatch(slices.Clone(passengers))
	batch = r.board(batch)
	if !slices.Equal(batch, []*passenger{passengers[0], passengers[3]}) || !slices.Equal(left, passengers[2:3]) {
		t.Errorf("got %d in the batch and %d left, want the first of a and that of c; the second of a left", len(batch), len(left))
	}
	select {
	case got := <-passengers[1].done:
		wantErr(t, "the one that is gone", got.err, errUnsent)
	default:
		t.Error("the one that is gone was not told")
	}
}

func TestBatchStaysWithinItsBounds(t *testing.T) {
	load := func(n, bytes int) (batch, left []*passenger) {
		waiting := make([]*passenger, n)
		for i := range waiting {
			waiting[i] = &passenger{ctx: ctxFor(t), part: part{subject: fmt.Sprint(i)}, bytes: bytes, done: make(chan arrival, 1)}
		}
		return loadBatch(waiting)
	}
	for name, c := range map[string]struct{ n, bytes, want int }{
		"many":                {maxBatch + 5, 100, maxBatch},
		"heavy":               {10, maxBatchBytes / 3, 3},
		"one alone too heavy": {3, 2 * maxBatchBytes, 1},
		"few":                 {2, 100, 2},
	} {
		if batch, left := load(c.n, c.bytes); len(batch) != c.want || len(left) != c.n-c.want {
			t.Errorf("%s: got %d and %d left, want %d and %d", name, len(batch), len(left), c.want, c.n-c.want)
		}
	}
}
