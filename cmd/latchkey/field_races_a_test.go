package main

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// renewalsThroughAFollowerMeetAClaim: a member of etcd that has not heard yet of a lease says nothing false about it.
func renewalsThroughAFollowerMeetAClaim(t *testing.T, s *service) {
	pinned := &service{etcd: s.etcd, waitingTTL: s.waitingTTL}
	for _, e := range s.etcd.Endpoints() {
		pinned.replicas = append(pinned.replicas, s.start(t, []string{e}))
	}
	renewalsThroughAnotherReplicaMeetAClaim(t, pinned)
}

const (
	endingWorkers = 16
	endingWait    = 1
	endingTTL     = 4
	endingJitter  = 50 * time.Millisecond
)

// waitThatEndsAsItsTurnComesHasOneOutcome: the lock is released just as a waiter's time is over, or just as its client's
// patience is. Either it is held and told so, or can be found by its key, or nothing of it is left.
func waitThatEndsAsItsTurnComesHasOneOutcome(t *testing.T, s *service) {
	rounds := shortOrLong(1, 40)
	var all sync.WaitGroup
	for w := range endingWorkers {
		all.Go(func() {
			for i := range rounds {
				e := closeEnd{s: s, c: newClient(t), name: fmt.Sprintf("ends %d %d", w, i)}
				for _, play := range []func() error{e.waitIsOver, e.keyedClientGivesUp, e.untoldClientGivesUp} {
					if err := play(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
}

// closeEnd is a waiter and the end of its wait.
type closeEnd struct {
	s    *service
	c    *client
	name string
}

// meet lets a wait end and its turn come at the same time, and returns what the waiter was told.
func (e closeEnd) meet(key string, patience time.Duration) (answer, error) {
	holder := e.c.claim(e.s.any(), "", api.LockRequest{Name: e.name, TTLSeconds: longestTTL})
	if !holder.held() {
		return answer{}, fmt.Errorf("a free lock: %v", holder)
	}
	waiter := *e.c
	waiter.patience = patience
	told := make(chan answer, 1)
	turn := time.NewTimer(seconds(endingWait) - endingJitter + mathrand.N(2*endingJitter))
	go func() {
		told <- waiter.claim(e.s.any(), key, api.LockRequest{Name: e.name, TTLSeconds: endingTTL, WaitSeconds: endingWait})
	}()
	<-turn.C
	if err := e.c.releaseSurely(e.s, holder.lock.ID); err != nil {
		return answer{}, err
	}
	return <-told, nil
}

func (e closeEnd) waitIsOver() error {
	a, err := e.meet("", e.c.patience)
	switch {
	case err != nil:
		return err
	case a.held():
		return e.holdsAlone(a)
	case a.status == http.StatusConflict && a.problem.Code == "lock_held":
		return e.nothingStands("a wait that ended with 409")
	}
	return fmt.Errorf("a wait ends with 201 or 409 lock_held, but answers %v", a)
}

func (e closeEnd) keyedClientGivesUp() error {
	key := rand.Text()
	told, err := e.meet(key, 0)
	if err != nil {
		return err
	}
	again := e.c.claim(e.s.any(), key, api.LockRequest{Name: e.name, TTLSeconds: endingTTL})
	if !again.held() || told.held() && (again.lock.ID != told.lock.ID || !again.replayed) {
		return fmt.Errorf("a client that gave up, told %v, finds its claim by its key on a name where nobody else is, but is told %v", told, again)
	}
	return e.holdsAlone(again)
}

func (e closeEnd) untoldClientGivesUp() error {
	told, err := e.meet("", 0)
	if err != nil {
		return err
	}
	if told.held() {
		return e.holdsAlone(told)
	}
	next := e.c.claim(e.s.any(), "", api.LockRequest{Name: e.name, TTLSeconds: endingTTL, WaitSeconds: 40})
	if took := next.got.Sub(next.sent); !next.held() || took > seconds(endingTTL)+expiryLag+slack {
		return fmt.Errorf("a client that gave up costs the next at most its TTL (%d s), but after %v that one is told %v", endingTTL, took, next)
	}
	return e.holdsAlone(next)
}

// holdsAlone asks that a claim is all there is on the name, and releases it.
func (e closeEnd) holdsAlone(a answer) error {
	renewed := e.c.renew(e.s.any(), a.lock.ID)
	if renewed.status != http.StatusOK || renewed.lock.FencingToken != a.lock.FencingToken {
		return fmt.Errorf("who was told that it holds (%v) can renew, but is told %v", a, renewed)
	}
	if locks, err := e.c.list(e.s.any(), e.name); err != nil || len(locks) != 1 || locks[0].FencingToken != a.lock.FencingToken {
		return fmt.Errorf("who was told that it holds (%v) is alone there, but there are %+v (%v)", a, locks, err)
	}
	if err := e.c.releaseSurely(e.s, a.lock.ID); err != nil {
		return err
	}
	return e.nothingStands("a release")
}

func (e closeEnd) nothingStands(after string) error {
	var left []api.Lock
	for began := time.Now(); time.Since(began) < vanishNoticed+slack; time.Sleep(lookAgain) {
		var err error
		if left, err = e.c.list(e.s.any(), e.name); err == nil && len(left) == 0 {
			return nil
		}
	}
	return fmt.Errorf("after %s nothing is left on the name, but there are %+v", after, left)
}

// releaseWinsOverARenewal: a renewal under way brings nothing back, and touches nothing that comes after.
func releaseWinsOverARenewal(t *testing.T, s *service) {
	rounds := shortOrLong(120, 3000)
	const workers = 6
	c := newClient(t)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range rounds / workers {
				if err := releaseMeetsRenewal(c, s, fmt.Sprintf("released %d", w), i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func releaseMeetsRenewal(c *client, s *service, name string, i int) error {
	held := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: longestTTL})
	if !held.held() {
		return fmt.Errorf("a free lock: %v", held)
	}
	renewal := make(chan answer, 1)
	go func() { renewal <- c.renew(s.replicas[i%replicas].url(), held.lock.ID) }()
	if a := c.release(s.replicas[(i+1)%replicas].url(), held.lock.ID); a.status != http.StatusNoContent {
		return fmt.Errorf("a release answers %v, want 204", a)
	}
	next := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: longestTTL})
	if !next.held() || next.lock.FencingToken <= held.lock.FencingToken {
		return fmt.Errorf("a released lock is free, but after token %d a claim answers %v", held.lock.FencingToken, next)
	}
	if a := <-renewal; a.status != http.StatusOK && a.problem.Code != "lease_not_found" {
		return fmt.Errorf("a renewal that meets a release answers %v, want 200 or 404 lease_not_found", a)
	}
	for _, r := range s.replicas {
		if a := c.renew(r.url(), held.lock.ID); a.status != http.StatusNotFound || a.problem.Code != "lease_not_found" {
			return fmt.Errorf("the renewal of a released lock is 404 lease_not_found, but answers %v", a)
		}
	}
	if a := c.renew(s.any(), next.lock.ID); a.status != http.StatusOK || a.lock.FencingToken != next.lock.FencingToken {
		return fmt.Errorf("the next holder has its lock, but its renewal answers %v", a)
	}
	return c.releaseSurely(s, next.lock.ID)
}
