package main

import (
	"net/http"
	"slices"
	"testing"

	"github.com/latchkey/latchkey/api"
)

// TestEachPrincipalMayDoWhatItsGrantsSay: by token, JWT and certificate, through two replicas over TLS, whose answers differ in
// nothing. OWASP API1, API2, API5.
func TestEachPrincipalMayDoWhatItsGrantsSay(t *testing.T) {
	t.Parallel()
	for name, trust := range map[string]func(*realm, *issuer){
		"the issuer's keys are in a file": func(r *realm, i *issuer) { r.trustFile(i, "lock, read") },
		"the issuer's keys are fetched": func(r *realm, i *issuer) {
			url, _ := i.keysServer()
			r.trustURL(url, "lock, read")
		},
	} {
		t.Run(name, func(t *testing.T) {
			issuer, ours := newIssuer(t), newAuthority(t)
			r := newRealm(t, "token", on("team-a", "lock, read"), "reader", on("team-a", "read"), "admin", on("team-a", "admin"))
			r.certify("certificate", "DNS:client.example", on("team-a", "lock, read"))
			trust(r, issuer)
			a, b := r.replicas(ours.secured(t)...)
			by := func(bearer string) *caller { return newCaller(t, bearer, ours.client()) }
			nobody, reader, admin := by(""), by(r.tokens["reader"]), by(r.tokens["admin"])
			for kind, c := range map[string]*caller{
				"token": by(r.tokens["token"]), "jwt:carol": by(issuer.jwt("carol", "team-a")),
				"certificate": newCaller(t, "", ours.client(ours.certificate(t, "client.example"))),
			} {
				t.Run(kind, func(t *testing.T) { mayDoWhatItsGrantsSay(t, kind, c, []*caller{reader, admin, nobody}, a.url, b.url) })
			}
			stranger := newCaller(t, "", ours.client(ours.certificate(t, "stranger.example")))
			stranger.want(401, "unauthorized", http.MethodPost, a.url+"/locks", `{"name":"team-a/x"}`)
		})
	}
}

func mayDoWhatItsGrantsSay(t *testing.T, kind string, c *caller, others []*caller, a, b string) {
	for _, replica := range []string{a, b} {
		lock := c.claim(replica, api.LockRequest{Name: "team-a/x", Holder: "h"})
		if lock.State != "held" || lock.Principal != kind {
			t.Errorf("the lock of %s is %+v", kind, lock)
		}
		place := c.claim(replica, api.LockRequest{Name: "team-a/x", Queue: true})
		lease := c.do(http.MethodPost, replica+"/leases", "{}")
		for _, at := range []string{a, b} {
			c.wantHeld(at, lock)
			c.want(200, "", http.MethodPut, at+"/leases/"+lock.ID, "")
			c.want(200, "", http.MethodGet, at+"/leases/"+decoded[api.Lease](t, lease.body).ID, "")
			c.want(200, "", http.MethodGet, at+"/locks/"+place.ID+"?wait_seconds=0", "")
			c.want(403, "forbidden", http.MethodPost, at+"/locks", `{"name":"team-b"}`)
			c.want(403, "forbidden", http.MethodGet, at+"/locks?name=team-b", "")
			c.want(403, "forbidden", http.MethodDelete, at+"/locks/"+lock.ID+"?reason=why", "")
			c.want(403, "forbidden", http.MethodGet, at+"/metrics", "")
			for i, want := range []struct{ claim, list, metrics int }{{403, 200, 403}, {403, 200, 403}, {401, 401, 401}} {
				others[i].want(want.claim, "", http.MethodPost, at+"/locks", `{"name":"team-a/x"}`)
				others[i].want(want.claim, "", http.MethodPost, at+"/leases", `{}`)
				others[i].want(want.list, "", http.MethodGet, at+"/locks?name=team-a%2Fx", "")
				others[i].want(want.metrics, "", http.MethodGet, at+"/metrics", "")
				others[i].want(200, "", http.MethodGet, at+"/healthz", "")
			}
			wantListed(t, others[0], at, "", lock, place)
			wantListed(t, others[1], at, "all", lock, place)
			wantListed(t, c, at, "all", lock, place)
		}
		c.want(204, "", http.MethodDelete, b+"/locks/"+place.ID, "")
		c.want(204, "", http.MethodDelete, b+"/locks/"+lock.ID, "")
		c.want(204, "", http.MethodDelete, a+"/leases/"+decoded[api.Lease](t, lease.body).ID, "")
	}
}

// wantListed reads a list of two claims, with their ids or with none.
func wantListed(t *testing.T, c *caller, replica, ids string, lock, place api.Lock) {
	t.Helper()
	list := decoded[api.LockList](t, c.want(200, "", http.MethodGet, replica+"/locks?name=team-a%2Fx", "").body)
	var got []string
	for _, l := range list.Locks {
		got = append(got, l.ID, l.LeaseID)
		if l.Principal != lock.Principal || l.Name != "team-a/x" {
			t.Errorf("listed is %+v", l)
		}
	}
	want := []string{"", "", "", ""}
	if ids != "" {
		want = []string{lock.ID, lock.LeaseID, place.ID, place.LeaseID}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed are the ids %q, want %q", got, want)
	}
}

// TestNamesThatOnlyLookLikeOnesOwnAreNot: a grant is byte for byte. OWASP API1, API5.
func TestNamesThatOnlyLookLikeOnesOwnAreNot(t *testing.T) {
	t.Parallel()
	r := newRealm(t, "a", on("team-a", "lock, read"), "b", on("team-b", "lock, read"), "all", lockEverything)
	one, two := r.replicas()
	a, b, all := r.as("a"), r.as("b"), r.as("all")
	for name, status := range map[string]int{
		"team-a": 201, "team-a/x": 201, "team-a/../team-b": 201, "team-a//": 201, "team-a/TEAM-B": 201,
		"": 400, "team-a\x00/x": 400, "team-a\n/x": 400,
		"team-ab": 403, "team-ab/x": 403, "team-": 403, "team": 403, "team-b": 403, "team-b/../team-a": 403, "team-a.": 403,
		"TEAM-A/x": 403, "Team-a": 403, "team-A": 403, " team-a/x": 403, "team-a /x": 403, "/team-a": 403, "./team-a": 403, "//team-a/x": 403,
		"t\u0435am-a/x": 403, "team-\u0430/x": 403, "team\u2010a/x": 403, "\uff54eam-a/x": 403, "team-a\u2215x": 403, "team-a\uff0fx": 403,
		"team-a\u200b/x": 403, "\ufeffteam-a/x": 403, "team-a\u0301/x": 403, "team-a%2Fx": 403, "team-a*": 403, "*": 403, "team-a\\x": 403,
	} {
		for _, replica := range []string{one.url, two.url} {
			got := a.do(http.MethodPost, replica+"/locks", encoded(t, api.LockRequest{Name: name}))
			if got.status != status {
				t.Errorf("%q answers %d %s, want %d", name, got.status, got.body, status)
			}
			if got.status == 201 {
				a.want(204, "", http.MethodDelete, replica+"/locks/"+decoded[api.Lock](t, got.body).ID, "")
			}
		}
	}

	// what is below team-a is not team-b, however it is written
	trick := a.claim(one.url, api.LockRequest{Name: "team-a/../team-b"})
	if other := b.claim(two.url, api.LockRequest{Name: "team-b"}); other.State != "held" {
		t.Errorf("team-b is %+v", other)
	}
	a.wantHeld(two.url, trick)
	all.claim(one.url, api.LockRequest{Name: "team-ab/x"})
	for query, want := range map[string]int{"": 1, "?prefix=team-a": 1, "?prefix=team": 1, "?prefix=team-a%2F..%2Fteam-b": 1} {
		list := decoded[api.LockList](t, a.want(200, "", http.MethodGet, two.url+"/locks"+query, "").body)
		if len(list.Locks) != want || list.Locks[0].Name != trick.Name {
			t.Errorf("a list of %q shows %+v", query, list.Locks)
		}
	}
	for _, query := range []string{"?prefix=team-ab", "?name=team-ab%2Fx", "?name=team-b", "?prefix=TEAM-A", "?name=team-b%2F..%2Fteam-a"} {
		a.want(403, "forbidden", http.MethodGet, one.url+"/locks"+query, "")
	}
}
