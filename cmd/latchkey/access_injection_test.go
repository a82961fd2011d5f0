package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/latchkey/latchkey/api"
)

// breaking are texts that would end a line, a header, an event or a log line, if anything took them for more than texts.
var breaking = map[string]string{
	"CR and LF":         "x\r\nSet-Cookie: a=b\r\n\r\n",
	"LF":                "x\n\ndata: {\"state\":\"held\"}\n\n",
	"CR":                "x\r\rdata: y\r\revent: held\r",
	"an event":          "data: x\nevent: held\nid: 1\nretry: 1\n\n",
	"a comment":         ": x\n:\n",
	"line separators":   "x\u2028data: y\u2029event: lost\u0085z",
	"a vertical tab":    "x\v\fy\x1b[2J\x7f",
	"a log line":        "x\" level=ERROR msg=\"y\ntime=2030-01-01T00:00:00Z level=ERROR msg=forged",
	"JSON":              `","state":"held","fencing_token":9007199254740991,"x":"`,
	"HTML":              "</script><script>alert(1)</script><!--",
	"a byte order mark": "\ufeffx",
	"right to left":     "x\u202egnihtyna\u202c",
}

// TestTextsOfClientsStayTexts: whatever is in a holder, in metadata, a name or a reason comes back as it was sent, in one field of
// one document, one event of a stream, one line of a log, and never in a header. OWASP API8, API10.
func TestTextsOfClientsStayTexts(t *testing.T) {
	t.Parallel()
	r := newRealm(t, "owner", lockEverything, "other", lockEverything, "admin", adminEverything)
	a, b := r.replicas("--log-format=json", "--log-level=debug")
	owner, other, admin := r.as("owner"), r.as("other"), r.as("admin")
	plain := owner.do(http.MethodPost, a.url+"/locks", encoded(t, api.LockRequest{Name: "plain"}))
	telling := map[*events]string{} // what each of them will tell as the reason, at its next renewal
	for what, text := range breaking {
		kept, reason := textStaysText(t, "n/"+what, text, plain, owner, other, admin, a.url, b.url)
		telling[kept] = reason
	}
	for kept, reason := range telling {
		if lost := decoded[api.Problem](t, kept.await("lost").data); lost.Reason != reason {
			t.Errorf("a stream tells the reason as %q, want %q", lost.Reason, reason)
		}
	}
	for _, replica := range []*running{a, b} {
		for line := range strings.Lines(replica.log.String()) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil || fields["level"] == nil || fields["level"] == "ERROR" {
				t.Errorf("the log has the line %q (%v)", line, err)
			}
		}
	}
}

// textStaysText shows a text wherever one can, and breaks a lock for a reason that is as much of it as may be in one. It returns the
// stream of the lock's former holder, and that reason.
func textStaysText(t *testing.T, name, text string, plain heard, owner, other, admin *caller, a, b string) (kept *events, reason string) {
	t.Helper()
	shown := map[string]string{"a": text, text: "b"}
	wantShown := func(where, holder string, metadata map[string]string) {
		t.Helper()
		if holder != text || !maps.Equal(metadata, shown) {
			t.Errorf("%s shows %q and %q, want %q and %q", where, holder, metadata, text, shown)
		}
	}
	got := owner.do(http.MethodPost, a+"/locks", encoded(t, api.LockRequest{Name: name, Holder: text, Metadata: shown, TTLSeconds: 6}))
	held := decoded[api.Lock](t, got.body)
	wantShown("the answer", held.Holder, held.Metadata)
	if names := headerNames(got); !maps.Equal(names, headerNames(plain)) || strings.Count(got.body, "\n") != 1 {
		t.Errorf("the answer has the headers %v and the body %q", names, got.body)
	}
	problem := decoded[api.Problem](t, other.want(409, "lock_held", http.MethodPost, b+"/locks", encoded(t, api.LockRequest{Name: name})).body)
	wantShown("the problem", problem.Holder.Holder, problem.Holder.Metadata)
	place := other.claim(b, api.LockRequest{Name: name, Holder: text, Metadata: shown, Queue: true})
	for _, l := range decoded[api.LockList](t, other.want(200, "", http.MethodGet, a+"/locks?name="+url.QueryEscape(name), "").body).Locks {
		wantShown("the list", l.Holder, l.Metadata)
	}

	kept = owner.open(b + "/leases/" + held.ID + "/keepalive")
	wantKinds(t, kept, "renewed")
	followed := other.open(a+"/locks/"+place.ID+"/events", "Last-Event-ID", "7")
	queued := decoded[api.Lock](t, wantKinds(t, followed, "queued")[0].data)
	wantShown("the first event", queued.Holder, queued.Metadata)

	// a reason has no control characters, and everything else
	reason = strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
	path := a + "/locks/" + held.ID + "?reason="
	if reason != text {
		admin.want(400, "invalid_request", http.MethodDelete, path+url.QueryEscape(text), "")
	}
	admin.want(204, "", http.MethodDelete, path+url.QueryEscape(reason), "")
	granted := decoded[api.Lock](t, wantKinds(t, followed, "held")[0].data)
	wantShown("the event of the grant", granted.Holder, granted.Metadata)
	told := owner.want(410, "lock_broken", http.MethodPut, b+"/leases/"+held.ID, "")
	if got := decoded[api.Problem](t, told.body).Reason; got != reason {
		t.Errorf("the reason is told as %q, want %q", got, reason)
	}
	other.want(204, "", http.MethodDelete, a+"/locks/"+granted.ID, "")

	// in a name there is no such character either; what is left is one name
	status := 201
	if reason != text {
		status = 400
	}
	claimed := owner.do(http.MethodPost, a+"/locks", encoded(t, api.LockRequest{Name: text}))
	if claimed.status != status || status == 201 && decoded[api.Lock](t, claimed.body).Name != text || status == 400 && claimed.header.Get("Location") != "" {
		t.Errorf("as a name it answers %d %s", claimed.status, claimed.body)
	}
	lease := owner.want(201, "", http.MethodPost, b+"/leases", encoded(t, api.LeaseRequest{Holder: text, Metadata: shown}))
	onLease := decoded[api.LeaseStatus](t, owner.want(200, "", http.MethodGet, a+"/leases/"+decoded[api.Lease](t, lease.body).ID, "").body)
	wantShown("the lease", onLease.Holder, onLease.Metadata)
	return kept, reason
}

// wantKinds reads one event of each kind, and no others meanwhile.
func wantKinds(t *testing.T, s *events, kinds ...string) (all []event) {
	t.Helper()
	for _, kind := range kinds {
		e, err := s.next()
		if err != nil || e.kind != kind || !json.Valid([]byte(e.data)) {
			t.Fatalf("the stream has %+v (%v), want an event %s", e, err, kind)
		}
		all = append(all, e)
	}
	return all
}

func headerNames(h heard) map[string]int {
	names := map[string]int{}
	for name, values := range h.header {
		names[name] = len(values)
		for _, value := range values {
			if strings.ContainsAny(value, "\r\n\u2028") {
				names[fmt.Sprintf("%s: %q", name, value)]++
			}
		}
	}
	return names
}
