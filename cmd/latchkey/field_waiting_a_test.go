package main

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/api"
)

// holdersOwnTTLDecides: a waiter's shorter TTL takes nothing from who holds, and whoever waited for longer than its own
// TTL has all of it when its turn comes.
func holdersOwnTTLDecides(t *testing.T, s *service) {
	const name, ttl, short = "own ttl", 9, 4
	c := newClient(t)
	holder := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: ttl})
	if !holder.held() {
		t.Fatalf("a free lock: %v", holder)
	}
	impatient := make(chan answer, 1)
	go func() {
		impatient <- c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: short, WaitSeconds: short + 1})
	}()
	next := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: short, WaitSeconds: 40})
	renewed := c.renew(s.any(), next.lock.ID)
	if a := <-impatient; a.status != http.StatusConflict || a.problem.Code != "lock_held" || a.got.Sub(a.sent) < seconds(short+1) {
		t.Errorf("a wait of %d s for a lock of %d s is 409 lock_held at its end, but answers %v", short+1, ttl, a)
	}
	passed := next.got.Sub(holder.sent)
	if !next.held() || passed < seconds(ttl) || passed > seconds(ttl)+expiryLag+slack {
		t.Errorf("a lock of %d s that nobody renews goes to the next when that is over, not after %v: %v", ttl, passed, next)
	}
	if renewed.status != http.StatusOK || renewed.lock.FencingToken != next.lock.FencingToken {
		t.Errorf("a lock is granted with its whole TTL, %d s, however long its client waited, but renewed at once it answers %v", short, renewed)
	}
	if err := c.releaseSurely(s, next.lock.ID); err != nil {
		t.Error(err)
	}
}

// waiterWhoseClaimVanishesIsTold: at once, and not when the one ahead has gone or its wait is over.
func waiterWhoseClaimVanishesIsTold(t *testing.T, s *service) {
	c := newClient(t)
	etcd := s.etcd.Client(t, nil)
	for _, key := range []string{"", rand.Text()} {
		name := fmt.Sprintf("vanishes, keyed: %v", key != "")
		holder := c.claim(s.any(), "", api.LockRequest{Name: name})
		told := make(chan answer, 1)
		go func() { told <- c.claim(s.any(), key, api.LockRequest{Name: name, WaitSeconds: 40}) }()
		c.awaitClaims(t, s.any(), name, 2, slack, "a waiting claim is listed")
		last, err := etcd.Get(t.Context(), "/latchkey/locks/"+name+"\x00", clientv3.WithLastCreate()...)
		if err != nil || len(last.Kvs) != 1 {
			t.Fatalf("the waiter's key: %v, %v", last, err)
		}
		vanished := time.Now()
		if _, err := etcd.Delete(t.Context(), string(last.Kvs[0].Key)); err != nil {
			t.Fatal(err)
		}
		a := <-told
		if took := a.got.Sub(vanished); a.status != http.StatusServiceUnavailable || a.problem.Code != "place_lost" || a.retry == "" || took > slack {
			t.Errorf("a claim whose place vanishes is 503 place_lost at once, but after %v answers %v", took, a)
		}
		if a := c.renew(s.any(), holder.lock.ID); a.status != http.StatusOK {
			t.Errorf("that takes nothing from the holder, but its renewal answers %v", a)
		}
		if err := c.releaseSurely(s, holder.lock.ID); err != nil {
			t.Error(err)
		}
	}
}

const (
	idleWaiters    = 100
	idleFor        = 8 * time.Second
	mostLinesEvery = 100 * time.Millisecond // of a replica's log, for each line of it, while nothing happens
)

// waitersMakeNoNoiseAndLeaveAtOnce: to keep many places is nothing to write about, and when all their clients hang up
// together all places are free, long before any TTL is over.
func waitersMakeNoNoiseAndLeaveAtOnce(t *testing.T, s *service) {
	const name = "quiet"
	c := newClient(t)
	r := startReplica(t, "--etcd-endpoints="+strings.Join(s.etcd.Endpoints(), ","), "--waiting-ttl=2m") // so that nothing lapses
	holder := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: 60})
	if !holder.held() {
		t.Fatalf("a free lock: %v", holder)
	}
	lines := make([]*net.TCPConn, idleWaiters)
	for i := range lines {
		var err error
		if lines[i], err = send(r.url(), api.LockRequest{Name: name, TTLSeconds: 60, WaitSeconds: 55}); err != nil {
			t.Fatal(err)
		}
		defer lines[i].Close()
	}
	c.awaitClaims(t, s.any(), name, idleWaiters+1, bound, "every waiting claim is listed")

	before, at := strings.Count(r.life.Load().log.String(), "\n"), time.Now()
	over := time.NewTimer(idleFor)
	<-over.C
	written := strings.Count(r.life.Load().log.String(), "\n") - before
	if most := int(time.Since(at) / mostLinesEvery); written > most {
		t.Errorf("a replica whose %d waiters just wait wrote %d lines in %v, want at most %d", idleWaiters, written, time.Since(at), most)
	}
	if locks, err := c.list(s.any(), name); err != nil || len(locks) != idleWaiters+1 {
		t.Fatalf("all wait on, but there are %d claims (%v)", len(locks), err)
	}

	for _, line := range lines {
		vanish(line, false)
	}
	took := c.awaitClaims(t, s.any(), name, 1, vanishNoticed+slack, "clients that hang up together leave the queue together")
	t.Logf("%d lines written in %v; %d waiters that hung up were gone after %v", written, idleFor, idleWaiters, took.Round(time.Millisecond))
	if err := c.releaseSurely(s, holder.lock.ID); err != nil {
		t.Error(err)
	}
	r.stop()
}

// deadGiveWayTogether: however many waiters are dead, they cost the next one two waiting TTLs at the most, and those that
// hung up cost it nothing.
func deadGiveWayTogether(t *testing.T, s *service) {
	const name, dead = "dead together", 10
	c := newClient(t)
	holder := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: 60})
	if !holder.held() {
		t.Fatalf("a free lock: %v", holder)
	}
	told, lines := make([]answer, dead), make([]*net.TCPConn, dead)
	for i := range lines {
		var err error
		if lines[i], err = send(s.any(), api.LockRequest{Name: name, TTLSeconds: 60, WaitSeconds: 55}); err != nil {
			t.Fatal(err)
		}
		defer lines[i].Close()
	}
	var all sync.WaitGroup
	for i := range told {
		key := ""
		if i%2 == 0 {
			key = rand.Text()
		}
		all.Go(func() { told[i] = c.claim(s.any(), key, api.LockRequest{Name: name, TTLSeconds: 60, Queue: true}) })
	}
	all.Wait()
	for _, a := range told {
		if !a.queued() {
			t.Fatalf("a claim with queue on a held lock: %v", a)
		}
	}
	heardOf := time.Now()
	eventually(t, slack, "clients that wait are in the queue", func() bool {
		locks, err := c.list(s.any(), name)
		return err == nil && len(locks) > dead
	})
	living := make(chan answer, 1)
	go func() {
		living <- c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: 60, WaitSeconds: 55})
	}()
	for _, line := range lines {
		vanish(line, true)
	}
	if err := c.releaseSurely(s, holder.lock.ID); err != nil {
		t.Fatal(err)
	}
	a := <-living
	if took := a.got.Sub(heardOf); !a.held() || took > 2*s.waitingTTL+slack {
		t.Errorf("%d dead waiters cost the next two waiting TTLs (%v) at the most, but after %v it is told %v", 2*dead, 2*s.waitingTTL, took, a)
	} else {
		t.Logf("%d dead waiters cost the next %v", 2*dead, took.Round(time.Millisecond))
	}
	for _, lapsed := range told {
		if a := c.look(s.any(), lapsed.lock.ID); a.status != http.StatusNotFound || a.problem.Code != "lock_not_found" {
			t.Errorf("a lapsed claim is 404 lock_not_found, but answers %v", a)
		}
	}
	if err := c.releaseSurely(s, a.lock.ID); err != nil {
		t.Error(err)
	}
}
