package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestManyRequestsOfOneKeyAreOneClaim(t *testing.T) {
	a, b := pair(t)
	const key, requests, rounds = "0123456789abcdef", 12, 10
	for round := range rounds {
		held := mustHold(t, a, Claim{Name: "x"})
		var waits []<-chan result
		for i := range requests {
			waits = append(waits, claimInBackground(t, []*Store{a, b}[i%2], Claim{Name: "x", Wait: within, Key: key}))
		}
		queuedUp(t, a, "x", 2)
		if round%2 == 0 {
			eventually(t, "both serve it at times", func() bool { return a.serving()+b.serving() > 1 })
		}
		mustRelease(t, b, held)
		var first Lock
		for i, wait := range waits {
			l := getHeld(t, wait)
			if i == 0 {
				first = l
			}
			if l.ID != first.ID || l.Token != first.Token {
				t.Fatalf("round %d: got %+v and %+v for one key", round, l, first)
			}
		}
		if got := claimsOn(t, a, "x"); len(got) != 1 {
			t.Fatalf("round %d: got %d claims, want 1", round, len(got))
		}
		mustRelease(t, a, first)
	}
	eventually(t, "nothing is served any more", func() bool { return a.serving() == 0 && b.serving() == 0 })
	eventually(t, "no waiting lease counts a claim", func() bool { return onSlots(t, a) == 0 && onSlots(t, b) == 0 })
}

// TestEveryRequestOfAKeyIsToldHoweverAnswersAreDelayed is for clients that repeat their claims at one replica after another,
// while what etcd answers and what it tells by itself arrive in any order.
func TestEveryRequestOfAKeyIsToldHoweverAnswersAreDelayed(t *testing.T) {
	const owners, rounds, requests, most = 3, 6, 6, 60 * time.Millisecond
	var stores []*Store
	for range 3 {
		s, faults := faulty(t)
		faults.Every(func(etcdtest.Call) bool { return true }).Slow(most)
		stores = append(stores, s)
	}
	any := func() *Store { return stores[rand.N(len(stores))] }
	// ask waits in one request, or polls as clients behind impatient proxies do.
	ask := func(c Claim) (Lock, error) {
		if rand.N(2) == 0 {
			return any().Claim(ctxFor(t), c)
		}
		began, poll := time.Now(), c
		poll.Queue, poll.Wait = true, rand.N(most)
		l, err := any().Claim(ctxFor(t), poll)
		for err == nil && l.State == Queued && time.Since(began) < c.Wait {
			l, err = any().Ask(ctxFor(t), l.ID, rand.N(4*most), time.Now())
		}
		return l, err
	}
	var inside atomic.Int32
	var work sync.WaitGroup
	for owner := range owners {
		work.Go(func() {
			for round := range rounds {
				c := Claim{Name: "x", Wait: within, TTL: 60 * time.Second, Key: fmt.Sprintf("key %d of owner %d", round, owner)}
				var waits []<-chan result
				for range 2 + rand.N(requests) {
					waits = append(waits, inBackground(func() (Lock, error) { return ask(c) }))
					leaving, leave := context.WithTimeout(ctxFor(t), rand.N(most))
					_, _ = any().Claim(leaving, c)
					leave()
				}
				var first Lock
				for i, wait := range waits {
					r := <-wait
					if r.err != nil || r.lock.State != Held || i > 0 && r.lock.ID != first.ID {
						t.Errorf("round %d of owner %d, request %d of %d: got %+v, %v beside %+v", round, owner, i, len(waits), r.lock, r.err, first)
						return
					}
					first = r.lock
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d inside", n)
				}
				time.Sleep(rand.N(most)) // so that the next one's requests come while it is held, granted and told
				inside.Add(-1)
				if err := any().Release(ctxFor(t), first.ID); err != nil {
					t.Errorf("release: %v", err)
					return
				}
			}
		})
	}
	work.Wait()
}

// TestPlaceIsGrantedThoughOneGaveUpJustThen: of two requests of a claim one gives up waiting for the transaction about it in
// the very moment in which that ends.
func TestPlaceIsGrantedThoughOneGaveUpJustThen(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, b, Claim{Name: "x"})
	wait := claimInBackground(t, a, Claim{Name: "x", Wait: within})
	queuedUp(t, b, "x", 2)
	eventually(t, "it is served", func() bool { return a.serving() == 1 })
	var p *place
	current(t, a).eachPlace(func(served *place) {
		p = served
		p.busy = true // a transaction is under way
	})
	giving, giveUp := context.WithCancel(ctxFor(t))
	gaveUp := make(chan bool)
	go func() { gaveUp <- !p.quiet(giving) }()
	mustRelease(t, b, held)
	eventually(t, "it is first, and one waits for the transaction", func() bool {
		p.line.mu.Lock()
		defer p.line.mu.Unlock()
		head := p.line.view.head()
		return p.ending == 1 && head != nil && head.key == p.key
	})
	p.line.mu.Lock()
	giveUp()
	p.busy = false // as done does
	p.wake()
	p.line.step()
	p.line.mu.Unlock()
	if !<-gaveUp {
		t.Fatal("it went on")
	}
	began := time.Now()
	getHeld(t, wait)
	if took := time.Since(began); took > within/2 {
		t.Errorf("granted after %v", took)
	}
}

// TestSlotThatAnotherRequestGaveBackIsNotCountedForThePlace: the place was to stay on its slot, and was put on another meanwhile.
func TestSlotThatAnotherRequestGaveBackIsNotCountedForThePlace(t *testing.T) {
	a := open(t, etcdtest.Shared(t).Client(t))
	held := mustHold(t, a, Claim{Name: "x"})
	wait := claimInBackground(t, a, Claim{Name: "x", Wait: within})
	eventually(t, "it is served", func() bool { return a.serving() == 1 })
	r := current(t, a)
	var p *place
	r.eachPlace(func(served *place) { p = served })
	other := &slot{}
	if p.aim(other, false) || p.next != nil {
		t.Error("it is to be put on a slot that it does not have")
	}
	own, err := r.presence.take(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	if !p.aim(own, true) || !p.aim(p.slot, false) {
		t.Error("it is not to be put on the slot that it has")
	}
	mustRelease(t, a, held)
	getHeld(t, wait)
	eventually(t, "no waiting lease counts a claim", func() bool { return onSlots(t, a) == 0 })
}

// onSlots counts the claims that a replica believes to be on its waiting leases.
func onSlots(t testing.TB, s *Store) int {
	p := &current(t, s).presence
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, sl := range p.slots {
		if sl.claims < 0 {
			t.Fatalf("a waiting lease counts %d claims", sl.claims)
		}
		n += sl.claims
	}
	return n
}

// TestOneLockInTurn is the service's use in small: workers at two replicas take one lock in turn.
func TestOneLockInTurn(t *testing.T) {
	a, b := pair(t)
	const workers, turns = 10, 15
	var mu sync.Mutex
	var last int64
	inside := 0
	var work sync.WaitGroup
	for w := range workers {
		s, other := a, b
		if w%2 == 1 {
			s, other = b, a
		}
		work.Go(func() {
			for range turns {
				l, err := s.Claim(ctxFor(t), Claim{Name: "x", TTL: 30 * time.Second, Wait: within})
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				mu.Lock()
				if inside++; inside != 1 || l.Token <= last {
					t.Errorf("%d inside, token %d after %d", inside, l.Token, last)
				}
				last = l.Token
				mu.Unlock()
				mu.Lock()
				inside--
				mu.Unlock()
				if err := other.Release(ctxFor(t), l.ID); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	work.Wait()
	if got := claimsOn(t, a, "x"); len(got) != 0 {
		t.Errorf("got %d claims left", len(got))
	}
	eventually(t, "no waiting lease counts a claim", func() bool { return onSlots(t, a) == 0 && onSlots(t, b) == 0 })
}
