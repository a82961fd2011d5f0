package main

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/latchkey/latchkey/api"
)

// TestReplayedRequestsDoNothingToALaterHolder: requests with the id of a grant that is over, as somebody recorded them, at either
// replica: whoever has the name now, even the same principal with the same key or lease, keeps it. OWASP API1, API2, API6.
func TestReplayedRequestsDoNothingToALaterHolder(t *testing.T) {
	t.Parallel()
	r := newRealm(t, "first", lockEverything, "second", lockEverything)
	a, b := r.replicas()
	first := r.as("first")
	lease := decoded[api.Lease](t, first.want(201, "", http.MethodPost, a.url+"/leases", `{"ttl_seconds":120}`).body).ID
	for name, tt := range map[string]struct {
		later string // who holds it then
		claim api.LockRequest
		key   []string
	}{
		"by another":                  {"second", api.LockRequest{TTLSeconds: 120}, nil},
		"by another with the key":     {"second", api.LockRequest{TTLSeconds: 120}, []string{"Idempotency-Key", "the one key of both"}},
		"by the same":                 {"first", api.LockRequest{TTLSeconds: 120}, nil},
		"by the same with the key":    {"first", api.LockRequest{TTLSeconds: 120}, []string{"Idempotency-Key", "one key of theirs"}},
		"by the same on their lease":  {"first", api.LockRequest{LeaseID: lease}, nil},
		"by the same, key and lease":  {"first", api.LockRequest{LeaseID: lease}, []string{"Idempotency-Key", "one key for a lease"}},
		"by another who waited in it": {"second", api.LockRequest{TTLSeconds: 120, Queue: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			claim := tt.claim
			claim.Name, claim.Queue = name, false
			old := first.claim(a.url, claim, tt.key...)
			later := r.as(tt.later)
			var place api.Lock
			if tt.claim.Queue {
				place = later.claim(b.url, api.LockRequest{Name: name, TTLSeconds: 120, Queue: true})
			}
			first.want(204, "", http.MethodDelete, a.url+"/locks/"+old.ID, "")
			now := place
			if tt.claim.Queue {
				now = decoded[api.Lock](t, later.want(200, "", http.MethodGet, b.url+"/locks/"+place.ID+"?wait_seconds=20", "").body)
			} else {
				now = later.claim(b.url, claim, tt.key...)
			}
			if now.State != "held" || now.FencingToken <= old.FencingToken || now.ID == old.ID {
				t.Fatalf("after %+v was granted %+v", old, now)
			}
			recorded := [][2]string{
				{http.MethodDelete, "/locks/" + old.ID}, {http.MethodPut, "/leases/" + old.ID}, {http.MethodDelete, "/leases/" + old.ID},
				{http.MethodGet, "/locks/" + old.ID + "?wait_seconds=0"}, {http.MethodGet, "/leases/" + old.ID + "/keepalive"},
			}
			for _, replica := range []*running{a, b} {
				for _, request := range recorded {
					for i := range 2 {
						for _, who := range []string{"first", "second"} {
							if got := r.as(who).do(request[0], replica.url+request[1], ""); got.status != http.StatusNotFound {
								t.Errorf("%s, replay %d by the %s: got %d %s, want 404", request[0], i, who, got.status, got.body)
							}
						}
					}
				}
				later.wantHeld(replica.url, now)
			}
			// nor does a claim that is sent again take what is another's
			if tt.later == "second" {
				first.want(409, "lock_held", http.MethodPost, a.url+"/locks", encoded(t, claim), tt.key...)
			}
			later.wantHeld(a.url, now)
			if locks := decoded[api.LockList](t, later.do(http.MethodGet, a.url+"/locks?name="+url.QueryEscape(name), "").body).Locks; len(locks) != 1 || locks[0].FencingToken != now.FencingToken {
				t.Errorf("on the name are %+v", locks)
			}
		})
	}
}
