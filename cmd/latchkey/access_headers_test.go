package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/latchkey/latchkey/api"
)

// said are headers that some proxies set and some services believe: that the request is another's, comes from elsewhere, or is
// another request.
var said = []string{
	"X-Forwarded-For", "203.0.113.7", "X-Real-Ip", "203.0.113.7", "True-Client-Ip", "203.0.113.7", "Cf-Connecting-Ip", "203.0.113.7",
	"Forwarded", "for=203.0.113.7;host=127.0.0.1;proto=https", "X-Forwarded-User", "admin", "X-Remote-User", "admin", "X-Forwarded-Email", "admin",
	"X-Client-Cert", "CN=admin", "X-Ssl-Client-S-Dn", "CN=admin", "X-Forwarded-Client-Cert", "By=x;Subject=\"CN=admin\"", "Remote-User", "admin",
	"X-Http-Method-Override", "DELETE", "X-Http-Method", "DELETE", "X-Method-Override", "DELETE",
	"X-Original-Url", "/metrics", "X-Rewrite-Url", "/metrics", "X-Forwarded-Prefix", "/metrics", "X-Forwarded-Host", "evil.example",
}

// TestHeadersOfProxiesAreNotBelieved: who sends a request and what it is, only its line, its credentials and its connection say.
// OWASP API2, API8.
func TestHeadersOfProxiesAreNotBelieved(t *testing.T) {
	t.Parallel()
	audit := filepath.Join(t.TempDir(), "audit.log")
	r := newRealm(t, "holder", lockEverything, "admin", adminEverything)
	r.certify("certified", "CN=admin", adminEverything)
	a, _ := r.replicas("--audit-log="+audit, "--rate-per-address=20")
	holder, admin, nobody := r.as("holder"), r.as("admin"), newCaller(t, "", nil)
	lock := holder.claim(a.url, api.LockRequest{Name: "x", TTLSeconds: 120})
	nobody.want(401, "unauthorized", http.MethodGet, a.url+"/locks", "", said...)
	holder.want(403, "forbidden", http.MethodDelete, a.url+"/locks/"+lock.ID+"?reason=why", "", said...)
	got := holder.want(200, "", http.MethodGet, a.url+"/locks/"+lock.ID, "", said...)
	if decoded[api.Lock](t, got.body).ID != lock.ID || strings.Contains(got.header.Get("Location"), "evil") {
		t.Errorf("a look answers %s %v", got.body, got.header)
	}
	holder.wantHeld(a.url, lock)

	refusedForItsAddress := false
	for i := range 200 { // each time from another address, as it says
		got := nobody.do(http.MethodGet, a.url+"/locks", "", "X-Forwarded-For", strings.Repeat("1", i%3+1)+".2.3.4")
		refusedForItsAddress = refusedForItsAddress || got.status == http.StatusTooManyRequests
	}
	if !refusedForItsAddress {
		t.Error("whoever says that they come from elsewhere may send as much as they want")
	}
	eventually(t, bound, "an administrator of that address may send again", func() bool {
		return admin.do(http.MethodDelete, a.url+"/locks/"+lock.ID+"?reason=why", "", said...).status == http.StatusNoContent
	})
	for _, line := range auditLines(t, audit) {
		if line["from"] != "127.0.0.1" || line["by"] != "admin" {
			t.Errorf("the audit log has %v", line)
		}
	}
}

// TestConditionsAndRangesChangeNothing: no request is done in part, or not, for a header that the contract does not have; nor is one
// with a name in its query another than its body says. OWASP API8.
func TestConditionsAndRangesChangeNothing(t *testing.T) {
	t.Parallel()
	r := newRealm(t, "holder", lockEverything)
	a, b := r.replicas()
	holder := r.as("holder")
	lock := holder.claim(a.url, api.LockRequest{Name: "x", TTLSeconds: 120})
	whole := holder.want(200, "", http.MethodGet, b.url+"/locks", "").body
	for _, header := range [][]string{
		{"Range", "bytes=0-1"}, {"If-Range", `"x"`, "Range", "bytes=0-1"}, {"If-None-Match", "*"}, {"If-Match", `"x"`},
		{"If-Modified-Since", "Mon, 02 Jan 2096 15:04:05 GMT"}, {"If-Unmodified-Since", "Mon, 02 Jan 2006 15:04:05 GMT"}, {"Accept", "text/html"},
	} {
		if got := holder.want(200, "", http.MethodGet, b.url+"/locks", "", header...); got.body != whole || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("with %v a list is %s, %s", header, got.header.Get("Content-Type"), got.body)
		}
		holder.want(200, "", http.MethodPut, b.url+"/leases/"+lock.ID, "", header...)
		other := holder.claim(a.url, api.LockRequest{Name: "y"}, header...)
		holder.want(204, "", http.MethodDelete, b.url+"/locks/"+other.ID, "", header...)
	}
	for _, query := range []string{"?name=z", "?name=y&name=z", "?ttl_seconds=5", "?lease_id=z", "?reason=why"} {
		holder.want(400, "invalid_request", http.MethodPost, a.url+"/locks"+query, `{"name":"y"}`)
	}
	if list := holder.want(200, "", http.MethodGet, a.url+"/locks", "").body; list != whole {
		t.Errorf("what was refused left behind %s", list)
	}
}
