package store

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// sparesOf are the nonces that a replica keeps for a name.
func sparesOf(t testing.TB, s *Store, name string) []spare {
	t.Helper()
	k := &current(t, s).spares
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Concat(k.young[name], k.old[name])
}

func TestFormerHolderCannotMakeTheNextHoldersID(t *testing.T) {
	a, b := pair(t)
	first := mustHold(t, a, Claim{Name: "x"})
	mustRelease(t, a, first)
	next := mustHold(t, a, Claim{Name: "x"})
	known, _ := parseLockID(first.ID)
	want, _ := parseLockID(next.ID)
	if known.nonce != want.nonce {
		t.Fatal("the key was not used again: this asks for nothing")
	}
	before := asItStands(t, a, next.ID)
	base := first.Token - known.revision
	forged := lockID{nonce: known.nonce, revision: next.Token - base, name: "x", seal: known.seal}
	if forged.revision != want.revision || forged.String() == next.ID {
		t.Fatalf("forged %+v for %+v", forged, want)
	}
	ctx := ctxFor(t)
	for who, s := range map[string]*Store{"a": a, "b": b} {
		for _, c := range []struct {
			what string
			do   func(id string) error
			want error
		}{
			{"release", func(id string) error { return s.Release(ctx, id) }, ErrNoLock},
			{"renew", func(id string) error { return errOf(s.Renew(ctx, id, time.Now())) }, ErrNoLease},
			{"keep", func(id string) error { return s.Keep(ctx, id, func(Kept) error { return nil }) }, ErrNoLease},
			{"look", func(id string) error { return errOf(s.Look(ctx, id)) }, ErrNoLock},
			{"ask", func(id string) error { return errOf(s.Ask(ctx, id, 0, time.Now())) }, ErrNoLock},
			{"ask and wait", func(id string) error { return errOf(s.Ask(ctx, id, within, time.Now())) }, ErrNoLock},
			{"get its lease", func(id string) error { return errOf(s.GetLease(ctx, id)) }, ErrNoLease},
			{"end its lease", func(id string) error { return s.EndLease(ctx, id) }, ErrNoLease},
		} {
			if err := c.do(forged.String()); !errors.Is(err, c.want) {
				t.Errorf("%s at %s: got %v, want %v", c.what, who, err, c.want)
			}
		}
	}
	if now := asItStands(t, b, next.ID); now.modified != before.modified || now.onLease != before.onLease {
		t.Errorf("the next holder's claim: got %+v, want %+v", now, before)
	}
	wantSoleHolder(t, b, next)
}

func TestNonceIsOneClaimsAtATime(t *testing.T) {
	const workers, turns = 12, 40
	a, b := pair(t)
	var mu sync.Mutex
	standing := map[nonce]bool{}
	inside := 0
	var last int64
	var work sync.WaitGroup
	for w := range workers {
		s, other := a, b
		if w%2 == 1 {
			s, other = b, a
		}
		work.Go(func() {
			for turn := range turns {
				c := Claim{Name: "x", TTL: 30 * time.Second, Wait: within}
				if w%3 == 0 {
					c.Wait = 0
				}
				l, err := s.Claim(ctxFor(t), c)
				if held := (*HeldError)(nil); errors.As(err, &held) && c.Wait == 0 {
					continue
				}
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				id, _ := parseLockID(l.ID)
				mu.Lock()
				if inside++; inside != 1 || l.Token <= last || standing[id.nonce] {
					t.Errorf("%d inside, token %d after %d, its nonce another's: %v", inside, l.Token, last, standing[id.nonce])
				}
				last, standing[id.nonce] = l.Token, true
				mu.Unlock()
				if turn%2 == 0 {
					s, other = other, s
				}
				if _, err := other.Renew(ctxFor(t), l.ID, time.Now()); err != nil {
					t.Errorf("renew: %v", err)
				}
				mu.Lock()
				inside--
				delete(standing, id.nonce)
				mu.Unlock()
				if err := other.Release(ctxFor(t), l.ID); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	work.Wait()
	queuedUp(t, a, "x", 0)
	free := slices.Concat(sparesOf(t, a, "x"), sparesOf(t, b, "x"))
	distinct := map[nonce]bool{}
	for _, n := range free {
		distinct[n.nonce] = true
	}
	if len(free) == 0 || len(distinct) != len(free) {
		t.Errorf("%d spares are %d nonces, want some and each at one replica", len(free), len(distinct))
	}
}

// TestClaimThatWasGoneAndStandsAgainIsNobodys has etcd set back to when a claim stood whose nonce is a spare by now: whoever
// claims under that nonce is not told that claim's token.
func TestClaimThatWasGoneAndStandsAgainIsNobodys(t *testing.T) {
	for name, c := range map[string]Claim{"a try": {}, "a claim that waits": {Wait: within}} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			ctx := ctxFor(t)
			c.Name = "x"
			gone := mustHold(t, a, Claim{Name: "x"})
			st := asItStands(t, a, gone.ID)
			stood, err := a.etcd.Get(ctx, st.key)
			if err != nil {
				t.Fatal(err)
			}
			mustRelease(t, a, gone)
			again, err := a.etcd.Put(ctx, st.key, string(stood.Kvs[0].Value))
			if err != nil {
				t.Fatal(err)
			}
			k := &current(t, a).spares
			k.mu.Lock()
			if len(k.young["x"]) != 1 || k.young["x"][0].gone < st.created {
				t.Errorf("spares: %+v, want one, gone after %d", k.young["x"], st.created)
			}
			k.young["x"][0].gone = again.Header.Revision // as if that were before
			k.mu.Unlock()
			now := mustHold(t, a, c)
			if id, _ := parseLockID(now.ID); now.Token <= gone.Token || id.nonce == st.nonce {
				t.Errorf("token %d after %d, the nonce again: %v", now.Token, gone.Token, id.nonce == st.nonce)
			}
			wantSoleHolder(t, b, now)
		})
	}
}

func TestWhatAClientMakesAgainIsNoSpare(t *testing.T) {
	a := open(t, shared(t))
	lease := mustLease(t, a, 60*time.Second)
	const key = "0123456789abcdef"
	for name, c := range map[string]Claim{"a key": {Key: key}, "a client's lease": {LeaseID: lease.ID}} {
		c.Name = name
		mustRelease(t, a, mustHold(t, a, c))
		other := mustHold(t, a, Claim{Name: name})
		mustRelease(t, a, enqueue(t, a, c))
		if c.TTL == 0 && c.LeaseID == "" {
			c.TTL = 30 * time.Second
		}
		if _, err := a.Claim(ctxFor(t), c); wantBusy(t, "a try", err) == nil {
			t.Error("busy without a reason")
		}
		own, _ := parseLockID(other.ID)
		mustRelease(t, a, other)
		if got := sparesOf(t, a, name); len(got) != 1 || got[0].nonce != own.nonce {
			t.Errorf("with %s: got the spares %v, want only that of the claim without", name, got)
		}
	}
}

func TestNameTakenAgainAndAgainHasFewKeys(t *testing.T) {
	const turns = 200
	for name, workers := range map[string]int{"one after the other": 1, "handed on": 4} {
		t.Run(name, func(t *testing.T) {
			a := open(t, shared(t))
			first := mustHold(t, a, Claim{Name: "x"})
			begun := asItStands(t, a, first.ID).created
			mustRelease(t, a, first)
			var work sync.WaitGroup
			for range workers {
				work.Go(func() {
					for range turns / workers {
						l, err := a.Claim(ctxFor(t), Claim{Name: "x", TTL: 30 * time.Second, Wait: within})
						if err == nil {
							err = a.Release(ctxFor(t), l.ID)
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			work.Wait()
			found := history(t, a, "x", begun)
			claims := 0
			for _, puts := range found {
				claims += len(puts)
			}
			if claims != turns+1 || len(found) > workers {
				t.Errorf("%d claims had %d keys, want %d and at most %d", claims, len(found), turns+1, workers)
			}
			got, err := a.etcd.Get(ctxFor(t), a.keys.queue("x"), clientv3.WithRange(a.keys.queueEnd("x")), clientv3.WithCountOnly())
			if err != nil || got.Count != 0 {
				t.Errorf("%d are left, %v", got.Count, err)
			}
		})
	}
}

func TestSparesAreBounded(t *testing.T) {
	var s spares
	for range 2 * sparesPerName {
		s.put(standing{name: "x", nonce: newNonce()}, 1)
	}
	taken := map[nonce]bool{}
	for range sparesPerName {
		taken[s.take("x").nonce] = true
	}
	if len(taken) != sparesPerName || len(s.young) != 0 {
		t.Errorf("%d nonces taken and %d names left, want %d and none", len(taken), len(s.young), sparesPerName)
	}
	for range 3 * spareNames {
		s.put(standing{name: newNonce().text(), nonce: newNonce()}, 1)
	}
	if n := len(s.young) + len(s.old); n > 2*spareNames {
		t.Errorf("%d names are remembered, want at most %d", n, 2*spareNames)
	}
	for _, name := range slices.Collect(maps.Keys(s.old))[:1] {
		want := s.old[name][0]
		if got := s.take(name); got != want {
			t.Errorf("got %v for a name of before, want %v", got, want)
		}
	}
}
