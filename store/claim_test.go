package store

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestOneHolderAtATime(t *testing.T) {
	a, b := pair(t)
	first := mustHold(t, a, Claim{Name: "x", Holder: "one"})
	_, err := b.Claim(ctxFor(t), Claim{Name: "x", TTL: 10 * time.Second})
	busy := wantBusy(t, "a try on a held name", err)
	if busy.Holder == nil || busy.Holder.Token != first.Token || busy.Holder.Holder != "one" || busy.Holder.ID != "" || busy.Holder.LeaseID != "" {
		t.Errorf("busy: got holder %+v, want token %d of one, and no id", busy.Holder, first.Token)
	}
	if got := claimsOn(t, a, "x"); len(got) != 1 {
		t.Errorf("after a refused try: got %d claims, want 1", len(got))
	}
	mustRelease(t, b, first)
	second := mustHold(t, b, Claim{Name: "x"})
	if second.Token <= first.Token {
		t.Errorf("tokens: got %d after %d", second.Token, first.Token)
	}
	wantErr(t, "a second release of the first grant", a.Release(ctxFor(t), first.ID), ErrNoLock)
	if got, err := a.Look(ctxFor(t), second.ID); err != nil || got.State != Held || got.Token != second.Token {
		t.Errorf("look: got %+v, %v", got, err)
	}
}

func TestWaitersAreGrantedInQueueOrder(t *testing.T) {
	a, b := pair(t)
	const waiters = 8
	held := mustHold(t, a, Claim{Name: "x"})
	var waits []<-chan result
	for i := range waiters {
		s := []*Store{a, b}[i%2]
		waits = append(waits, claimInBackground(t, s, Claim{Name: "x", Wait: within}))
		queuedUp(t, a, "x", i+2)
	}
	for i, wait := range waits {
		for _, later := range waits[i:] {
			stillWaiting(t, later)
		}
		mustRelease(t, []*Store{b, a}[i%2], held)
		next := getHeld(t, wait)
		if next.Token <= held.Token {
			t.Fatalf("token %d after %d", next.Token, held.Token)
		}
		held = next
	}
}

func TestWaitThatEndsLeavesNothing(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x"})
	_, err := b.Claim(ctxFor(t), Claim{Name: "x", TTL: 30 * time.Second, Wait: 300 * time.Millisecond})
	if busy := wantBusy(t, "a wait that ends", err); busy.Holder == nil || busy.Holder.Token != held.Token || busy.QueueLength != 0 {
		t.Errorf("busy: got %+v, want the holder, and nobody else in line", busy)
	}
	if got := claimsOn(t, a, "x"); len(got) != 1 {
		t.Errorf("got %d claims after the wait, want the holder's alone", len(got))
	}
}

func TestPlaceIsKeptAcrossReplicas(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x"})
	mine := enqueue(t, a, Claim{Name: "x"})
	behind := enqueue(t, b, Claim{Name: "x"})
	if mine.Position != 1 || behind.Position != 2 {
		t.Errorf("positions: got %d and %d, want 1 and 2", mine.Position, behind.Position)
	}
	got, err := b.Ask(ctxFor(t), mine.ID, 0, time.Now())
	if err != nil || got.State != Queued || got.Position != 1 || got.ID != mine.ID {
		t.Fatalf("ask at the other replica: got %+v, %v", got, err)
	}
	waits := askInBackground(t, b, mine, within)
	mustRelease(t, a, held)
	if won := getHeld(t, waits); won.ID != mine.ID {
		t.Errorf("got %+v, want %s held", won, mine.ID)
	}
}

func TestAskWithoutWaitTakesTheGrant(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x"})
	mine := enqueue(t, a, Claim{Name: "x"})
	mustRelease(t, a, held)
	if got := claimsOn(t, a, "x"); len(got) != 1 || got[0].State != Queued {
		t.Fatalf("nobody attached: got %+v, want it queued", got)
	}
	got, err := b.Ask(ctxFor(t), mine.ID, 0, time.Now())
	if err != nil || got.State != Held {
		t.Fatalf("ask without a wait, first in line: got %+v, %v, want it held", got, err)
	}
}

func TestPlaceThatNobodyAsksForLapses(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x"})
	gone := enqueue(t, a, Claim{Name: "x"})
	next := claimInBackground(t, b, Claim{Name: "x", Wait: within})
	queuedUp(t, b, "x", 3)
	mustRelease(t, a, held)
	getHeld(t, next)
	_, err := b.Ask(ctxFor(t), gone.ID, 0, time.Now())
	wantErr(t, "ask for a place that lapsed", err, ErrNoLock)
}

func TestClientThatLeavesFreesItsPlace(t *testing.T) {
	slow := func(c *Config) { c.WaitingTTL = 3 * within } // so that nothing lapses
	a, b := open(t, shared(t), slow), open(t, shared(t), slow)
	held := mustHold(t, a, Claim{Name: "x"})
	ctx, leave := context.WithCancel(ctxFor(t))
	wait := inBackground(func() (Lock, error) {
		return a.Claim(ctx, Claim{Name: "x", TTL: 30 * time.Second, Wait: within, Queue: true})
	})
	queuedUp(t, b, "x", 2)
	leave()
	if _, err := get(t, wait); err == nil {
		t.Error("a claim whose client left succeeded")
	}
	queuedUp(t, b, "x", 1)
	mustRelease(t, b, held)
}

func TestKeyFindsItsClaimAnywhere(t *testing.T) {
	a, b := pair(t)
	const key = "0123456789abcdef"
	first := mustHold(t, a, Claim{Name: "x", Key: key, Holder: "h"})
	again := mustHold(t, b, Claim{Name: "x", Key: key, Holder: "h", Wait: time.Second})
	if !again.Replayed || again.ID != first.ID || again.Token != first.Token {
		t.Errorf("replay: got %+v, want %+v replayed", again, first)
	}
	_, err := b.Claim(ctxFor(t), Claim{Name: "x", Key: key, Holder: "other", TTL: 30 * time.Second})
	wantErr(t, "the key with another holder", err, ErrKeyReused)
	other := mustHold(t, b, Claim{Name: "y", Key: key})
	if other.ID == first.ID || other.Replayed {
		t.Errorf("the key on another name: got %+v", other)
	}
	mustRelease(t, b, first)
	fresh := mustHold(t, b, Claim{Name: "x", Key: key, Holder: "h"})
	if fresh.Replayed || fresh.Token <= first.Token || fresh.ID == first.ID {
		t.Errorf("the key after a release: got %+v, want a fresh claim", fresh)
	}
	wantErr(t, "release by the earlier id", a.Release(ctxFor(t), first.ID), ErrNoLock)
}

func TestGuessableKeyMakesNoGuessableID(t *testing.T) {
	const key = "0123456789abcdef"
	other := func(c *Config) { c.Prefix += "other/" }
	a, b := open(t, shared(t)), open(t, shared(t), other)
	nonceOf := func(l Lock) nonce {
		id, ok := parseLockID(l.ID)
		if !ok {
			t.Fatalf("%q is no id", l.ID)
		}
		return id.nonce
	}
	first, second := mustHold(t, a, Claim{Name: "x", Key: key}), mustHold(t, b, Claim{Name: "x", Key: key})
	if nonceOf(first) == nonceOf(second) {
		t.Error("two stores make the same id of a key")
	}
	lease := mustLease(t, a, 30*time.Second)
	record, err := a.readLease(ctxFor(t), calledOf(t, lease.ID))
	if err != nil {
		t.Fatal(err)
	}
	// The same record in the other store: even then it and its locks have other ids there.
	if _, err := b.commit(ctxFor(t), nil, func(*registration, bool) (part, error) {
		return part{then: []clientv3.Op{clientv3.OpPut(b.keys.leaseOf(calledOf(t, lease.ID)), encodeValue(record), clientv3.WithLease(record.Lease))}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	_, err = b.Claim(ctxFor(t), Claim{Name: "y", LeaseID: lease.ID})
	wantErr(t, "the id of another store's lease", err, ErrNoLease)
	theirs := b.keys.ids.leaseID(calledOf(t, lease.ID), "")
	onLease, elsewhere := mustHold(t, a, Claim{Name: "y", LeaseID: lease.ID}), mustHold(t, b, Claim{Name: "y", LeaseID: theirs})
	if nonceOf(onLease) == nonceOf(elsewhere) {
		t.Error("two stores make the same id of a lease")
	}
}

func TestKeyFindsItsPlaceWhileItWaits(t *testing.T) {
	a, b := pair(t)
	const key = "0123456789abcdef"
	held := mustHold(t, a, Claim{Name: "x"})
	ctx, cut := context.WithCancel(ctxFor(t))
	first := inBackground(func() (Lock, error) {
		return a.Claim(ctx, Claim{Name: "x", TTL: 30 * time.Second, Wait: within, Key: key})
	})
	queuedUp(t, a, "x", 2)
	second := claimInBackground(t, b, Claim{Name: "x", Wait: within, Key: key})
	eventually(t, "b serves the claim", func() bool { return b.serving() == 1 })
	cut()
	if _, err := get(t, first); err == nil {
		t.Error("the cut wait succeeded")
	}
	mustRelease(t, b, held)
	if won := getHeld(t, second); !won.Replayed {
		t.Errorf("got %+v, want it replayed", won)
	}
	if got := claimsOn(t, a, "x"); len(got) != 1 {
		t.Errorf("got %d claims, want 1", len(got))
	}
}

func TestHolderThatStopsRenewingLosesTheLockAfterItsTTL(t *testing.T) {
	a, b := pair(t)
	begun := time.Now()
	dead := mustHold(t, a, Claim{Name: "x", TTL: 2 * time.Second})
	next := getHeld(t, claimInBackground(t, b, Claim{Name: "x", Wait: within}))
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("granted to another after %v: before its TTL", took)
	}
	if next.Token <= dead.Token {
		t.Errorf("tokens: %d after %d", next.Token, dead.Token)
	}
	_, err := a.Renew(ctxFor(t), dead.ID, time.Now())
	wantErr(t, "a renewal after the TTL", err, ErrNoLease)
	wantErr(t, "a release after the TTL", a.Release(ctxFor(t), dead.ID), ErrNoLock)
}

func TestRenewalKeepsALock(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x", TTL: 2 * time.Second})
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		if _, err := b.Renew(ctxFor(t), held.ID, time.Now()); err != nil {
			t.Fatalf("renew: %v", err)
		}
		sleep(ctxFor(t), 300*time.Millisecond)
	}
	if got, err := a.Look(ctxFor(t), held.ID); err != nil || got.Token != held.Token {
		t.Errorf("after renewals: got %+v, %v", got, err)
	}
}

func TestNamesThatPrefixEachOtherAreDifferentLocks(t *testing.T) {
	a, b := pair(t)
	for _, name := range []string{"a", "ab", "a/", "a/b", "a0", "a%2Fb", "A", "é", "e\u0301", "a b", ".."} {
		if l := mustHold(t, a, Claim{Name: name}); l.Name != name {
			t.Errorf("got name %q, want %q", l.Name, name)
		}
		if got := claimsOn(t, b, name); len(got) != 1 {
			t.Errorf("on %q: got %d claims, want 1", name, len(got))
		}
	}
}

func TestClosedReplicaLeavesPlacesStanding(t *testing.T) {
	etcd := etcdtest.Shared(t)
	b := open(t, etcd.Client(t))
	a, err := Open(ctxFor(t), etcd.Client(t), testConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	held := mustHold(t, a, Claim{Name: "x"})
	mine := enqueue(t, a, Claim{Name: "x"})
	wait := askInBackground(t, a, mine, within)
	eventually(t, "the ask is attached", func() bool { return a.serving() == 1 })
	a.Drain()
	if got, err := get(t, wait); err != nil || got.State != Queued {
		t.Errorf("an ask at a replica that drains: got %+v, %v, want it queued", got, err)
	}
	if err := a.Close(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	wait = askInBackground(t, b, mine, within)
	mustRelease(t, b, held)
	if won := getHeld(t, wait); won.ID != mine.ID {
		t.Errorf("got %+v", won)
	}
}
