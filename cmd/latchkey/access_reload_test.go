package main

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/server/access"
)

// noticed is how long a change of a file may take to be seen, on a busy machine.
const noticed = 2 * slack

// TestChangesOfWhoMayDoWhatDropNothing: the auth file and the certificates change under two replicas, for the better and for the
// worse, while clients wait, follow and hold. OWASP API2, API8.
func TestChangesOfWhoMayDoWhatDropNothing(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	secured := ours.secured(t)
	r := newRealm(t, "holder", lockEverything, "waiter", lockEverything, "leaver", lockEverything, "admin", adminEverything)
	a, b := r.replicas(append(secured, "--log-level=debug")...)
	by := func(who string) *caller { return newCaller(t, r.tokens[who], ours.client()) }
	holder, waiter, leaver, admin := by("holder"), by("waiter"), by("leaver"), by("admin")

	polled := holder.claim(a.url, api.LockRequest{Name: "polled", TTLSeconds: 120})
	streamed := holder.claim(b.url, api.LockRequest{Name: "streamed", TTLSeconds: 6})
	kept := holder.open(a.url + "/leases/" + streamed.ID + "/keepalive")
	kept.await("renewed")
	poll := make(chan heard, 1)
	place := waiter.claim(a.url, api.LockRequest{Name: "polled", Queue: true, TTLSeconds: 60})
	waiting := newCaller(t, r.tokens["waiter"], ours.client())
	go func() {
		got, err := waiting.try(http.MethodGet, a.url+"/locks/"+place.ID+"?wait_seconds=55", "")
		if err != nil {
			got.body = err.Error()
		}
		poll <- got
	}()
	next := waiter.claim(b.url, api.LockRequest{Name: "streamed", Queue: true, TTLSeconds: 60})
	followed := waiter.open(b.url + "/locks/" + next.ID + "/events")
	followed.await("queued")

	t.Run("a principal is removed and another comes", func(t *testing.T) {
		const ttl = 5
		left := leaver.claim(b.url, api.LockRequest{Name: "left", TTLSeconds: ttl})
		heir := waiter.claim(a.url, api.LockRequest{Name: "left", Queue: true})
		inherits := waiter.open(a.url + "/locks/" + heir.ID + "/events")
		inherits.await("queued")
		delete(r.entries, "leaver")
		r.admit("newcomer", on("new", "lock"))
		r.write()
		renewed := time.Now()
		for _, replica := range []*running{a, b} {
			eventually(t, noticed, "a principal that was removed gets 401", func() bool {
				asked := time.Now()
				got := leaver.do(http.MethodPut, replica.url+"/leases/"+left.ID, "")
				if got.status == http.StatusOK {
					renewed = asked
				}
				return got.status == http.StatusUnauthorized
			})
			by("newcomer").want(201, "", http.MethodPost, replica.url+"/leases", "{}")
		}
		for _, try := range tryAll(left.ID) {
			leaver.want(401, "unauthorized", try[0], a.url+try[1], try[2])
		}
		held := decoded[api.Lock](t, inherits.await("held").data)
		if took := time.Since(renewed); held.FencingToken <= left.FencingToken || took < seconds(ttl) {
			t.Errorf("what was left goes to the next as %+v, %v after its last renewal", held, took)
		}
	})

	t.Run("a faulty file changes nothing", func(t *testing.T) {
		secret, _ := access.NewToken()
		replace(t, r.file, "principals:\n- {name: x, tokens: ["+secret+"], grants: []}\n- {nam: y}\n")
		for _, replica := range []*running{a, b} {
			replica.log.await(t, `level=ERROR msg="the auth file is faulty; what it said before stays in force"`)
			eventually(t, noticed, "a faulty auth file shows in a metric", func() bool {
				metrics := admin.do(http.MethodGet, replica.url+"/metrics", "").body
				return strings.Contains(metrics, "\nlatchkey_auth_stale 1\n") && strings.Contains(metrics, `latchkey_auth_reloads_total{outcome="refused"} 1`)
			})
			if strings.Contains(replica.log.String(), secret) {
				t.Error("the log has a token that was in the faulty file")
			}
			by("newcomer").want(201, "", http.MethodPost, replica.url+"/leases", "{}")
			leaver.want(401, "unauthorized", http.MethodGet, replica.url+"/locks", "")
		}
		if err := os.Remove(r.file); err != nil {
			t.Fatal(err)
		}
		for _, replica := range []*running{a, b} {
			eventually(t, noticed, "an auth file that is gone is a faulty one", func() bool {
				return strings.Contains(admin.do(http.MethodGet, replica.url+"/metrics", "").body, `latchkey_auth_reloads_total{outcome="refused"} 2`)
			})
		}
		r.write()
		for _, replica := range []*running{a, b} {
			eventually(t, noticed, "a good file ends that", func() bool {
				return strings.Contains(admin.do(http.MethodGet, replica.url+"/metrics", "").body, "\nlatchkey_auth_stale 0\n")
			})
		}
	})

	t.Run("certificates are replaced", func(t *testing.T) {
		cert, key := ours.issue(t)
		before := shownBy(t, a.url, ours)
		copyFile(t, cert, strings.TrimPrefix(secured[0], "--tls-cert="))
		copyFile(t, key, strings.TrimPrefix(secured[1], "--tls-key="))
		for _, replica := range []*running{a, b} {
			eventually(t, noticed, "who connects is shown the new certificate", func() bool { return shownBy(t, replica.url, ours) != before })
		}
	})

	// and all the while nothing was dropped
	holder.wantHeld(b.url, polled)
	holder.wantHeld(a.url, streamed)
	kept.await("renewed")
	holder.want(204, "", http.MethodDelete, b.url+"/locks/"+polled.ID, "")
	select {
	case got := <-poll:
		if got.status != http.StatusOK || decoded[api.Lock](t, got.body).State != "held" {
			t.Errorf("who waited is answered %d %s", got.status, got.body)
		}
	case <-time.After(bound):
		t.Errorf("who waited has no answer for %v", bound)
	}
	holder.want(204, "", http.MethodDelete, a.url+"/locks/"+streamed.ID, "")
	if held := decoded[api.Lock](t, followed.await("held").data); held.FencingToken <= streamed.FencingToken {
		t.Errorf("who followed is granted %+v", held)
	}
	if again := regexp.MustCompile(`level=ERROR`).FindAllString(a.log.String()+b.log.String(), -1); len(again) != 4 {
		t.Errorf("%d faults are in the logs, want the two of the auth file at each replica:\n%s", len(again), a.log)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, to, string(text))
}

// shownBy is the certificate that a replica shows to who connects now.
func shownBy(t *testing.T, replica string, by *authority) string {
	t.Helper()
	c := newCaller(t, "", by.client())
	defer c.lines.CloseIdleConnections()
	ctx := t.Context()
	req, err := c.request(ctx, http.MethodGet, replica+"/healthz", "")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.lines.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return string(resp.TLS.PeerCertificates[0].Raw)
}
