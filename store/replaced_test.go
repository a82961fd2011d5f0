package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// claimSoon claims again and again until the store answers: after a loss a replica first registers anew.
func claimSoon(t testing.TB, s *Store, name string) Lock {
	t.Helper()
	var l Lock
	eventually(t, "the store serves again", func() bool {
		var err error
		l, err = s.Claim(ctxFor(t), Claim{Name: name, TTL: 30 * time.Second})
		if err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
			t.Fatalf("claim: %v", err)
		}
		return err == nil
	})
	return l
}

func TestTokensGrowAcrossWipedStores(t *testing.T) {
	for name, wipe := range map[string]func(*etcdtest.Server){
		"the same cluster id": (*etcdtest.Server).Wipe,
		"another cluster id":  func(s *etcdtest.Server) { s.WipeAs("another") },
	} {
		t.Run(name, func(t *testing.T) {
			etcd := etcdtest.New(t)
			running := open(t, etcd.Client(t))
			last := mustHold(t, running, Claim{Name: "x"}).Token
			for range 40 { // so that the new stores' revisions are below
				mustRelease(t, running, mustHold(t, running, Claim{Name: "y"}))
			}
			for range 2 {
				wipe(etcd)
				l := claimSoon(t, running, "x")
				if l.Token <= last {
					t.Fatalf("under a running replica: token %d after %d", l.Token, last)
				}
				last = l.Token
			}
			stopped, err := Open(ctxFor(t), etcd.Client(t), testConfig(t))
			if err != nil {
				t.Fatal(err)
			}
			mustRelease(t, stopped, Lock{ID: claimsOn(t, stopped, "x")[0].ID})
			last = mustHold(t, stopped, Claim{Name: "x"}).Token
			if err := stopped.Close(ctxFor(t)); err != nil {
				t.Fatal(err)
			}
			wipe(etcd)
			fresh := open(t, etcd.Client(t))
			if l := claimSoon(t, fresh, "x"); l.Token <= last {
				t.Errorf("under a replica that was stopped: token %d after %d", l.Token, last)
			}
		})
	}
}

// TestRestoredStoreGrantsNothingByItsOldEpoch lets a replica believe that it has seen the store far ahead of where it
// is, as after the restore of a snapshot that has the replica's own fence and epoch in it.
func TestRestoredStoreGrantsNothingByItsOldEpoch(t *testing.T) {
	etcd := etcdtest.New(t)
	a := open(t, etcd.Client(t))
	before := mustHold(t, a, Claim{Name: "x"})
	mustRelease(t, a, before)
	const ahead = 1_000_000
	a.sight.mu.Lock()
	a.sight.revision += ahead
	a.sight.mu.Unlock()
	l := mustHold(t, a, Claim{Name: "x"})
	if l.Token <= before.Token+ahead {
		t.Errorf("token %d in a restored store, want it above %d: what was seen before", l.Token, before.Token+ahead)
	}
	if got := claimsOn(t, a, "x"); len(got) != 1 || got[0].Token != l.Token {
		t.Errorf("got %+v, want the one claim that was told", got)
	}
}

// TestRestoreWithRevisionsBumpedIsNoticed lets a replica have seen the store far behind where it is, as after such a
// restore: it begins anew, with nothing that it kept of the store before.
func TestRestoreWithRevisionsBumpedIsNoticed(t *testing.T) {
	etcd := etcdtest.New(t)
	a := open(t, etcd.Client(t))
	before := mustHold(t, a, Claim{Name: "x"})
	mustRelease(t, a, before)
	first := current(t, a)
	if len(sparesOf(t, a, "x")) == 0 {
		t.Fatal("no spare is kept: this asks for nothing")
	}
	a.sight.mu.Lock()
	a.sight.revision -= leastBump
	a.sight.mu.Unlock()
	l := mustHold(t, a, Claim{Name: "x"})
	if r := current(t, a); r == first || len(sparesOf(t, a, "x")) > 0 {
		t.Error("what was kept of the store before is kept still")
	}
	if l.Token <= before.Token {
		t.Errorf("token %d after %d", l.Token, before.Token)
	}
	if got := claimsOn(t, a, "x"); len(got) != 1 || got[0].Token != l.Token {
		t.Errorf("got %+v, want the one claim that was told", got)
	}
}

func TestBumpedEpochRaisesTokensUnderRunningReplicas(t *testing.T) {
	etcd := etcdtest.New(t)
	a, b := open(t, etcd.Client(t)), open(t, etcd.Client(t))
	first := mustHold(t, a, Claim{Name: "x"})
	before, after, err := BumpEpoch(ctxFor(t), a.etcd, a.cfg.Prefix)
	if err != nil || after.Base <= before.Base+before.Revision {
		t.Fatalf("bump: from %+v to %+v, %v", before, after, err)
	}
	if got, err := b.Renew(ctxFor(t), first.ID, time.Now()); err != nil || got.Token != first.Token {
		t.Errorf("a hold of before: got %+v, %v, want its token unchanged", got, err)
	}
	mustRelease(t, b, first)
	second := mustHold(t, b, Claim{Name: "x"}) // not seen as a failure by its client
	if second.Token <= after.Base {
		t.Errorf("token %d, want it above the new epoch's base %d", second.Token, after.Base)
	}
	shown, err := ShowEpoch(ctxFor(t), a.etcd, a.cfg.Prefix)
	if err != nil || shown.Base != after.Base || shown.Mark != after.Mark {
		t.Errorf("show: got %+v, %v, want %+v", shown, err, after)
	}
}

func TestEpochRefusesAClockBeforeTheBuild(t *testing.T) {
	if _, err := (Epoch{}).next(built().Add(-time.Hour), 0); err == nil {
		t.Error("an epoch began by a clock that is behind this program's build")
	}
	e, err := Epoch{Revision: 7}.next(time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if token := e.Base + 8; token >= maxToken || token <= 0 {
		t.Errorf("token %d is not below 2^53", token)
	}
	if n, err := e.next(built(), e.Base+1000); err != nil || n.Base < e.Base+1000 {
		t.Errorf("with a slow clock: got %+v, %v, want a base above all that is known", n, err)
	}
}

func TestReplicaCutOffTooLongRegistersAnew(t *testing.T) {
	etcd := etcdtest.Shared(t)
	proxy := etcdtest.NewProxy(t, etcd.Endpoint())
	a := open(t, proxy.Client(t), func(c *Config) { c.RequestBound = time.Second })
	b := open(t, etcd.Client(t))
	held := mustHold(t, b, Claim{Name: "x"})
	mine := enqueue(t, a, Claim{Name: "x"})
	wait := askInBackground(t, a, mine, within)
	eventually(t, "somebody is attached", func() bool { return a.serving() == 1 })
	proxy.Cut()
	if _, err := get(t, wait); !errors.Is(err, ErrUnavailable) {
		t.Errorf("the wait at a replica that is cut off: got %v, want %v", err, ErrUnavailable)
	}
	// Early enough to resume elsewhere, in place.
	got, err := b.Ask(ctxFor(t), mine.ID, 0, time.Now())
	if err != nil || got.Position != 1 {
		t.Fatalf("resume elsewhere: got %+v, %v", got, err)
	}
	if a.Ready() == nil {
		eventually(t, "the cut off replica is not ready", func() bool { return a.Ready() != nil })
	}
	old := current0(a)
	eventually(t, "its registration ran out", func() bool {
		resp, err := b.etcd.Get(ctxFor(t), old.key)
		return err == nil && len(resp.Kvs) == 0
	})
	proxy.Heal()
	mustRelease(t, b, claimSoon(t, a, "y"))
	if now := current(t, a); now.key == old.key {
		t.Error("the replica goes on under a registration that ran out")
	}
	eventually(t, "it is ready again", func() bool { return a.Ready() == nil })
	mustRelease(t, b, held)
}

// current0 is the registration, or the last one.
func current0(s *Store) *registration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func TestGhostOfAKilledReplicaIsGoneWithinTwoWaitingTTLs(t *testing.T) {
	etcd := etcdtest.Shared(t)
	proxy := etcdtest.NewProxy(t, etcd.Endpoint())
	a := open(t, proxy.Client(t), func(c *Config) { c.RequestBound = time.Second })
	b := open(t, etcd.Client(t))
	held := mustHold(t, b, Claim{Name: "x"})
	ctx, cut := context.WithCancel(ctxFor(t))
	defer cut()
	_ = inBackground(func() (Lock, error) {
		return a.Claim(ctx, Claim{Name: "x", TTL: 60 * time.Second, Wait: within, Queue: true})
	})
	queuedUp(t, b, "x", 2)
	proxy.Cut()
	killed := time.Now()
	next := claimInBackground(t, b, Claim{Name: "x", Wait: within})
	queuedUp(t, b, "x", 3)
	mustRelease(t, b, held)
	getHeld(t, next)
	waiting := max(2*b.cfg.WaitingTTL, current(t, b).presence.ttl)
	if took := time.Since(killed); took > waiting+3*time.Second {
		t.Errorf("the ghost cost %v, want at most %v and etcd's slack", took, waiting)
	}
}

func TestPlacesOutliveTheTimeInWhichNobodyCouldAsk(t *testing.T) {
	etcd := etcdtest.New(t)
	a := open(t, etcd.Client(t), func(c *Config) { c.RequestBound = time.Second })
	held := mustHold(t, a, Claim{Name: "x"})
	mine := enqueue(t, a, Claim{Name: "x"})
	keyed := enqueue(t, a, Claim{Name: "x", Key: "0123456789abcdef"})
	etcd.Stop()
	down := time.Now()
	for time.Since(down) < a.cfg.WaitingTTL+time.Second {
		if _, err := a.Ask(ctxFor(t), mine.ID, 0, time.Now()); !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
			t.Fatalf("an ask without etcd: got %v", err)
		}
	}
	etcd.Start()
	eventually(t, "the replica serves again", func() bool { return a.Ready() == nil })
	for i, l := range []Lock{mine, keyed} {
		got, err := a.Ask(ctxFor(t), l.ID, 0, time.Now())
		if err != nil || got.Position != i+1 {
			t.Errorf("place %d after the outage: got %+v, %v", i+1, got, err)
		}
	}
	mustRelease(t, a, held)
	// And then it lapses as ever.
	queuedUp(t, a, "x", 0)
}
