package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store"
)

// lockedBuffer is written by handlers and read by the test.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func debugLogger(out *lockedBuffer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}))
}

func TestARequestLeavesOneLine(t *testing.T) {
	var log lockedBuffer
	fake := &fakeStore{
		claim: func(_ context.Context, c store.Claim) (store.Lock, error) { return store.Lock{}, &store.HeldError{} },
		look:  func(context.Context, string) (store.Lock, error) { return store.Lock{Name: "b", TTL: time.Minute}, nil },
		release: func(context.Context, string) error {
			return fmt.Errorf("%w: no leader", store.ErrUnavailable)
		},
	}
	ts := serve(t, fake, Config{Logger: debugLogger(&log)})
	for _, c := range []struct {
		method, path, body string
		want               map[string]any
	}{
		{"POST", "/locks", `{"name":"a"}`, map[string]any{
			"level": "INFO", "operation": "createLock", "method": "POST", "route": "/locks", "status": 409.0, "code": "lock_held", "name": "a",
		}},
		{"GET", "/locks/x", "", map[string]any{
			"level": "INFO", "operation": "getLock", "method": "GET", "route": "/locks/{id}", "status": 200.0, "name": "b",
		}},
		{"DELETE", "/locks/x", "", map[string]any{
			"level": "WARN", "operation": "deleteLock", "status": 503.0, "code": "unavailable",
			"cause": "etcd cannot be used now: no leader",
		}},
		{"BREW", "/nowhere", "", map[string]any{
			"level": "INFO", "operation": "unmatched", "method": "other", "route": "unmatched", "status": 404.0, "code": "not_found",
		}},
		{"GET", "/healthz", "", map[string]any{"level": "DEBUG", "operation": "healthz", "status": 200.0}},
	} {
		before := len(log.String())
		do(t, ts, c.method, c.path, c.body)
		line := awaitLines(t, &log, before, 1)[0]
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(line, `"component":`); n != 1 || got["component"] != "server" {
			t.Errorf("the component is told %d times: %s", n, line)
		}
		for key, want := range c.want {
			if got[key] != want {
				t.Errorf("%s %s: %s is %v, want %v", c.method, c.path, key, got[key], want)
			}
		}
		if took, ok := got["took_ms"].(float64); !ok || took <= 0 {
			t.Errorf("took_ms is %v", got["took_ms"])
		}
	}
}

// awaitLines returns the lines after before, once there are n: a request's line can come after its answer.
func awaitLines(t *testing.T, log *lockedBuffer, before, n int) []string {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		lines := strings.Split(strings.TrimSpace(log.String()[before:]), "\n")
		if lines[0] != "" && len(lines) >= n {
			return lines
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %d lines, want %d", len(lines), n)
		}
		time.Sleep(time.Millisecond)
	}
}

// No id, lease or key is in a log line, a metric or a problem, however a request ends and at whatever level.
func TestSecretsAreNotTold(t *testing.T) {
	const (
		lockID  = "c2VjcmV0LWxvY2staWQtMTIzNDU2"
		leaseID = "c2VjcmV0LWxlYXNlLTk4NzY1NDMy"
		key     = "secret-idempotency-key-4711"
	)
	var (
		log lockedBuffer
		err error
	)
	lock := store.Lock{ID: lockID, LeaseID: leaseID, Name: "a", State: store.Held, Token: 7}
	held := &store.HeldError{Holder: &lock}
	fake := &fakeStore{
		claim: func(context.Context, store.Claim) (store.Lock, error) { return lock, err },
		look: func(_ context.Context, id string) (store.Lock, error) {
			if err == errPanic {
				panic("no such id: " + id)
			}
			return lock, err
		},
		ask:     func(context.Context, string, time.Duration, time.Time) (store.Lock, error) { return lock, err },
		release: func(context.Context, string) error { return err },
		newLease: func(context.Context, store.Lease, time.Time) (store.Lease, error) {
			return store.Lease{ID: leaseID}, err
		},
		renew:    func(context.Context, string, time.Time) (store.Lease, error) { return store.Lease{ID: leaseID}, err },
		getLease: func(context.Context, string) (store.Lease, error) { return store.Lease{ID: leaseID}, err },
		endLease: func(context.Context, string) error { return err },
		follow: func(_ context.Context, _ string, _ time.Time, tell func(store.Lock) error) error {
			if err != nil {
				return err
			}
			return tell(lock)
		},
		keep: func(_ context.Context, _ string, tell func(store.Kept) error) error { return err },
	}
	ts := serve(t, fake, Config{Logger: debugLogger(&log)})
	requests := [][3]string{
		{"POST", "/locks", `{"name":"a","lease_id":"` + leaseID + `"}`},
		{"POST", "/locks", `{"name":"a","lease_id":["` + leaseID + `"]}`},
		{"POST", "/locks", `{"name":"a","lease_id":"` + leaseID + `"`},
		{"GET", "/locks/" + lockID, ""}, {"GET", "/locks/" + lockID + "?wait_seconds=0", ""}, {"GET", "/locks/" + lockID + "?wait_seconds=x", ""},
		{"DELETE", "/locks/" + lockID, ""}, {"GET", "/locks/" + lockID + "/events", ""}, {"PUT", "/locks/" + lockID, ""},
		{"POST", "/leases", `{}`}, {"PUT", "/leases/" + leaseID, ""}, {"GET", "/leases/" + leaseID, ""},
		{"DELETE", "/leases/" + leaseID, ""}, {"GET", "/leases/" + leaseID + "/keepalive", ""}, {"POST", "/leases/" + leaseID, ""},
		{"GET", "/locks/" + lockID + "/nothing", ""}, {"GET", "//locks/" + lockID, ""}, {"GET", "/locks/%63" + lockID[1:], ""},
	}
	count := 0
	for _, e := range []error{nil, held, store.ErrNoLock, store.ErrNoLease, store.ErrUnknown, store.ErrKeyReused, errPanic} {
		err = e
		for _, r := range requests {
			// any error comes from any call here, also those that the contract does not have
			got := send(t, ts, r[0], r[1], r[2], "Idempotency-Key", key)
			count++
			if got.status >= 400 {
				for _, secret := range []string{lockID, leaseID, key} {
					if strings.Contains(got.body, secret) {
						t.Errorf("%s %s tells %s: %s", r[0], r[1], secret, got.body)
					}
				}
			}
		}
	}
	told := strings.Join(awaitLines(t, &log, 0, count), "\n") + do(t, ts, "GET", "/metrics", "").body
	for _, secret := range []string{lockID, leaseID, key} {
		for _, spelling := range []string{
			secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)), secret[1:], secret[:len(secret)-1],
		} {
			if i := strings.Index(told, spelling); i >= 0 {
				t.Errorf("%s is told: …%s…", spelling, told[max(0, i-200):i])
			}
		}
	}
	if !strings.Contains(told, `"msg":"panic"`) || !strings.Contains(told, "a string") {
		t.Error("the panic was not logged")
	}
}

func TestMethodsInTheLogAreKnownOnes(t *testing.T) {
	known := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}
	for _, method := range append(slices.Clone(known), "BREW", "get", "") {
		want := "other"
		if slices.Contains(known, method) {
			want = method
		}
		if got := knownMethod(method); got != want {
			t.Errorf("%q: got %q, want %q", method, got, want)
		}
	}
}

// Of requests too many there are very many when there are any: none of them is a warning, which is written at once.
func TestRequestsTooManyAreNoWarnings(t *testing.T) {
	for code, want := range map[string]slog.Level{
		"overloaded": slog.LevelInfo, "unavailable": slog.LevelWarn, "outcome_unknown": slog.LevelWarn, "draining": slog.LevelWarn,
	} {
		if got := levelOf(&exchange{operation: unmatched, status: 503, code: code}, false); got != want {
			t.Errorf("%s is logged as %v, want %v", code, got, want)
		}
	}
}
