package main

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// repeatGainsNoPlace: whoever asks again and again, whatever it says beside, is granted the lock after those ahead of it.
func repeatGainsNoPlace(t *testing.T, s *service) {
	const name = "hasty"
	c := newClient(t)
	holder := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: longestTTL})
	keys := []string{rand.Text(), rand.Text(), rand.Text()}
	ids := make([]string, len(keys))
	for i, key := range keys {
		a := c.claim(s.any(), key, api.LockRequest{Name: name, TTLSeconds: longestTTL, Queue: true})
		if !a.queued() || a.lock.Position != i+1 {
			t.Fatalf("claim %d behind a held lock: %v", i+1, a)
		}
		ids[i] = a.lock.ID
	}
	last := len(keys) - 1
	hasty := make(chan answer, 1)
	go func() {
		for {
			a := c.hint(s.any(), keys[last], api.LockRequest{Name: name, TTLSeconds: longestTTL, Queue: true})
			if !a.queued() && !a.elsewhere() || t.Context().Err() != nil {
				hasty <- a
				return
			}
			time.Sleep(lookAgain)
		}
	}()
	fresh := c.claim(s.any(), rand.Text(), api.LockRequest{Name: name, TTLSeconds: longestTTL, Queue: true})
	if !fresh.queued() || fresh.lock.Position != len(keys)+1 {
		t.Errorf("with a fresh key a client stands at the end (%d), but the answer is %v", len(keys)+1, fresh)
	}

	before := holder
	for _, id := range ids[:last] {
		if err := c.releaseSurely(s, before.lock.ID); err != nil {
			t.Fatal(err)
		}
		a := pollUntilHeld(c, s, id)
		if !a.held() || a.lock.FencingToken <= before.lock.FencingToken {
			t.Fatalf("after token %d the next in line is granted the lock, but is told %v", before.lock.FencingToken, a)
		}
		select {
		case a := <-hasty:
			t.Fatalf("a client that repeats itself was told %v before its turn", a)
		default:
		}
		before = a
	}
	if err := c.releaseSurely(s, before.lock.ID); err != nil {
		t.Fatal(err)
	}
	a := <-hasty
	if !a.held() || a.lock.ID != ids[last] || a.lock.FencingToken <= before.lock.FencingToken {
		t.Errorf("after token %d a client that repeats itself has its turn, but is told %v", before.lock.FencingToken, a)
	}
	for _, id := range []string{a.lock.ID, fresh.lock.ID} {
		if err := c.releaseSurely(s, id); err != nil {
			t.Error(err)
		}
	}
}

// fullQueueRefusesAtOnce: one more than may wait for a name is told so and when to come again; other names are as ever.
func fullQueueRefusesAtOnce(t *testing.T, s *service) {
	const name, most = "full", 20
	c := newClient(t)
	r := s.start(t, s.etcd.Endpoints(), fmt.Sprintf("--max-queue=%d", most))
	ids := []string{c.claim(r.url(), "", api.LockRequest{Name: name, TTLSeconds: longestTTL}).lock.ID}
	for range most {
		a := c.claim(r.url(), "", api.LockRequest{Name: name, TTLSeconds: longestTTL, Queue: true})
		if !a.queued() {
			t.Fatalf("a claim with queue on a held lock: %v", a)
		}
		ids = append(ids, a.lock.ID)
	}
	for what, claim := range map[string]api.LockRequest{
		"that queues": {Name: name, Queue: true}, "that waits": {Name: name, WaitSeconds: 40},
	} {
		a := c.claim(r.url(), "", claim)
		if took := a.got.Sub(a.sent); a.status != http.StatusTooManyRequests || a.problem.Code != "too_many_waiters" || a.retry == "" || took > slack {
			t.Errorf("a claim %s behind %d waiters is 429 too_many_waiters at once, but answers %v (Retry-After %q)", what, most, a, a.retry)
		}
	}
	if a := c.claim(r.url(), "", api.LockRequest{Name: name}); a.status != http.StatusConflict || a.problem.QueueLength == nil || *a.problem.QueueLength != most {
		t.Errorf("a try behind %d waiters is 409, but answers %v", most, a)
	}
	other := c.claim(r.url(), "", api.LockRequest{Name: "beside the full"})
	if !other.held() {
		t.Errorf("a full queue is no hindrance to another name, but a claim there answers %v", other)
	}
	for _, id := range append(ids, other.lock.ID) {
		if err := c.releaseSurely(s, id); err != nil {
			t.Error(err)
		}
	}
	r.stop()
}

// lateRequestsAreToldAlike: who asks for what it has released, or what ran out, is told the same, by every replica, and
// nothing of who holds the name now.
func lateRequestsAreToldAlike(t *testing.T, s *service) {
	const name, ttl = "told alike", 2
	c := newClient(t)
	var late []string
	for _, end := range []func(answer){
		func(a answer) {
			if err := c.releaseSurely(s, a.lock.ID); err != nil {
				t.Fatal(err)
			}
		},
		func(a answer) {
			eventually(t, seconds(ttl)+expiryLag+slack, "a lock that is not renewed runs out", func() bool {
				return c.look(s.any(), a.lock.ID).status == http.StatusNotFound
			})
		},
	} {
		a := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: ttl})
		if !a.held() {
			t.Fatalf("a free lock: %v", a)
		}
		end(a)
		late = append(late, a.lock.ID)
	}
	next := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: longestTTL, Holder: "somebody else", Metadata: api.Metadata{"of": "somebody else"}})
	if !next.held() {
		t.Fatalf("a free lock: %v", next)
	}
	said := map[string]string{}
	for _, r := range s.replicas {
		for _, id := range late {
			for _, ask := range []string{"PUT /leases/", "GET /leases/", "DELETE /leases/", "GET /locks/", "DELETE /locks/"} {
				method, path, _ := strings.Cut(ask, " ")
				body, err := c.text(method, r.url()+path+id)
				if err != nil {
					t.Fatal(err)
				}
				if had, asked := said[ask]; asked && had != body {
					t.Errorf("%s of what is gone is told alike, but once %s and once %s", ask, had, body)
				}
				said[ask] = body
			}
		}
	}
	for ask, body := range said {
		want := "lock_not_found"
		if strings.Contains(ask, "/leases/") {
			want = "lease_not_found"
		}
		if !strings.Contains(body, `"code":"`+want+`"`) || !strings.Contains(body, `"status":404`) || strings.Contains(body, "else") ||
			strings.Contains(body, fmt.Sprint(next.lock.FencingToken)) {
			t.Errorf("%s of what is gone is 404 %s and tells nothing of the holder, but answers %s", ask, want, body)
		}
	}
	if a := c.renew(s.any(), next.lock.ID); a.status != http.StatusOK {
		t.Errorf("late requests leave the next holder alone, but its renewal answers %v", a)
	}
	if err := c.releaseSurely(s, next.lock.ID); err != nil {
		t.Error(err)
	}
}
