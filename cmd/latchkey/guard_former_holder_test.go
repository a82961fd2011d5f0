package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/latchkey/latchkey/api"
)

// Whatever a client said while it held, said again later, by itself or by whoever recorded it, does nothing to those who
// hold after it: not when it has released, and not when its time ran out.
func TestRequestsOfAFormerHolderChangeNothing(t *testing.T) {
	t.Parallel()
	const again, ttl = 5, 3
	a, b := twoReplicas(t)
	c := newClient(t)
	for name, end := range map[string]func(t *testing.T, lock api.Lock){
		"released": func(t *testing.T, lock api.Lock) {
			if got := sayRaw(t, b.url, rawRequest(http.MethodDelete, "/locks/"+lock.ID)); got != http.StatusNoContent {
				t.Fatalf("a release answers %d", got)
			}
		},
		"ended by its lease": func(t *testing.T, lock api.Lock) {
			if got := sayRaw(t, a.url, rawRequest(http.MethodDelete, "/leases/"+lock.ID)); got != http.StatusNoContent {
				t.Fatalf("the end of its lease answers %d", got)
			}
		},
		"run out": func(*testing.T, api.Lock) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := c.claim(a.url, "", api.LockRequest{Name: name, TTLSeconds: ttl})
			if !first.held() {
				t.Fatalf("a free lock: %v", first)
			}
			id := first.lock.ID
			recorded := []string{
				rawRequest(http.MethodPut, "/leases/"+id), rawRequest(http.MethodDelete, "/locks/"+id), rawRequest(http.MethodDelete, "/leases/"+id),
			}
			for _, r := range []*running{a, b} { // so that both have it in mind
				if got := sayRaw(t, r.url, recorded[0]); got != http.StatusOK {
					t.Fatalf("a renewal in time answers %d", got)
				}
			}
			end(t, first.lock)
			last := first.lock.FencingToken
			for _, r := range []*running{b, a} {
				next := c.claim(r.url, "", api.LockRequest{Name: name, WaitSeconds: 20})
				if !next.held() || next.lock.FencingToken <= last {
					t.Fatalf("the next holder, after token %d: %v", last, next)
				}
				for range again {
					for _, at := range []*running{a, b} {
						for _, said := range recorded {
							if got := sayRaw(t, at.url, said); got != http.StatusNotFound {
								t.Errorf("%q of the former holder answers %d, want 404", strings.Fields(said)[0], got)
							}
						}
					}
				}
				if got := c.renew(a.url, next.lock.ID); got.status != http.StatusOK || got.lock.FencingToken != next.lock.FencingToken {
					t.Errorf("the holder's own renewal: %v", got)
				}
				if got := c.claim(b.url, "", api.LockRequest{Name: name}); got.status != http.StatusConflict || got.problem.Holder == nil || got.problem.Holder.FencingToken != next.lock.FencingToken {
					t.Errorf("a third client: %v", got)
				}
				if got := c.release(b.url, next.lock.ID); got.status != http.StatusNoContent {
					t.Errorf("the holder's own release: %v", got)
				}
				last = next.lock.FencingToken
			}
		})
	}
}
