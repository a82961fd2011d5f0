package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// requestBound is within what the service answers whatever etcd does, by default.
const requestBound = 5 * time.Second

// holdsOutliveTheLeader: whoever renews in time loses nothing when etcd's leader dies.
func holdsOutliveTheLeader(t *testing.T, s *service) {
	s.healthy(t)
	h := newHolders(t, s, "leader")
	for range shortOrLong(1, 3) {
		leader := s.etcd.Leader()
		s.etcd.Kill(leader)
		away := time.NewTimer(3 * time.Second)
		<-away.C
		s.etcd.Restart(leader)
		s.healthy(t)
	}
	// a lock that was lost has run out by now
	over := time.NewTimer(shortOrLong(seconds(holdersTTL)/2, 2*seconds(holdersTTL)))
	<-over.C
	h.judge()
}

// holdsOutliveARollingRestart: neither holders nor waiters lose anything.
func holdsOutliveARollingRestart(t *testing.T, s *service) {
	const name = "rolling"
	h := newHolders(t, s, name)
	waiting := make([]chan answer, len(s.replicas))
	ids := make([]string, len(s.replicas))
	for i, r := range s.replicas { // one behind the first holder at each
		a := h.c.claim(r.url(), "", api.LockRequest{Name: h.held[0].lock.Name, TTLSeconds: holdersTTL, Queue: true})
		if !a.queued() {
			t.Fatalf("a claim with queue on a held lock: %v", a)
		}
		ids[i], waiting[i] = a.lock.ID, make(chan answer, 1)
		go func() { waiting[i] <- pollUntilHeld(h.c, s, a.lock.ID) }()
	}
	for range shortOrLong(1, 3) {
		for _, r := range s.replicas {
			r.stop()
			r.start()
		}
	}
	for i, id := range ids {
		if a := h.c.look(s.any(), id); !a.queued() || a.lock.Position != i+1 {
			t.Errorf("a waiter keeps its place (%d) through a rolling restart, but a look finds %v", i+1, a)
		}
	}
	h.judge()
	last := h.held[0].lock.FencingToken
	for i := range waiting {
		a := <-waiting[i]
		if !a.held() || a.lock.FencingToken <= last {
			t.Fatalf("waiters are granted in queue order after a rolling restart, but waiter %d, after token %d, is told %v", i, last, a)
		}
		last = a.lock.FencingToken
		if err := h.c.releaseSurely(s, a.lock.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// holdsOutliveTheLossOfTheQuorum: meanwhile every answer is 503 and comes within the request's bound, and says whether
// something may have been done; afterwards what is renewed in time is still held.
func holdsOutliveTheLossOfTheQuorum(t *testing.T, s *service) {
	const ttl = 30
	s.healthy(t)
	c := newClient(t)
	var held []answer
	for i := range holdersCount {
		a := c.claim(s.any(), "", api.LockRequest{Name: fmt.Sprintf("quorum %d", i), TTLSeconds: ttl})
		if !a.held() {
			t.Fatalf("a free lock: %v", a)
		}
		held = append(held, a)
	}
	leader := s.etcd.Leader()
	dead := []int{leader, (leader + 1) % 3}
	for _, m := range dead {
		s.etcd.Kill(m)
	}

	var all sync.WaitGroup
	within503 := func(what string, do func() answer, codes ...string) {
		all.Go(func() {
			a := do()
			if a.status != http.StatusServiceUnavailable || a.retry == "" || !slices.Contains(codes, a.problem.Code) {
				t.Errorf("without a quorum %s is 503 %v with Retry-After, but answers %v (Retry-After %q)", what, codes, a, a.retry)
			}
			if took := a.got.Sub(a.sent); took > requestBound+slack/2 {
				t.Errorf("without a quorum %s is answered within %v, but was after %v", what, requestBound, took)
			}
		})
	}
	notSaid := []string{"unavailable", "outcome_unknown"}
	for i, r := range s.replicas {
		url, id := r.url(), held[i].lock.ID
		within503("a claim", func() answer { return c.claim(url, "", api.LockRequest{Name: "quorum lost"}) }, notSaid...)
		within503("a claim that waits", func() answer {
			return c.claim(url, "", api.LockRequest{Name: held[i].lock.Name, WaitSeconds: 30})
		}, notSaid...)
		within503("a renewal", func() answer { return c.renew(url, id) }, notSaid...)
		within503("a look", func() answer { return c.look(url, id) }, "unavailable")
		within503("the list", func() answer { return c.get(url + "/locks") }, "unavailable")
	}
	all.Wait()
	for _, r := range s.replicas {
		took := eventually(t, slack+requestBound, "without a quorum a replica is not ready", func() bool {
			return c.get(r.url()+"/readyz").status == http.StatusServiceUnavailable
		})
		t.Logf("not ready %v after the requests had failed", took.Round(time.Millisecond))
		if a := c.get(r.url() + "/healthz"); a.status != http.StatusOK {
			t.Errorf("a replica is alive whatever etcd does, but /healthz answers %v", a)
		}
	}

	for _, m := range dead {
		s.etcd.Restart(m)
	}
	s.healthy(t)
	for _, lock := range held {
		var a answer
		eventually(t, bound, "a renewal is answered after etcd has healed", func() bool {
			a = c.renew(s.any(), lock.lock.ID)
			return !a.elsewhere()
		})
		if a.status != http.StatusOK || a.lock.FencingToken != lock.lock.FencingToken {
			t.Errorf("a lock of %d s that is renewed once etcd has healed, %v after its grant, is still held, but answers %v", ttl, time.Since(lock.sent).Round(time.Second), a)
		}
		if err := c.releaseSurely(s, lock.lock.ID); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"quorum lost", held[0].lock.Name} { // what went unanswered stands for no longer than a claim that nobody serves
		c.awaitClaims(t, s.any(), name, 0, 2*s.waitingTTL+seconds(ttl)+slack, "no claim stands that nobody serves")
	}
}

// leaderThatWakesConfirmsNothingThatIsGone: a leader that was stopped while others took its place would say "ok" to the
// renewal of what has run out meanwhile. Nobody is told so.
func leaderThatWakesConfirmsNothingThatIsGone(t *testing.T, s *service) {
	for range shortOrLong(1, 10) {
		leaderWakes(t, s)
	}
}

func leaderWakes(t *testing.T, s *service) {
	const locks, ttl, perLock = 20, 3, 4
	s.healthy(t)
	c := newClient(t)
	leader := s.etcd.Leader()
	at := s.start(t, []string{s.etcd.Endpoint(leader)}) // whatever it asks goes to this member
	defer at.kill()
	away := s.start(t, []string{s.etcd.Endpoint((leader + 1) % 3), s.etcd.Endpoint((leader + 2) % 3)})
	defer away.kill()

	held := make([]answer, locks)
	for i := range held {
		if held[i] = c.claim(at.url(), "", api.LockRequest{Name: fmt.Sprintf("wakes %d", i), TTLSeconds: ttl}); !held[i].held() {
			t.Fatalf("a free lock: %v", held[i])
		}
	}
	s.etcd.Pause(leader)
	eventually(t, seconds(ttl)+2*slack, "locks of a leader that is stopped run out", func() bool {
		for _, lock := range held {
			if a := c.look(away.url(), lock.lock.ID); a.status != http.StatusNotFound {
				return false
			}
		}
		return true
	})

	var all sync.WaitGroup
	confirmed := make(chan answer, locks*perLock)
	for _, lock := range held { // some wait at the leader as it wakes, some come when it has
		for i := range perLock {
			all.Go(func() {
				wait := time.NewTimer(time.Duration(i) * 100 * time.Millisecond)
				<-wait.C
				if a := c.renew(at.url(), lock.lock.ID); a.status != http.StatusNotFound && a.status != http.StatusServiceUnavailable {
					confirmed <- a
				}
			})
		}
	}
	wake := time.NewTimer(100 * time.Millisecond)
	<-wake.C
	s.etcd.Resume(leader)
	all.Wait()
	close(confirmed)
	for a := range confirmed {
		t.Errorf("no renewal is confirmed for a lock that is gone, but one answers %v", a)
	}
}

// placesOutliveTheLossOfTheQuorum: a waiter that keeps asking, and is told 503 meanwhile, stands where it stood.
func placesOutliveTheLossOfTheQuorum(t *testing.T, s *service) {
	const name, waiters = "places", 9
	s.healthy(t)
	c := newClient(t)
	holder := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: longestTTL})
	if !holder.held() {
		t.Fatalf("a free lock: %v", holder)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	ids := make([]string, waiters)
	for i := range ids {
		a := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: takerTTL, Queue: true})
		if !a.queued() {
			t.Fatalf("a claim with queue on a held lock: %v", a)
		}
		ids[i] = a.lock.ID
		all.Go(func() {
			replica := s.any()
			for asked := time.Now(); ctx.Err() == nil; time.Sleep(tryAgain()) {
				replica = s.but(replica)
				a := c.poll(replica, ids[i], 1)
				if !a.queued() && !a.elsewhere() {
					t.Errorf("a waiter that keeps asking keeps its place while etcd is away, but waiter %d, who asked last %v before, is told %v", i, a.sent.Sub(asked), a)
					return
				}
				asked = a.sent
			}
		})
	}

	leader := s.etcd.Leader()
	dead := []int{leader, (leader + 1) % 3}
	for _, m := range dead {
		s.etcd.Kill(m)
	}
	away := time.NewTimer(5 * s.waitingTTL / 2) // they have lapsed by then, if they do
	<-away.C
	for _, m := range dead {
		s.etcd.Restart(m)
	}
	s.healthy(t)
	settled := time.NewTimer(s.waitingTTL)
	<-settled.C
	stop()
	all.Wait()
	for i, id := range ids {
		if a := c.look(s.any(), id); !a.queued() || a.lock.Position != i+1 {
			t.Errorf("a waiter that keeps asking keeps its place (%d) while etcd is away, but a look finds %v", i+1, a)
		}
	}
	for _, id := range append(ids, holder.lock.ID) {
		if err := c.releaseSurely(s, id); err != nil {
			t.Error(err)
		}
	}
}
