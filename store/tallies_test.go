package store

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// sharing gives a store a word to tell, that the test can change.
func sharing(s *Store) *atomic.Pointer[Word] {
	var word atomic.Pointer[Word]
	s.Share(func(context.Context) Word {
		if w := word.Load(); w != nil {
			return *w
		}
		return nil
	})
	return &word
}

// hears waits until what the others tell a store is these words, in any order; empty ones do not count.
func hears(t *testing.T, what string, s *Store, want ...Word) {
	t.Helper()
	eventually(t, what, func() bool {
		left := append([]Word(nil), want...)
		for _, w := range s.Others() {
			at := -1
			for i := range left {
				if maps.Equal(w, left[i]) {
					at = i
				}
			}
			switch {
			case len(w) == 0:
			case at < 0:
				return false
			default:
				left = append(left[:at], left[at+1:]...)
			}
		}
		return len(left) == 0
	})
}

func talliesIn(t *testing.T, s *Store) map[string]string {
	t.Helper()
	got, err := s.etcd.Get(ctxFor(t), s.keys.tallies(), clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, kv := range got.Kvs {
		if kv.Lease == 0 {
			t.Errorf("a word is on no lease: %q", kv.Key)
		}
		found[string(kv.Key)] = string(kv.Value)
	}
	return found
}

// TestReplicasHearEachOther: what one tells the others hear, as it is now, as long as that one is there.
func TestReplicasHearEachOther(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	c, err := Open(ctxFor(t), shared(t), testConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	fromA, fromB, fromC := sharing(a), sharing(b), sharing(c)
	one, two := Word{"p": {3, 0}, `q"<ü>`: {1, 2}}, Word{"p": {4, 1}}
	fromA.Store(&one)
	hears(t, "B hears A", b, one)
	fromB.Store(&two)
	fromC.Store(&one)
	hears(t, "A hears B and C", a, two, one)
	hears(t, "C hears A and B", c, one, two)
	fromA.Store(&two)
	hears(t, "B hears what A has to say now", b, two, one)
	if err := c.Close(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	hears(t, "what C said went with it", b, two)
	fromA.Store(nil)
	hears(t, "A has nothing more to say", b)
	eventually(t, "and has no key", func() bool { return len(talliesIn(t, a)) == 1 })
}

// TestWordStandsAgain: after its replica was registered anew, and after somebody took it away.
func TestWordStandsAgain(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	sharing(b)
	word := Word{"p": {3, 0}}
	sharing(a).Store(&word)
	hears(t, "B hears A", b, word)
	before := a.registration()
	if _, err := a.etcd.Delete(ctxFor(t), before.key); err != nil {
		t.Fatal(err)
	}
	if _, err := a.etcd.Delete(ctxFor(t), a.keys.tally()); err != nil {
		t.Fatal(err)
	}
	hears(t, "it is gone", b)
	hears(t, "it is there again", b, word)
	eventually(t, "on the lease of the new fence", func() bool {
		now := a.registration()
		got, err := a.etcd.Get(ctxFor(t), a.keys.tally())
		return err == nil && now != nil && now != before && len(got.Kvs) == 1 && clientv3.LeaseID(got.Kvs[0].Lease) == now.onLease()
	})
}

// TestForeignWordSaysNothing, and is in nobody's way.
func TestForeignWordSaysNothing(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	for i, value := range []string{"", "x", "2{}", "1[]", `1{"p":5}`, `1{"p":["a",1]}`, `1{"p":[-1,0]}`, `1{"p":[1e99,0]}`, "1{\"p\":[1,2]}x", "1null"} {
		if _, err := a.etcd.Put(ctxFor(t), fmt.Sprint(a.keys.tallies(), "foreign", i), value); err != nil {
			t.Fatal(err)
		}
	}
	word := Word{"p": {3, 0}}
	sharing(a).Store(&word)
	sharing(b)
	hears(t, "B hears A and nothing else", b, word)
	if n := len(b.Others()); n != 11 {
		t.Errorf("%d words are there, want A's and ten that say nothing", n)
	}
	mustHold(t, b, Claim{Name: "x"})
	if err := b.Ready(); err != nil {
		t.Errorf("ready: %v", err)
	}
}

// TestNothingIsToldWithoutAWord: a replica that counts nobody, or has nothing to say, writes nothing; nor does it mark claims.
func TestNothingIsToldWithoutAWord(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	asked := make(chan struct{}, 100)
	b.Share(func(context.Context) Word { asked <- struct{}{}; return Word{} })
	for range 3 {
		select {
		case <-asked:
		case <-time.After(within):
			t.Fatal("it is not asked for a word")
		}
	}
	if told := talliesIn(t, a); len(told) != 0 {
		t.Errorf("told: %v", told)
	}
	for what, s := range map[string]*Store{"counts nobody": a, "nobody's": b} {
		name := fmt.Sprint("x", what)
		ctx := ctxFor(t)
		if s == a {
			ctx = As(ctx, "p")
		}
		if _, err := s.Claim(ctx, Claim{Name: name, TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if st := standingOn(t, s, name); st.Via != "" {
			t.Errorf("%s: made through %q", what, st.Via)
		}
	}
}

func standingOn(t *testing.T, s *Store, name string) standing {
	t.Helper()
	got, err := s.etcd.Get(ctxFor(t), s.keys.queue(name), clientv3.WithPrefix())
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("what stands on %q: %v, %v", name, got, err)
	}
	st, err := s.keys.standing(got.Kvs[0])
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// lasting is the claim as it is asked for.
func lasting(c Claim) Claim {
	if c.LeaseID == "" {
		c.TTL = time.Minute
	}
	return c
}

// TestOneReplicaMadeAClaim: whichever finds it, serves it or grants it later, it says where it was made.
func TestOneReplicaMadeAClaim(t *testing.T) {
	a, b := pair(t)
	sharing(a)
	sharing(b)
	ctx := As(ctxFor(t), "p")
	claim := func(s *Store, c Claim) Lock {
		t.Helper()
		l, err := s.Claim(ctx, lasting(c))
		if err != nil {
			t.Fatalf("claim %q: %v", c.Name, err)
		}
		return l
	}
	made := func(what string, l Lock, replayed, here bool) {
		t.Helper()
		if l.Replayed != replayed || l.Here != here {
			t.Errorf("%s: replayed %v, made here %v; want %v, %v", what, l.Replayed, l.Here, replayed, here)
		}
	}
	finds := func(what string, s *Store, want Found, c Claim) {
		t.Helper()
		if got, err := s.Find(ctx, []Claim{{Name: "nothing", Key: "a key of sixteen or more"}, c}); err != nil || len(got) != 2 || got[0] != (Found{}) || got[1] != want {
			t.Errorf("%s: finds %+v, %v, want nothing and %+v", what, got, err, want)
		}
	}
	lease, err := a.NewLease(ctx, Lease{TTL: time.Minute}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]Claim{"by its key": {Name: "k", Key: "a key of sixteen or more"}, "by its lease": {Name: "l", LeaseID: lease.ID}} {
		finds(what+", before it stands", b, Found{}, lasting(c))
		first := claim(a, c)
		made(what, first, false, true)
		made(what+" at another", claim(b, c), true, false)
		made(what+" again", claim(a, c), true, true)
		finds(what+" here", a, Found{first.ID, true}, lasting(c))
		finds(what+" at another", b, Found{first.ID, false}, lasting(c))
	}
	stranger := As(ctxFor(t), "stranger")
	if got, err := b.Find(stranger, []Claim{{Name: "k", Key: "a key of sixteen or more", TTL: time.Minute}, {Name: "l", LeaseID: lease.ID}}); err != nil || got[0] != (Found{}) || got[1] != (Found{}) {
		t.Errorf("a stranger finds %+v, %v", got, err)
	}
	if got, err := b.Find(ctx, []Claim{{Name: "k", TTL: time.Minute}, {Name: "", Key: "short"}}); err != nil || got[0] != (Found{}) || got[1] != (Found{}) {
		t.Errorf("what nobody can find: %+v, %v", got, err)
	}

	held := claim(b, Claim{Name: "q"})
	queued := Claim{Name: "q", Key: "another key of sixteen", Queue: true}
	made("a place", claim(a, queued), false, true)
	adopted := claim(b, queued)
	made("a place at another", adopted, true, false)
	finds("a place at another", b, Found{adopted.ID, false}, lasting(queued))
	queued.Wait = within
	wait := inBackground(func() (Lock, error) { return b.Claim(ctx, lasting(queued)) })
	eventually(t, "somebody waits", func() bool { return b.serving() == 1 })
	if err := b.Release(ctx, held.ID); err != nil {
		t.Fatal(err)
	}
	made("a grant at another", getHeld(t, wait), true, false)
	made("what another granted", claim(a, queued), true, true)
}

// TestWordsNeedNoMoreRights than to the keys under the store's prefix.
func TestWordsNeedNoMoreRights(t *testing.T) {
	t.Parallel()
	const user, password = "latchkey", "correct-horse"
	etcd := etcdtest.NewCluster(t, 1)
	if err := etcd.EnableAuth(ctxFor(t), user, password, prefixFor(t)); err != nil {
		t.Fatal(err)
	}
	a, b := open(t, etcd.UserClient(t, user, password)), open(t, etcd.UserClient(t, user, password))
	word := Word{"p": {3, 0}}
	sharing(a).Store(&word)
	sharing(b)
	hears(t, "B hears A", b, word)
}
