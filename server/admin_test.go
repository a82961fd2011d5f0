package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store"
)

// TestListenerForAdministration has what the other has not, asks nobody, and has nothing else.
func TestListenerForAdministration(t *testing.T) {
	gate, tokens := gateOf(t, "all", "{prefix: '*', rights: [lock, read, admin]}")
	quiet := slog.New(slog.DiscardHandler)
	s, err := New(&fakeStore{t: t}, Config{Gate: gate, MetricsApart: true, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	public := serveHandler(t, s, quiet)
	plain, profiled := serveHandler(t, s.Admin(false), quiet), serveHandler(t, s.Admin(true), quiet)
	if got := do(t, public, "GET", "/metrics", "", bearer(tokens[0])...); got.status != 404 {
		t.Errorf("metrics at the public listener: got %d", got.status)
	}
	for path, want := range map[string][2]int{
		"/healthz": {200, 200}, "/readyz": {200, 200}, "/metrics": {200, 200}, "/openapi.yaml": {404, 404}, "/locks": {404, 404},
		"/": {404, 404}, "/debug/pprof/": {404, 200}, "/debug/pprof/heap": {404, 200}, "/debug/pprof/cmdline": {404, 404},
	} {
		if got := [2]int{send(t, plain, "GET", path, "").status, send(t, profiled, "GET", path, "").status}; got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
	if got := send(t, plain, "GET", "/metrics", ""); !strings.Contains(got.body, "latchkey_http_requests_total") {
		t.Errorf("the metrics: %.200s", got.body)
	}
	if got := send(t, plain, "POST", "/locks", `{"name":"a"}`); got.status != 404 {
		t.Errorf("a claim: got %d", got.status)
	}
	if got := decode[api.Health](t, send(t, plain, "GET", "/readyz", ""), 200); got.Authentication != api.Required {
		t.Errorf("readyz: %+v", got)
	}
	open := serve(t, &fakeStore{}, Config{})
	if got := decode[api.Health](t, do(t, open, "GET", "/readyz", ""), 200); got.Authentication != api.None {
		t.Errorf("readyz without authentication: %+v", got)
	}
}

// TestBreakingLeavesALineInTheAuditLog that says who, why, whose and which, and no id.
func TestBreakingLeavesALineInTheAuditLog(t *testing.T) {
	gate, tokens := gateOf(t, "admin", adminA, "locker", lockA)
	var log bytes.Buffer
	lock := store.Lock{ID: "the-id-of-the-lock", LeaseID: "the-id-of-the-lock", Name: "team-a/x", State: store.Held, Token: 7, TTL: time.Minute, Owner: "other", Holder: "worker-7"}
	var failed error
	fake := &fakeStore{breaks: func(context.Context, string, store.Breaking, func(string) bool) (store.Lock, error) {
		if errors.Is(failed, store.ErrNoLock) {
			return store.Lock{}, failed
		}
		return lock, failed
	}}
	ts := serve(t, fake, Config{Gate: gate, Audit: slog.New(slog.NewJSONHandler(&log, nil))})
	path := "/locks/the-id-of-the-lock?reason=host%20is%20gone"
	for _, c := range []struct {
		token  string
		failed error
		status int
		says   string
	}{
		{tokens[0], nil, 204, `"by":"admin"|"reason":"host is gone"|"outcome":"broken"|"name":"team-a/x"|"fencing_token":7|"principal":"other"|"holder":"worker-7"|"from":"127.0.0.1"`},
		{tokens[0], store.ErrUnknown, 503, `"outcome":"outcome_unknown"|"fencing_token":7`},
		{tokens[0], store.ErrNoLock, 404, ""},
		{tokens[0], store.ErrUnavailable, 503, ""},
		{tokens[1], nil, 403, ""}, // anybody could fill it so
	} {
		log.Reset()
		failed = c.failed
		if got := do(t, ts, "DELETE", path, "", bearer(c.token)...); got.status != c.status {
			t.Errorf("got %d %s, want %d", got.status, got.body, c.status)
		}
		text := log.String()
		if c.says == "" && text != "" || strings.Contains(text, "the-id") {
			t.Errorf("%d: the audit log has %s", c.status, text)
		}
		for _, part := range strings.Split(c.says, "|") {
			if !strings.Contains(text, part) {
				t.Errorf("%d: the audit log has not %s: %s", c.status, part, text)
			}
		}
	}
}

// TestAnAdministratorIsToldToGiveAReason: that there is nothing would be untrue, and whoever believed it would take the lock for
// free. To anybody else there is nothing.
func TestAnAdministratorIsToldToGiveAReason(t *testing.T) {
	gate, tokens := gateOf(t, "admin", adminA, "locker", lockA, "elsewhere", "{prefix: team-b, rights: [admin]}")
	another := true
	ts := serve(t, &fakeStore{
		release: func(context.Context, string) error { return store.ErrNoLock },
		another: func(context.Context, string) (bool, error) { return another, nil },
	}, Config{Gate: gate})
	for i, want := range []int{400, 404, 404} {
		got := do(t, ts, "DELETE", "/locks/"+idFor("team-a"), "", bearer(tokens[i])...)
		if got.status != want || want == 400 && got.problem(t).Errors[0].Parameter != "reason" {
			t.Errorf("principal %d: got %d %s", i, got.status, got.body)
		}
	}
	another = false
	if got := do(t, ts, "DELETE", "/locks/"+idFor("team-a"), "", bearer(tokens[0])...); got.status != 404 {
		t.Errorf("of what is gone: got %d", got.status)
	}
}
