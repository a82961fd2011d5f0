package server

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines is a log that a test reads while others write it.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// await returns so many lines, once they are there, and forgets them.
func (l *lines) await(t *testing.T, count int) []string {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		text := l.text.String()
		if got := strings.Count(text, "\n"); got >= count || time.Now().After(deadline) {
			l.text.Reset()
			l.mu.Unlock()
			if got != count {
				t.Fatalf("the log has %d lines, want %d:\n%s", got, count, text)
			}
			return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		}
		l.mu.Unlock()
	}
}

// TestListenerForAdministrationLeadsNowhereElse: a path that is not one of its own is a problem and no redirect, in which the id
// of a lock would be; and every request leaves a line, without it.
func TestListenerForAdministrationLeadsNowhereElse(t *testing.T) {
	log := &lines{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := New(&fakeStore{t: t}, Config{MetricsApart: true, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	ts := serveHandler(t, s.Admin(true), logger)
	ask := func(method, path string) (status int, header http.Header, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, ts.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := ts.Client().Transport.RoundTrip(req) // which follows nothing
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header, string(text)
	}
	const id = "the-id-of-a-lock"
	for _, path := range []string{
		"//locks/" + id, "/locks//" + id, "/locks/../locks/" + id, "/./locks/" + id, "/debug/pprof/../../locks/" + id, "/debug/pprof//locks/" + id,
		"/debug/pprof/" + id, "/debug/pprof/heap/" + id, "/debug/pprof?" + id, "/healthz/?" + id, "//healthz?" + id, "/metrics/../metrics?" + id,
		"/%6cocks/" + id, "/locks%2F" + id, "/healthz%2F.." + id,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodConnect, http.MethodOptions} {
			status, header, body := ask(method, path)
			if status != 404 || header.Get("Content-Type") != "application/problem+json" || header.Get("Location") != "" || strings.Contains(body, id) || !strings.Contains(body, `"code":"not_found"`) {
				t.Errorf("%s %s: got %d %v %s, want a problem", method, path, status, header, body)
			}
			if line := log.await(t, 1)[0]; strings.Contains(line, id) || !strings.Contains(line, "status=404") || !strings.Contains(line, "operation=unmatched") {
				t.Errorf("%s %s: the log has %s", method, path, line)
			}
		}
	}
	for path, operation := range map[string]string{
		"/healthz": "health", "/metrics": "metrics", "/debug/pprof/": "profile", "/debug/pprof/goroutine": "profile", "/debug/pprof/symbol": "profile",
		"/debug/pprof/trace?seconds=0.01": "profile", "/debug/pprof/profile?seconds=1": "profile", "/debug/pprof/heap?debug=1": "profile",
	} {
		if status, _, body := ask(http.MethodGet, path); status != 200 || body == "" {
			t.Errorf("%s: got %d", path, status)
		}
		if line := log.await(t, 1)[0]; !strings.Contains(strings.ToLower(line), "operation="+operation) || !strings.Contains(line, "status=200") {
			t.Errorf("%s: the log has %s", path, line)
		}
	}
}
