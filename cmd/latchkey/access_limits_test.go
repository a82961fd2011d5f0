package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/latchkey/latchkey/api"
)

// TestOnePrincipalDoesNotDrownAnother: each of the bounds is one principal's own at a replica, is told as such with a time to come
// back, and leaves others all that they may have. OWASP API4, API6.
func TestOnePrincipalDoesNotDrownAnother(t *testing.T) {
	t.Parallel()
	const rate, claims, leases, waiters, streams, queue = 50, 10, 3, 3, 2, 4
	r := newRealm(t, "modest", lockEverything, "fast", lockEverything, "greedy", lockEverything, "leaser", lockEverything,
		"patient", lockEverything, "watcher", lockEverything, "admin", adminEverything)
	a, b := r.replicas(fmt.Sprint("--rate-per-principal=", rate), fmt.Sprint("--max-claims-per-principal=", claims), fmt.Sprint("--max-leases-per-principal=", leases),
		fmt.Sprint("--max-waiters-per-principal=", waiters), fmt.Sprint("--max-streams-per-principal=", streams), fmt.Sprint("--max-queue=", queue), "--max-ttl=60s")
	modest := r.as("modest")
	refused := func(t *testing.T, got heard, code string) {
		t.Helper()
		seconds, err := strconv.Atoi(got.header.Get("Retry-After"))
		if got.status != http.StatusTooManyRequests || decoded[api.Problem](t, got.body).Code != code || err != nil || seconds < 1 {
			t.Errorf("one too many answers %d %s with Retry-After %q, want 429 %s", got.status, got.body, got.header.Get("Retry-After"), code)
		}
	}
	claim := func(name string) string { return encoded(t, api.LockRequest{Name: name, TTLSeconds: 60}) }

	t.Run("requests", func(t *testing.T) {
		fast := r.as("fast")
		held := fast.claim(a.url, api.LockRequest{Name: "fast/held", TTLSeconds: 60})
		var served, late atomic.Int64
		var all sync.WaitGroup
		for i := range 10 * rate {
			all.Go(func() {
				got, err := fast.try(http.MethodPost, a.url+"/locks", claim(fmt.Sprint("fast/", i%2)))
				switch {
				case err != nil:
					t.Error(err)
				case got.status == http.StatusTooManyRequests && decoded[api.Problem](t, got.body).Code == "too_many_requests":
					refused(t, got, "too_many_requests")
					late.Add(1)
				default:
					served.Add(1)
				}
			})
		}
		for range rate / 5 { // meanwhile
			fast.want(200, "", http.MethodPut, a.url+"/leases/"+held.ID, "")
			modest.want(200, "", http.MethodGet, a.url+"/locks?name=other", "")
		}
		all.Wait()
		fast.want(204, "", http.MethodDelete, a.url+"/locks/"+held.ID, "")
		if late.Load() == 0 || served.Load() < rate {
			t.Errorf("of %d requests at once %d were served and %d refused, of %d a second", 10*rate, served.Load(), late.Load(), rate)
		}
	})
	t.Run("claims", func(t *testing.T) {
		greedy := r.as("greedy")
		var last api.Lock
		for i := range claims {
			last = greedy.claim(a.url, api.LockRequest{Name: fmt.Sprint("greedy/", i), TTLSeconds: 60})
		}
		refused(t, greedy.do(http.MethodPost, a.url+"/locks", claim("greedy/more")), "too_many_claims")
		refused(t, greedy.do(http.MethodPost, a.url+"/locks", encoded(t, api.LockRequest{Name: "greedy/1", Queue: true})), "too_many_claims")
		modest.want(201, "", http.MethodPost, a.url+"/locks", claim("modest"))
		greedy.want(200, "", http.MethodPut, a.url+"/leases/"+last.ID, "")
		greedy.want(204, "", http.MethodDelete, a.url+"/locks/"+last.ID, "")
		greedy.want(201, "", http.MethodPost, a.url+"/locks", claim("greedy/more"))
	})
	t.Run("leases", func(t *testing.T) {
		leaser := r.as("leaser")
		for range leases {
			leaser.want(201, "", http.MethodPost, a.url+"/leases", "{}")
		}
		refused(t, leaser.do(http.MethodPost, a.url+"/leases", "{}"), "too_many_leases")
		modest.want(201, "", http.MethodPost, a.url+"/leases", "{}")
	})
	t.Run("waits", func(t *testing.T) {
		patient := r.as("patient")
		held := modest.claim(a.url, api.LockRequest{Name: "waited", TTLSeconds: 60})
		var all sync.WaitGroup
		defer all.Wait()
		for range waiters {
			all.Go(func() {
				got, err := patient.try(http.MethodPost, a.url+"/locks", `{"name":"waited","wait_seconds":30}`)
				if err != nil || got.status != http.StatusCreated && got.status != http.StatusConflict {
					t.Errorf("a wait answers %d %s, %v", got.status, got.body, err)
				} else if got.status == http.StatusCreated {
					patient.do(http.MethodDelete, a.url+"/locks/"+decoded[api.Lock](t, got.body).ID, "")
				}
			})
		}
		eventually(t, bound, "all of them wait", func() bool {
			return strings.Count(modest.do(http.MethodGet, a.url+"/locks?name=waited&state=queued", "").body, `"queued"`) == waiters
		})
		refused(t, patient.do(http.MethodPost, a.url+"/locks", `{"name":"waited","wait_seconds":30}`), "too_many_waiters")
		modest.want(409, "lock_held", http.MethodPost, a.url+"/locks", `{"name":"waited","wait_seconds":1}`)
		place := modest.claim(b.url, api.LockRequest{Name: "waited", Queue: true})
		refused(t, r.as("watcher").do(http.MethodPost, b.url+"/locks", `{"name":"waited","queue":true}`), "too_many_waiters") // the name's queue is full
		modest.want(204, "", http.MethodDelete, b.url+"/locks/"+place.ID, "")
		modest.want(204, "", http.MethodDelete, a.url+"/locks/"+held.ID, "")
	})
	t.Run("streams", func(t *testing.T) {
		watcher := r.as("watcher")
		held := watcher.claim(a.url, api.LockRequest{Name: "watched", TTLSeconds: 60})
		var open []*events
		for range streams {
			s := watcher.open(a.url + "/leases/" + held.ID + "/keepalive")
			s.await("renewed")
			open = append(open, s)
		}
		refused(t, watcher.do(http.MethodGet, a.url+"/leases/"+held.ID+"/keepalive", ""), "too_many_streams")
		open[0].close()
		eventually(t, bound, "a stream that ended makes room", func() bool {
			ctx, got := t.Context(), 0
			req, err := watcher.request(ctx, http.MethodGet, a.url+"/leases/"+held.ID+"/keepalive", "")
			if err == nil {
				if resp, err := watcher.lines.RoundTrip(req); err == nil {
					got = resp.StatusCode
					resp.Body.Close()
				}
			}
			return got == http.StatusOK
		})
	})
	t.Run("time", func(t *testing.T) {
		for _, body := range []string{`{"name":"long","ttl_seconds":61}`, `{"name":"long","ttl_seconds":9223372036854775807}`, `{"name":"long","wait_seconds":3600}`} {
			modest.want(400, "invalid_request", http.MethodPost, b.url+"/locks", body)
		}
	})
	metrics := r.as("admin").do(http.MethodGet, a.url+"/metrics", "").body
	for _, code := range []string{"rate_of_principal", "too_many_claims", "too_many_leases", "too_many_waiters", "too_many_streams"} {
		if !strings.Contains(metrics, `latchkey_http_refused_total{reason="`+code+`"}`) {
			t.Errorf("no metric tells of %s", code)
		}
	}
	if strings.Contains(metrics, "greedy") || strings.Contains(metrics, "modest") {
		t.Error("a metric tells of a principal")
	}
}
