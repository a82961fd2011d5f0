package main

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/latchkey/latchkey/api"
)

// claimRepeatedElsewhereIsOneClaim: sent again with its key, through other replicas and while the first still waits, it
// is one claim with one token.
func claimRepeatedElsewhereIsOneClaim(t *testing.T, s *service) {
	const name = "repeated"
	c := newClient(t)
	holder := c.claim(s.any(), "", api.LockRequest{Name: name})
	if !holder.held() {
		t.Fatalf("a free lock: %v", holder)
	}
	key := rand.Text()
	claim := api.LockRequest{Name: name, WaitSeconds: takerWait}
	answers := make([]answer, 2*len(s.replicas))
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = c.claim(s.replicas[i%len(s.replicas)].url(), key, claim) })
		if i == 0 {
			c.awaitClaims(t, s.any(), name, 2, slack, "a waiting claim is listed")
		}
	}
	queued := c.claim(s.any(), key, api.LockRequest{Name: name, Queue: true})
	if !queued.queued() || !queued.replayed || queued.lock.Position != 1 {
		t.Errorf("a repeat finds the claim where it stands (queued, at position 1, replayed), but answers %v, replayed %v", queued, queued.replayed)
	}
	if locks, err := c.list(s.any(), name); err != nil || len(locks) != 2 {
		t.Errorf("however often it is sent, it is one claim; beside the holder's there are %d (%v)", len(locks)-1, err)
	}
	if a := c.claim(s.any(), key, api.LockRequest{Name: name, Queue: true, Holder: "somebody else"}); a.status != http.StatusUnprocessableEntity || a.problem.Code != "idempotency_key_reused" {
		t.Errorf("a key that stands for another claim is 422 idempotency_key_reused, but answers %v", a)
	}
	if err := c.releaseSurely(s, holder.lock.ID); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	after := c.claim(s.any(), key, claim)
	for i, a := range append(answers, after) {
		if !a.held() || a.lock.ID != queued.lock.ID || a.lock.FencingToken != after.lock.FencingToken || a.lock.FencingToken <= holder.lock.FencingToken {
			t.Errorf("every repeat is told of the one claim that is held, with one token (%d); repeat %d is told %v", after.lock.FencingToken, i, a)
		}
	}
	if locks, err := c.list(s.any(), name); err != nil || len(locks) != 1 {
		t.Errorf("the one claim is left, but there are %d (%v)", len(locks), err)
	}
	if err := c.releaseSurely(s, after.lock.ID); err != nil {
		t.Error(err)
	}
}

// renewalsThroughAnotherReplicaMeetAClaim: what one replica has granted the others know at once.
func renewalsThroughAnotherReplicaMeetAClaim(t *testing.T, s *service) {
	rounds := shortOrLong(200, 2000)
	const workers = 8
	c := newClient(t)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range rounds / workers {
				a, b, d := s.replicas[(w+i)%replicas], s.replicas[(w+i+1)%replicas], s.replicas[(w+i+2)%replicas]
				held := c.claim(a.url(), "", api.LockRequest{Name: fmt.Sprintf("at once %d", w), TTLSeconds: 60})
				if !held.held() {
					t.Errorf("a free lock: %v", held)
					return
				}
				if got := c.renew(b.url(), held.lock.ID); got.status != http.StatusOK || got.lock.FencingToken != held.lock.FencingToken {
					t.Errorf("a lock just granted is renewed by any replica, but another answers %v", got)
				}
				if got := c.release(d.url(), held.lock.ID); got.status != http.StatusNoContent {
					t.Errorf("a lock just granted is released by any replica, but another answers %v", got)
					return
				}
			}
		})
	}
	all.Wait()
}
