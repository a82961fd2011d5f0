package main

import (
	"crypto/rand"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// resumable are the ways in which a client that loses its replica finds its claim again.
var resumable = []way{
	{wait: takerWait, poll: takerWait, keyed: true, queue: true},
	{poll: takerWait, queue: true, keyed: true},
	{wait: 1, poll: takerWait, keyed: true, queue: true},
	{wait: takerWait, poll: takerWait, leased: true, queue: true},
}

// clientsTakeOneLockInTurnWhileReplicasDie: no place is lost, and no dead replica's claims hold up the queue for longer
// than two waiting TTLs.
func clientsTakeOneLockInTurnWhileReplicasDie(t *testing.T, s *service) {
	every, kills := shortOrLong(5*time.Second, 10*time.Second), shortOrLong(2, 6)
	takeInTurnWhile(t, s, newClient(t), "in turn, though", resumable, func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := range kills {
			<-tick.C
			r := s.replicas[i%len(s.replicas)]
			r.kill()
			r.start()
		}
		settled := time.NewTimer(every / 2)
		<-settled.C
	})
	t.Logf("%d replicas died", kills)
}

// takeInTurnWhile lets clients take a lock in turn until disturb, which does them harm, returns.
func takeInTurnWhile(t *testing.T, s *service, c *client, name string, ways []way, disturb func()) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	var all *turns
	go func() {
		defer close(done)
		all = takeInTurn(t, s, c, name, ways, stop)
	}()
	end := sync.OnceFunc(func() { close(stop); <-done })
	defer end()
	disturb()
	end()
	longest := all.judge(t)
	if most := 2*s.waitingTTL + slack; longest > most {
		t.Errorf("claims of the dead hold up the queue for at most two waiting TTLs (%v), but nobody was granted the lock for %v", 2*s.waitingTTL, longest)
	}
	c.awaitClaims(t, s.any(), name, 0, 2*s.waitingTTL+slack, "no claim is left once all have released")
}

// placeOutlivesItsReplica: a waiter goes on at another replica where it stood; one that nobody can ask for again goes with
// its replica, within two waiting TTLs.
func placeOutlivesItsReplica(t *testing.T, s *service) {
	const name, ttl = "a place", longestTTL
	c := newClient(t)
	alive, dying, other := s.replicas[0], s.replicas[1], s.replicas[2]

	holder := c.claim(alive.url(), "", api.LockRequest{Name: name, TTLSeconds: ttl})
	if !holder.held() {
		t.Fatalf("a free lock: %v", holder)
	}
	queue := func(r *replica) answer {
		a := c.claim(r.url(), "", api.LockRequest{Name: name, TTLSeconds: ttl, Queue: true})
		if a.status != http.StatusAccepted {
			t.Fatalf("a claim with queue on a held lock answers %v, want 202", a)
		}
		return a
	}
	first := queue(other)
	moved := queue(dying)
	third := queue(other)
	polled := make(chan answer, 1)
	go func() { polled <- c.poll(dying.url(), moved.lock.ID, takerWait) }()
	untold := make(chan answer, 1)
	go func() {
		untold <- c.claim(dying.url(), "", api.LockRequest{Name: name, TTLSeconds: ttl, WaitSeconds: takerWait, Queue: true})
	}()
	c.awaitClaims(t, alive.url(), name, 5, slack, "a waiting claim is listed")
	last := queue(other)

	dying.kill()
	died := time.Now()
	for _, line := range []chan answer{polled, untold} {
		if a := <-line; a.err == nil {
			t.Fatalf("a killed replica still answered %v", a)
		}
	}
	for _, r := range []*replica{alive, other} {
		if a := c.poll(r.url(), moved.lock.ID, 0); !a.queued() || a.lock.Position != 2 {
			t.Errorf("a waiter whose replica died keeps its position (2) at another, but the answer is %v", a)
		}
	}

	// each lets the next one in; the one that was never told its id stands before the last
	waits := []answer{first, moved, third, last}
	granted := make([]chan answer, len(waits))
	for i, w := range waits {
		granted[i] = make(chan answer, 1)
		go func() { granted[i] <- pollUntilHeld(c, s, w.lock.ID) }()
	}
	before := holder
	for i := range waits {
		if err := c.releaseSurely(s, before.lock.ID); err != nil {
			t.Fatal(err)
		}
		a := <-granted[i]
		if !a.held() || a.lock.FencingToken <= before.lock.FencingToken {
			t.Fatalf("waiter %d, after token %d: %v", i, before.lock.FencingToken, a)
		}
		if early := i + 1; early < len(waits) {
			select {
			case a := <-granted[early]:
				t.Fatalf("waiter %d was told %v before its turn", early, a)
			default:
			}
		}
		before = a
	}
	if took := time.Since(died); took > 2*s.waitingTTL+slack {
		t.Errorf("a claim that nobody can ask for again blocks the queue for at most two waiting TTLs (%v) after its replica died, but did for %v", 2*s.waitingTTL, took)
	} else {
		t.Logf("the claim of the dead replica that nobody could ask for was gone %v after its death", took.Round(time.Millisecond))
	}
	if err := c.releaseSurely(s, before.lock.ID); err != nil {
		t.Fatal(err)
	}
	dying.start()
}

// pollUntilHeld asks for a claim at one replica after another, until it is held or the service says that it is gone.
func pollUntilHeld(c *client, s *service, id string) answer {
	for began := time.Now(); ; {
		a := c.poll(s.any(), id, takerWait)
		switch {
		case a.held(), !a.queued() && !a.elsewhere(), time.Since(began) > takerBound:
			return a
		case a.elsewhere():
			time.Sleep(tryAgain())
		}
	}
}

// waiterThatNeverComesBackGivesWay: it costs those behind it at most two waiting TTLs, be it told or have a key.
func waiterThatNeverComesBackGivesWay(t *testing.T, s *service) {
	const name = "no way back"
	c := newClient(t)
	holder := c.claim(s.any(), "", api.LockRequest{Name: name})
	told := c.claim(s.any(), "", api.LockRequest{Name: name, Queue: true})
	keyed := c.claim(s.any(), rand.Text(), api.LockRequest{Name: name, Queue: true})
	if !holder.held() || !told.queued() || !keyed.queued() {
		t.Fatalf("%v; %v; %v", holder, told, keyed)
	}
	left := time.Now()
	if err := c.releaseSurely(s, holder.lock.ID); err != nil {
		t.Fatal(err)
	}
	a := c.claim(s.any(), "", api.LockRequest{Name: name, WaitSeconds: int64((2*s.waitingTTL + slack) / time.Second)})
	if took := time.Since(left); !a.held() || took > 2*s.waitingTTL+slack {
		t.Errorf("waiters that never come back cost those behind at most two waiting TTLs (%v), but after %v the answer is %v", 2*s.waitingTTL, took, a)
	} else {
		t.Logf("the next was granted %v after the dead waiters were last heard of", took.Round(time.Millisecond))
	}
	for _, lapsed := range []answer{told, keyed} {
		if a := c.look(s.any(), lapsed.lock.ID); a.status != http.StatusNotFound || a.problem.Code != "lock_not_found" {
			t.Errorf("a lapsed claim is 404 lock_not_found, but answers %v", a)
		}
	}
	if err := c.releaseSurely(s, a.lock.ID); err != nil {
		t.Fatal(err)
	}
}
