package main

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"testing"

	"github.com/latchkey/latchkey/api"
)

// owned is one of everything that a principal can have.
type owned struct {
	lock, place, onLease api.Lock
	lease                string
}

func (c *caller) takeAll(replica, name string) (o owned) {
	c.t.Helper()
	o.lock = c.claim(replica, api.LockRequest{Name: name, TTLSeconds: 120})
	o.place = c.claim(replica, api.LockRequest{Name: name, TTLSeconds: 120, Queue: true}, "Idempotency-Key", "a key of a place of "+name)
	o.lease = decoded[api.Lease](c.t, c.want(201, "", http.MethodPost, replica+"/leases", `{"ttl_seconds":120}`).body).ID
	o.onLease = c.claim(replica, api.LockRequest{Name: name + "/on", LeaseID: o.lease})
	return o
}

// ids are by kind.
func (o owned) ids() map[string]string {
	return map[string]string{"lock": o.lock.ID, "place": o.place.ID, "lock on a lease": o.onLease.ID, "lease": o.lease}
}

// neverWas is an id like the one given that was made for nobody.
func neverWas(t *testing.T, id string) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	raw[0] ^= 1 // of the random part
	return base64.RawURLEncoding.EncodeToString(raw)
}

// tryAll is everything that can be asked with an id.
func tryAll(id string) map[string][3]string {
	return map[string][3]string{
		"look":             {http.MethodGet, "/locks/" + id},
		"ask":              {http.MethodGet, "/locks/" + id + "?wait_seconds=0"},
		"wait":             {http.MethodGet, "/locks/" + id + "?wait_seconds=1"},
		"follow":           {http.MethodGet, "/locks/" + id + "/events"},
		"release":          {http.MethodDelete, "/locks/" + id},
		"break":            {http.MethodDelete, "/locks/" + id + "?reason=why"},
		"look at a lease":  {http.MethodGet, "/leases/" + id},
		"renew":            {http.MethodPut, "/leases/" + id},
		"keep alive":       {http.MethodGet, "/leases/" + id + "/keepalive"},
		"end":              {http.MethodDelete, "/leases/" + id},
		"claim on a lease": {http.MethodPost, "/locks", `{"name":"theirs/x","lease_id":"` + id + `"}`},
	}
}

// TestAnothersIDsAreAsIfTheyHadNeverBeen: whatever is asked with them, at either replica, is answered byte for byte as for an id
// that nobody was ever given, and does nothing. OWASP API1, API3.
func TestAnothersIDsAreAsIfTheyHadNeverBeen(t *testing.T) {
	t.Parallel()
	issuer := newIssuer(t)
	r := newRealm(t, "owner", lockEverything, "stranger", lockEverything, "reader", readEverything,
		"admin elsewhere", on("elsewhere", "lock, read, admin")+", "+on("theirs", "lock"))
	r.trustFile(issuer, "lock, read")
	a, b := r.replicas()
	owner := r.as("owner")
	others := map[string]*caller{
		"stranger": r.as("stranger"), "reader": r.as("reader"), "admin elsewhere": r.as("admin elsewhere"),
		// the name of a principal of a JWT never is that of one of the file
		"a JWT of the owner's name": newCaller(t, issuer.jwt("owner", "theirs"), nil),
	}
	o := owner.takeAll(a.url, "theirs/lock")
	for who, c := range others {
		for kind, id := range o.ids() {
			never := tryAll(neverWas(t, id))
			for what, try := range tryAll(id) {
				for _, replica := range []*running{a, b} {
					got, want := c.do(try[0], replica.url+try[1], try[2]), c.do(never[what][0], replica.url+never[what][1], never[what][2])
					if got.status < 400 || got.status != want.status || got.body != want.body || !maps.Equal(withoutDate(got), withoutDate(want)) {
						t.Errorf("%s tries to %s the %s: got %d %s %v, but for an id that never was %d %s %v",
							who, what, kind, got.status, got.body, got.header, want.status, want.body, want.header)
					}
					if c.bearer == r.tokens["stranger"] && what != "break" && got.status != 404 {
						t.Errorf("%s tries to %s the %s: got %d, want 404", who, what, kind, got.status)
					}
				}
			}
		}
	}
	for _, replica := range []*running{a, b} {
		owner.wantHeld(replica.url, o.lock)
		owner.wantHeld(replica.url, o.onLease)
		lease := decoded[api.LeaseStatus](t, owner.want(200, "", http.MethodGet, replica.url+"/leases/"+o.lease, "").body)
		if len(lease.Locks) != 1 || lease.Locks[0].ID != o.onLease.ID {
			t.Errorf("on the lease are %+v, want the one lock alone", lease.Locks)
		}
		if got := decoded[api.Lock](t, owner.want(200, "", http.MethodGet, replica.url+"/locks/"+o.place.ID, "").body); got.State != "queued" || got.Position != 1 {
			t.Errorf("the place is %+v", got)
		}
	}
}

// withoutDate are the headers that do not tell the time, as text.
func withoutDate(h heard) map[string]string {
	all := map[string]string{}
	for name, values := range h.header {
		if name != "Date" {
			all[name] = fmt.Sprint(values)
		}
	}
	return all
}

// TestAnothersKeyIsNoWayToTheirClaim: the same key, name and words make no replay for another. OWASP API1, API2.
func TestAnothersKeyIsNoWayToTheirClaim(t *testing.T) {
	t.Parallel()
	r := newRealm(t, "owner", lockEverything, "stranger", lockEverything, "locker", on("x", "lock"))
	a, b := r.replicas()
	owner := r.as("owner")
	key := []string{"Idempotency-Key", "a key that both have"}
	claim := api.LockRequest{Name: "x", TTLSeconds: 120, Holder: "h"}
	lock := owner.claim(a.url, claim, key...)
	for _, replica := range []*running{a, b} {
		for _, other := range []string{"stranger", "locker"} {
			got := r.as(other).want(409, "lock_held", http.MethodPost, replica.url+"/locks", encoded(t, claim), key...)
			if told := decoded[api.Problem](t, got.body); got.header.Get("Idempotent-Replayed") != "" || (told.Holder != nil) != (other == "stranger") {
				t.Errorf("%s is told %s, and that it is a replay: %q", other, got.body, got.header.Get("Idempotent-Replayed"))
			}
		}
		if again := owner.do(http.MethodPost, replica.url+"/locks", encoded(t, claim), key...); again.header.Get("Idempotent-Replayed") != "true" || decoded[api.Lock](t, again.body).ID != lock.ID {
			t.Errorf("the owner's repeat answers %d %s", again.status, again.body)
		}
		// another claim with the key is the stranger's own, and not one that "was asked for with other words"
		place := r.as("stranger").claim(replica.url, api.LockRequest{Name: "x", TTLSeconds: 60, Queue: true}, key...)
		if place.ID == lock.ID || place.Principal != "stranger" || place.State != "queued" {
			t.Errorf("the stranger's claim is %+v", place)
		}
		r.as("stranger").want(204, "", http.MethodDelete, replica.url+"/locks/"+place.ID, "")
	}
	owner.wantHeld(b.url, lock)
}
