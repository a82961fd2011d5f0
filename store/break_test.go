package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func anyName(string) bool { return true }

func wantBroken(t testing.TB, what string, err error, reason string) {
	t.Helper()
	var broken *BrokenError
	if !errors.As(err, &broken) || broken.Reason != reason {
		t.Errorf("%s: got %v, want it broken because of %q", what, err, reason)
	}
}

func TestABrokenLockGoesToTheNextAndItsHolderIsTold(t *testing.T) {
	a, b := pair(t)
	held := claimAs(t, a, "ann", Claim{Name: "x"})
	next := claimInBackground(t, b, Claim{Name: "x", Wait: within})
	queuedUp(t, a, "x", 2)
	was, err := b.Break(ctxFor(t), held.ID, Breaking{Reason: "host is gone", By: "root"}, anyName)
	if err != nil || was.Owner != "ann" || was.Token != held.Token {
		t.Fatalf("break: got %+v, %v", was, err)
	}
	if won := getHeld(t, next); won.Token <= held.Token {
		t.Errorf("the next one's token: got %d, want more than %d", won.Token, held.Token)
	}
	for _, s := range []*Store{a, b} {
		ctx := as(t, "ann")
		for what, err := range map[string]error{
			"renew":      errOf(s.Renew(ctx, held.ID, time.Now())),
			"look":       errOf(s.Look(ctx, held.ID)),
			"ask":        errOf(s.Ask(ctx, held.ID, 0, time.Now())),
			"follow":     s.Follow(ctx, held.ID, time.Now(), func(Lock) error { return nil }),
			"release":    s.Release(ctx, held.ID),
			"end":        s.EndLease(ctx, held.ID),
			"get":        errOf(s.GetLease(ctx, held.ID)),
			"keep alive": s.Keep(ctx, held.ID, func(Kept) error { return nil }),
		} {
			wantBroken(t, what, err, "host is gone")
		}
		wantErr(t, "look by another", errOf(s.Look(as(t, "bob"), held.ID)), ErrNoLock)
	}
	wantErr(t, "break it again", errOf(b.Break(ctxFor(t), held.ID, Breaking{Reason: "again"}, anyName)), ErrNoLock)
}

func TestAStreamTellsThatTheLockWasBroken(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x", TTL: 3 * time.Second})
	kept := make(chan struct{}, 100)
	done := make(chan error, 1)
	go func() {
		done <- a.Keep(ctxFor(t), held.ID, func(Kept) error { kept <- struct{}{}; return nil })
	}()
	<-kept
	if _, err := b.Break(ctxFor(t), held.ID, Breaking{Reason: "why"}, anyName); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		wantBroken(t, "the stream", err, "why")
	case <-time.After(within):
		t.Fatal("the stream goes on")
	}
}

func TestAWaitingClaimCanBeBroken(t *testing.T) {
	a, b := pair(t)
	mustHold(t, a, Claim{Name: "x"})
	queued := enqueue(t, a, Claim{Name: "x"})
	asking := make(chan error, 1)
	go func() { asking <- errOf(a.Ask(ctxFor(t), queued.ID, within, time.Now())) }()
	eventually(t, "the ask is attached", func() bool { return a.serving() == 1 })
	if was, err := b.Break(ctxFor(t), queued.ID, Breaking{Reason: "why"}, anyName); err != nil || was.State != Queued {
		t.Fatalf("break: %+v, %v", was, err)
	}
	select {
	case err := <-asking:
		wantBroken(t, "the wait", err, "why")
	case <-time.After(within):
		t.Fatal("the wait goes on")
	}
}

// TestOnlyWhatIsThereAndAllowedIsBroken: not by a name that may not, by a forged or a cut id, nor what came later.
func TestOnlyWhatIsThereAndAllowedIsBroken(t *testing.T) {
	a, b := pair(t)
	first := claimAs(t, a, "ann", Claim{Name: "x"})
	if err := a.Release(as(t, "ann"), first.ID); err != nil {
		t.Fatal(err)
	}
	now := claimAs(t, a, "ann", Claim{Name: "x"})
	id, ok := parseLockID(now.ID)
	if !ok {
		t.Fatal("the id cannot be read")
	}
	id.seal = newNonce()
	byName := func(name string) bool { return strings.HasPrefix(name, "y") }
	for what, err := range map[string]error{
		"a name that may not":  errOf(b.Break(ctxFor(t), now.ID, Breaking{Reason: "r"}, byName)),
		"a forged seal":        errOf(b.Break(ctxFor(t), id.String(), Breaking{Reason: "r"}, anyName)),
		"a claim of before":    errOf(b.Break(ctxFor(t), first.ID, Breaking{Reason: "r"}, anyName)),
		"what is no id at all": errOf(b.Break(ctxFor(t), "x", Breaking{Reason: "r"}, anyName)),
	} {
		wantErr(t, what, err, ErrNoLock)
	}
	if _, err := b.Renew(as(t, "ann"), now.ID, time.Now()); err != nil {
		t.Errorf("the lock that was not broken: %v", err)
	}
	if got := keysUnder(t, a, "broken/"); len(got) != 0 {
		t.Errorf("word of what was not broken: %q", got)
	}
}

func keysUnder(t testing.TB, s *Store, part string) (found []string) {
	t.Helper()
	got, err := s.etcd.Get(ctxFor(t), s.cfg.Prefix+part, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range got.Kvs {
		found = append(found, string(kv.Key))
	}
	return found
}

// TestBreakingWithALostAnswer: the answer to the transaction is lost after the commit. It was done once, the word of it is
// there, and nobody's later lock was touched.
func TestBreakingWithALostAnswer(t *testing.T) {
	s, faults := faulty(t)
	held := mustHold(t, s, Claim{Name: "x"})
	lost := faults.Next(etcdtest.Txns(nil).And(etcdtest.Writes).And(etcdtest.Touches(s.keys.locks()))).LoseReply()
	if _, err := s.Break(ctxFor(t), held.ID, Breaking{Reason: "why"}, anyName); err != nil {
		t.Fatalf("break: %v", err)
	}
	lost.WaitDone(t)
	wantBroken(t, "renew", errOf(s.Renew(ctxFor(t), held.ID, time.Now())), "why")
	later := mustHold(t, s, Claim{Name: "x"})
	if _, err := s.Renew(ctxFor(t), later.ID, time.Now()); err != nil {
		t.Errorf("what came after: %v", err)
	}
}

// TestAFullStoreStillLetsGoOfWhatIsBroken, without a word of it: there is no space for one.
func TestAFullStoreStillLetsGoOfWhatIsBroken(t *testing.T) {
	etcd := etcdtest.New(t)
	s := open(t, etcd.Client(t))
	held := mustHold(t, s, Claim{Name: "x"})
	alarm(t, etcd, etcdserverpb.AlarmRequest_ACTIVATE)
	if _, err := s.Break(ctxFor(t), held.ID, Breaking{Reason: "why"}, anyName); err != nil {
		t.Fatalf("break: %v", err)
	}
	wantErr(t, "renew", errOf(s.Renew(ctxFor(t), held.ID, time.Now())), ErrNoLease)
	if got := claimsOn(t, s, "x"); len(got) != 0 {
		t.Errorf("still there: %+v", got)
	}
}

// TestWordsShareALease: each etcd lease lets all others end later after a change of leader.
func TestWordsShareALease(t *testing.T) {
	etcd := etcdtest.New(t)
	s := open(t, etcd.Client(t))
	leases := func() int {
		got, err := s.etcd.Leases(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		return len(got.Leases)
	}
	const breaks = 20
	before := leases()
	for range breaks {
		held := mustHold(t, s, Claim{Name: "x"})
		if was, err := s.Break(ctxFor(t), held.ID, Breaking{Reason: "why"}, anyName); err != nil || was.Token != held.Token {
			t.Fatalf("break: %+v, %v", was, err)
		}
	}
	if more := leases() - before; more > 3 { // one for the words, and what is in the pool
		t.Errorf("%d breaks left %d etcd leases", breaks, more)
	}
	if words := keysUnder(t, s, "broken/"); len(words) != breaks {
		t.Errorf("%d breaks left %d words", breaks, len(words))
	}
	s.words.mu.Lock()
	id := s.words.id
	s.words.mu.Unlock()
	if _, err := s.etcd.Revoke(ctxFor(t), id); err != nil {
		t.Fatal(err)
	}
	held := mustHold(t, s, Claim{Name: "x"})
	if _, err := s.Break(ctxFor(t), held.ID, Breaking{Reason: "again"}, anyName); err != nil {
		t.Fatalf("after the lease of the words was gone: %v", err)
	}
	wantBroken(t, "renew", errOf(s.Renew(ctxFor(t), held.ID, time.Now())), "again")
}

// TestAWaitOfAClaimThatIsBrokenTellsSo, by the very request that claimed.
func TestAWaitOfAClaimThatIsBrokenTellsSo(t *testing.T) {
	a, b := pair(t)
	mustHold(t, a, Claim{Name: "x"})
	wait := claimInBackground(t, a, Claim{Name: "x", Wait: within})
	queued := queuedUp(t, b, "x", 2)[1]
	if _, err := b.Break(ctxFor(t), queued.ID, Breaking{Reason: "why"}, anyName); err != nil {
		t.Fatal(err)
	}
	_, err := get(t, wait)
	wantBroken(t, "the claim", err, "why")
}

// TestGone tells claims and leases that stand from those that do not, in any number.
func TestGone(t *testing.T) {
	a, b := pair(t)
	var ids []string
	want := map[string]bool{"no id": true}
	ids = append(ids, "no id")
	for i := range 2*readsAtOnce + 1 {
		l := mustHold(t, a, Claim{Name: fmt.Sprint("x", i)})
		ids = append(ids, l.ID)
		if i%3 == 0 {
			mustRelease(t, b, l)
			want[l.ID] = true
			mustHold(t, a, Claim{Name: l.Name}) // a later claim is another
		}
	}
	for i := range 4 {
		l := mustLease(t, a, 30*time.Second)
		ids = append(ids, l.ID)
		if i%2 == 0 {
			if err := b.EndLease(ctxFor(t), l.ID); err != nil {
				t.Fatal(err)
			}
			want[l.ID] = true
		}
	}
	gone, err := b.Gone(ctxFor(t), ids)
	if err != nil || len(gone) != len(want) {
		t.Errorf("got %d gone, %v, want %d", len(gone), err, len(want))
	}
	for _, id := range gone {
		if !want[id] {
			t.Errorf("%s is told to be gone", id)
		}
	}
}

// TestAnother tells a claim of another's from one's own and from none.
func TestAnother(t *testing.T) {
	a, b := pair(t)
	held := claimAs(t, a, "ann", Claim{Name: "x"})
	forged, _ := parseLockID(held.ID)
	forged.seal = newNonce()
	for who, want := range map[string]bool{"ann": false, "bob": true, "": true} {
		if got, err := b.Another(as(t, who), held.ID); err != nil || got != want {
			t.Errorf("as %q: got %v, %v, want %v", who, got, err, want)
		}
	}
	if err := a.Release(as(t, "ann"), held.ID); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{held.ID, forged.String(), "no id"} {
		if got, err := b.Another(as(t, "bob"), id); err != nil || got {
			t.Errorf("%.8s: got %v, %v", id, got, err)
		}
	}
}
