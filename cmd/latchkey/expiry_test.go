package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// expiryLag is how much later than its TTL a lock normally runs out.
const expiryLag = 1500 * time.Millisecond

// lockThatIsNotRenewedGoesToTheNext: not before its TTL is over and soon after; then its holder is told, and the resource
// refuses it.
func lockThatIsNotRenewedGoesToTheNext(t *testing.T, s *service) {
	const name, ttl = "not renewed", 5
	c := newClient(t)
	resource := &register{}

	holder := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: ttl, Holder: "asleep"})
	if !holder.held() || !resource.write(holder.lock.FencingToken) {
		t.Fatalf("a free lock: %v", holder)
	}
	next := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: ttl, WaitSeconds: 40})
	if !next.held() {
		t.Fatalf("the waiter: %v", next)
	}
	passed := next.got.Sub(holder.sent)
	t.Logf("a lock of %d s that was not renewed went to the next %v after it was asked for", ttl, passed.Round(time.Millisecond))
	if passed < seconds(ttl) {
		t.Errorf("nobody else is granted a lock within its TTL (%d s), but somebody was after %v", ttl, passed)
	}
	if passed > seconds(ttl)+expiryLag+slack {
		t.Errorf("a lock that is not renewed is granted to the next normally within its TTL and %v, but was after %v", expiryLag, passed)
	}
	if next.lock.FencingToken <= holder.lock.FencingToken {
		t.Errorf("tokens grow, but %d came after %d", next.lock.FencingToken, holder.lock.FencingToken)
	}

	if !resource.write(next.lock.FencingToken) {
		t.Error("the resource refuses the new holder")
	}
	for _, r := range s.replicas {
		if a := c.renew(r.url(), holder.lock.ID); a.status != http.StatusNotFound || a.problem.Code != "lease_not_found" {
			t.Errorf("the renewal of a lock that ran out is 404 lease_not_found, but answers %v", a)
		}
	}
	if resource.write(holder.lock.FencingToken) {
		t.Error("the resource takes the write of a holder whose lock went to another")
	}
	if a := c.release(s.any(), holder.lock.ID); a.status != http.StatusNotFound {
		t.Errorf("the release of a lock that ran out is 404, but answers %v", a)
	}
	if a := c.renew(s.any(), next.lock.ID); a.status != http.StatusOK || a.lock.FencingToken != next.lock.FencingToken {
		t.Errorf("late requests of an earlier holder leave the lock alone, but its renewal answers %v", a)
	}
	if err := c.releaseSurely(s, next.lock.ID); err != nil {
		t.Error(err)
	}
}
