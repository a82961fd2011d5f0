package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

const (
	takers     = 64
	takerTTL   = 10
	takerWait  = 20
	takerBound = 2 * time.Minute // for one claim from first asking to its grant
)

// way is how a client waits.
type way struct {
	keyed  bool
	leased bool // on a lease of its own
	queue  bool
	wait   int64 // of its claim; what is left of the wait it polls
	poll   int64
}

var ways = []way{
	{wait: takerWait},
	{wait: takerWait, keyed: true},
	{wait: takerWait, poll: takerWait, keyed: true, queue: true},
	{poll: takerWait, queue: true},
	{poll: takerWait, queue: true, keyed: true},
	{poll: takerWait, wait: 1, queue: true},
	{wait: takerWait, leased: true},
	{poll: takerWait, queue: true, leased: true},
}

// taker takes one lock again and again, standing in line for it each time.
type taker struct {
	s        *service
	c        *client
	resource *register
	name     string
	n        int
	way
	lease string
	// resumed counts the requests that had to be sent again to another replica, outlived the grants that had run out when
	// the client heard of them.
	resumed, outlived *atomic.Int64
}

// turns is what has come of many clients taking one lock in turn.
type turns struct {
	resource          *register
	took              time.Duration
	resumed, outlived atomic.Int64
}

// takeInTurn lets many clients take one lock until it is time to stop, and at least once each, and returns when all that
// stood in line have had it.
func takeInTurn(t *testing.T, s *service, c *client, name string, ways []way, stop <-chan struct{}) *turns {
	t.Helper()
	began := time.Now()
	all := &turns{resource: &register{}}
	var work sync.WaitGroup
	for n := range takers {
		k := &taker{
			s: s, c: c, resource: all.resource, name: name, n: n, way: ways[n%len(ways)],
			resumed: &all.resumed, outlived: &all.outlived,
		}
		work.Go(func() {
			if err := k.run(stop); err != nil {
				t.Errorf("client %d: %v", n, err)
			}
		})
	}
	work.Wait()
	all.took = time.Since(began)
	return all
}

func (k *taker) run(stop <-chan struct{}) (err error) {
	if k.leased {
		if k.lease, err = k.c.lease(k.s, longestTTL); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, k.c.endSurely(k.s, k.lease)) }()
	}
	for err == nil {
		err = k.once()
		select {
		case <-stop:
			return err
		default:
		}
	}
	return err
}

// once stands in line, works on the resource and lets go.
func (k *taker) once() error {
	lock, visit, err := k.takeForSure()
	if err != nil {
		return err
	}
	if err := k.resource.enter(visit); err != nil {
		return err
	}
	if !k.resource.write(lock.FencingToken) && time.Now().Before(visit.until) {
		err = fmt.Errorf("the resource takes the writes of a holder inside its TTL, but refuses token %d", lock.FencingToken)
	}
	k.resource.leave(visit)
	if err == nil {
		err = k.c.releaseSurely(k.s, lock.ID)
	}
	return err
}

// takeForSure takes the lock and counts as a client should: from when it sent the request that got it without waiting,
// else from a renewal. A grant that has run out before is no grant.
func (k *taker) takeForSure() (api.Lock, *stay, error) {
	for {
		lock, visit, err := k.take()
		if err != nil || !visit.until.IsZero() {
			return lock, visit, err
		}
		stands, err := k.renew(lock, visit)
		if err != nil || stands {
			return lock, visit, err
		}
		k.outlived.Add(1)
	}
}

// take stands in line until the lock is held, at one replica after another.
func (k *taker) take() (api.Lock, *stay, error) {
	claim := api.LockRequest{Name: k.name, TTLSeconds: takerTTL, WaitSeconds: k.wait, Queue: k.queue}
	if k.leased {
		claim.TTLSeconds, claim.LeaseID = 0, k.lease
	}
	visit := &stay{client: k.n, asked: time.Now()}
	key, id := "", ""
	if k.keyed {
		key = rand.Text()
	}
	replica := k.s.any()
	for began := time.Now(); time.Since(began) < takerBound; replica = k.s.but(replica) {
		var a answer
		if id == "" {
			a = k.c.claim(replica, key, claim)
		} else {
			a = k.c.poll(replica, id, k.poll)
		}
		switch {
		case a.held() && (id == "" || id == a.lock.ID):
			visit.token = a.lock.FencingToken
			if id == "" && k.wait == 0 {
				visit.until = a.sent.Add(seconds(takerTTL))
			}
			return a.lock, visit, nil
		case a.queued() && (id == "" || id == a.lock.ID):
			if id = a.lock.ID; visit.queued.IsZero() {
				visit.queued = a.got
			}
		case a.status == http.StatusConflict && !k.queue && a.problem.Code == "lock_held": // it has left the queue
			visit = &stay{client: k.n, asked: time.Now()}
		case a.elsewhere():
			k.resumed.Add(1)
			time.Sleep(tryAgain())
			if id == "" && !k.keyed && !k.leased {
				visit = &stay{client: k.n, asked: time.Now()} // another claim
			}
		case id != "":
			return api.Lock{}, nil, fmt.Errorf("a waiter that keeps asking keeps its place, but after %v its poll answers %v", time.Since(began), a)
		default:
			return api.Lock{}, nil, fmt.Errorf("a claim answers %v", a)
		}
	}
	return api.Lock{}, nil, fmt.Errorf("a waiter is served in its turn, but this one was not within %v", takerBound)
}

// renew starts the TTL again, and reports false if the lock is gone.
func (k *taker) renew(lock api.Lock, visit *stay) (stands bool, err error) {
	replica := k.s.any()
	for began := time.Now(); ; time.Sleep(tryAgain()) {
		replica = k.s.but(replica)
		a := k.c.renew(replica, lock.LeaseID)
		switch {
		case a.status == http.StatusOK && (k.leased || a.lock.FencingToken == lock.FencingToken):
			visit.until = a.sent.Add(seconds(takerTTL))
			return true, nil
		case a.status == http.StatusNotFound && a.problem.Code == "lease_not_found":
			return false, nil
		case !a.elsewhere(), time.Since(began) > takerBound:
			return false, fmt.Errorf("a renewal answers %v", a)
		}
		k.resumed.Add(1)
	}
}

// judge asks for what is promised of all turns together, tells the figures, and returns the longest hand-off.
func (all *turns) judge(t *testing.T) time.Duration {
	t.Helper()
	t.Logf("%d requests were sent again, %d grants had run out before they were heard of", all.resumed.Load(), all.outlived.Load())
	return all.resource.judge(t, takers, all.took)
}

// clientsTakeOneLockInTurn: no overlap, tokens that strictly increase, grants in queue order, and everybody is served.
func clientsTakeOneLockInTurn(t *testing.T, s *service) {
	const name = "in turn"
	stop := make(chan struct{})
	timer := time.AfterFunc(shortOrLong(8*time.Second, time.Minute), func() { close(stop) })
	defer timer.Stop()
	c := newClient(t)
	all := takeInTurn(t, s, c, name, ways, stop)
	all.judge(t)
	if n := all.outlived.Load(); n > 0 {
		t.Errorf("a waiter that is there is told of its grant well inside the TTL, but %d were not", n)
	}
	c.awaitClaims(t, s.any(), name, 0, slack, "no claim is left once all have released")
	if *long {
		noEtcdLeaseIsLeft(t, s, seconds(takerTTL)+slack)
	}
}
