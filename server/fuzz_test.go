package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store"
)

// witness is a server whose store notes what it is asked. What never reaches the store was refused.
type witness struct {
	server  *Server
	fake    *fakeStore
	called  string
	id      string
	claim   store.Claim
	lease   store.Lease
	filter  store.Filter
	wait    time.Duration
	longest time.Duration
}

func newWitness(f *testing.F) *witness {
	w := &witness{longest: 55 * time.Second}
	lock := store.Lock{ID: "x", Name: "a", State: store.Held, Token: 7, LeaseID: "x", TTL: time.Minute}
	note := func(call, id string) { w.called, w.id = w.called+call, id }
	w.fake = &fakeStore{
		claim: func(_ context.Context, c store.Claim) (store.Lock, error) {
			note("claim", "")
			w.claim = c
			return lock, nil
		},
		look: func(_ context.Context, id string) (store.Lock, error) { note("look", id); return lock, nil },
		ask: func(_ context.Context, id string, wait time.Duration, _ time.Time) (store.Lock, error) {
			note("ask", id)
			w.wait = wait
			return lock, nil
		},
		follow: func(_ context.Context, id string, _ time.Time, tell func(store.Lock) error) error {
			note("follow", id)
			return tell(lock)
		},
		release: func(_ context.Context, id string) error { note("release", id); return nil },
		list: func(_ context.Context, filter store.Filter) (store.Page, error) {
			note("list", "")
			w.filter = filter
			return store.Page{}, nil
		},
		newLease: func(_ context.Context, l store.Lease, _ time.Time) (store.Lease, error) {
			note("newLease", "")
			w.lease = l
			return l, nil
		},
		renew: func(_ context.Context, id string, _ time.Time) (store.Lease, error) {
			note("renew", id)
			return store.Lease{}, nil
		},
		getLease: func(_ context.Context, id string) (store.Lease, error) {
			note("getLease", id)
			return store.Lease{}, nil
		},
		keep: func(_ context.Context, id string, tell func(store.Kept) error) error {
			note("keep", id)
			return tell(store.Kept{Lease: store.Lease{ID: id, TTL: time.Minute}, Sent: time.Now()})
		},
		endLease: func(_ context.Context, id string) error { note("endLease", id); return nil },
	}
	s, err := New(w.fake, Config{Logger: slog.New(slog.DiscardHandler), MaxWait: w.longest})
	if err != nil {
		f.Fatal(err)
	}
	w.server = s
	return w
}

// connection is a recorder that takes deadlines, as a connection does.
type connection struct{ *httptest.ResponseRecorder }

func (connection) SetReadDeadline(time.Time) error  { return nil }
func (connection) SetWriteDeadline(time.Time) error { return nil }

// ask gives the server a request as net/http reads it. ok is false if that refuses it by itself.
func (w *witness) ask(t *testing.T, method, target, body string, header ...string) (got answer, ok bool) {
	t.Helper()
	if strings.ContainsAny(target, " \r\n") {
		return answer{}, false // it would be more than a target
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")))
	if err != nil {
		return answer{}, false
	}
	if body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if strings.ContainsFunc(header[i+1], noHeader) {
			return answer{}, false
		}
		r.Header[header[i]] = []string{header[i+1]}
	}
	w.fake.t, w.called, w.id = t, "", ""
	recorder := connection{httptest.NewRecorder()}
	w.server.ServeHTTP(recorder, r)
	return answer{recorder.Code, recorder.Header(), recorder.Body.String()}, true
}

// noHeader is what net/http takes in no header.
func noHeader(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// wantRefused asks that a request was refused with this code, and did nothing.
func (w *witness) wantRefused(t *testing.T, got answer, status int, codes ...string) api.Problem {
	t.Helper()
	p := got.problem(t)
	if got.status != status || !slices.Contains(codes, p.Code) || w.called != "" {
		t.Fatalf("got %d, %s after %q, want %d, %v", got.status, p.Code, w.called, status, codes)
	}
	return p
}

// wantFaults asks that a refusal names places, not too many, and none twice. What is no UTF-8 looks alike.
func wantFaults(t *testing.T, p api.Problem) []string {
	t.Helper()
	named, seen := places(p), map[string]bool{}
	if len(named) == 0 || len(named) > maxFaults {
		t.Fatalf("%d places are named", len(named))
	}
	for i, place := range named {
		if seen[place] && !strings.ContainsRune(place, utf8.RuneError) || p.Errors[i].Detail == "" {
			t.Fatalf("%q is named twice, or nothing is said of it: %+v", place, p.Errors)
		}
		seen[place] = true
	}
	return named
}

// FuzzJSONPointer escapes names of fields so that a reader gets them back.
func FuzzJSONPointer(f *testing.F) {
	f.Add("a", "b")
	f.Add("a/b", "~01")
	f.Add("~", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		steps := strings.Split(jsonPointer([]string{a, b}), "/")
		if len(steps) != 3 || steps[0] != "" {
			t.Fatalf("%q and %q become %q", a, b, steps)
		}
		for i, want := range []string{a, b} {
			if got := unescapePointer(steps[i+1]); got != shown(want) {
				t.Errorf("%q is read as %q", want, got)
			}
		}
	})
}

func unescapePointer(step string) string {
	return strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
}

// strictly reads a body as encoding/json does, and with all that is known to it.
func strictly[T any](text string) (v T, err error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	err = dec.Decode(&v)
	return v, err
}
