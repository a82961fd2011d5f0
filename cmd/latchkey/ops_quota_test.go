package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// quotaIsReached: on a full etcd nothing is claimed, and whoever holds renews, releases and runs out as ever; waiters keep
// their places. When there is space again all goes on.
func quotaIsReached(t *testing.T, s *service) {
	const name, ttl = "full", 10
	s.healthy(t)
	h := newHolders(t, s, name)
	c := h.c
	waiters := newLine(t, s, h.held[0].lock.Name)
	first := c.claim(s.any(), "", api.LockRequest{Name: "full, released", TTLSeconds: longestTTL})
	if !first.held() {
		t.Fatalf("a free lock: %v", first)
	}
	next := make(chan answer, 1)
	a := c.claim(s.any(), "", api.LockRequest{Name: first.lock.Name, TTLSeconds: longestTTL, Queue: true})
	if !a.queued() {
		t.Fatalf("a claim with queue on a held lock: %v", a)
	}
	go func() { next <- pollUntilHeld(c, s, a.lock.ID) }()

	empty(t, s, "/filler/") // the history of what went before takes space too
	if fill(t, s, "/filler/most/", opsQuota/2) {
		t.Fatalf("etcd with a quota of %d bytes is full with what went before", opsQuota)
	}
	expiring := c.claim(s.any(), "", api.LockRequest{Name: "full, not renewed", TTLSeconds: ttl})
	if !expiring.held() {
		t.Fatalf("a free lock: %v", expiring)
	}
	if !fill(t, s, "/filler/rest/", opsQuota) {
		t.Fatalf("etcd with a quota of %d bytes took more", opsQuota)
	}
	for _, r := range s.replicas { // a claim that was under way at the alarm may have passed
		eventually(t, bound, "on a full etcd a claim is 503 unavailable", func() bool { return refusedForSpace(c, r.url(), name) })
	}
	load := refusedClaims(t, s, c, name)
	if a := c.release(s.any(), first.lock.ID); a.status != http.StatusNoContent {
		t.Errorf("on a full etcd a release passes, but answers %v", a)
	}
	for _, r := range s.replicas {
		if a := c.renew(r.url(), h.held[1].lock.ID); a.status != http.StatusOK {
			t.Errorf("on a full etcd a renewal passes, but answers %v", a)
		}
		if a := c.do(http.MethodPost, r.url()+"/leases", "", api.LeaseRequest{}, 0); a.status != http.StatusServiceUnavailable {
			t.Errorf("on a full etcd no lease can be made (503), but the answer is %v", a)
		}
		if a := c.get(r.url() + "/readyz"); a.status != http.StatusOK {
			t.Errorf("a replica that can renew and release is ready, but /readyz answers %v", a)
		}
	}
	if a := c.renew(s.any(), expiring.lock.ID); a.status != http.StatusOK {
		t.Errorf("on a full etcd a renewal passes, but answers %v", a)
	}
	took := eventually(t, seconds(ttl)+expiryLag+slack, "on a full etcd a lock that is not renewed runs out", func() bool {
		return c.look(s.any(), expiring.lock.ID).status == http.StatusNotFound
	})
	t.Logf("a lock of %d s ran out %v after its last renewal", ttl, took.Round(time.Millisecond))
	settle(shortOrLong(s.waitingTTL-took, 3*s.waitingTTL-took)) // what lapses has lapsed by then
	waiters.keptPlaces()
	select {
	case a := <-next:
		t.Errorf("on a full etcd nobody is granted a lock or loses a place, but a waiter is told %v", a)
	default:
	}
	load.end()

	empty(t, s, "/filler/")
	if err := s.etcd.Disarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if full, err := s.etcd.Alarmed(t.Context()); err != nil || full {
		t.Fatalf("the alarm was cleared, but stands: %v, %v", full, err)
	}
	freed := time.Now()
	if a := <-next; !a.held() || a.lock.FencingToken <= first.lock.FencingToken {
		t.Errorf("the next in line is granted the lock once there is space, but is told %v", a)
	} else if err := c.releaseSurely(s, a.lock.ID); err != nil {
		t.Error(err)
	}
	for _, r := range s.replicas {
		eventually(t, bound, "claims pass once there is space", func() bool {
			a := c.claim(r.url(), "", api.LockRequest{Name: fmt.Sprintf("%s again", name)})
			return a.held() && c.release(r.url(), a.lock.ID).status == http.StatusNoContent
		})
	}
	t.Logf("every replica granted and released again %v after the alarm was cleared", time.Since(freed).Round(time.Millisecond))
	h.judge()
	waiters.served()
}

// refusedForSpace says whether a claim of a free name is refused as it must be. A claim that passes is given back.
func refusedForSpace(c *client, replica, name string) bool {
	a := c.claim(replica, "", api.LockRequest{Name: name + ", claimed"})
	if a.held() {
		c.release(replica, a.lock.ID)
	}
	return a.status == http.StatusServiceUnavailable && a.problem.Code == "unavailable" && a.retry != ""
}

// refusals are clients that claim free names all the time, of which none is granted.
type refusals struct {
	stop chan struct{}
	all  sync.WaitGroup
	end  func()
}

func refusedClaims(t *testing.T, s *service, c *client, name string) *refusals {
	t.Helper()
	r := &refusals{stop: make(chan struct{})}
	r.end = sync.OnceFunc(func() { close(r.stop); r.all.Wait() })
	t.Cleanup(r.end)
	for i := range cyclersCount {
		r.all.Go(func() {
			for {
				if !refusedForSpace(c, s.any(), fmt.Sprintf("%s %d", name, i)) {
					t.Errorf("on a full etcd a claim is 503 unavailable with Retry-After, but one was not")
					return
				}
				select {
				case <-r.stop:
					return
				case <-time.After(tryAgain()):
				}
			}
		})
	}
	return r
}
