package latchkey_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// lines is a transport that remembers what was sent, and when.
type lines struct {
	http.Transport
	before, after func(*http.Request) // called before each request, and before its answer is handed over, if they are there

	mu   sync.Mutex
	sent []sentRequest
}

type sentRequest struct {
	method, path string
	host, key    string
	at           time.Time
	status       int // 0 while there is no answer
}

func newLines(t *testing.T) *lines {
	l := &lines{}
	t.Cleanup(l.CloseIdleConnections)
	return l
}

func (l *lines) RoundTrip(req *http.Request) (*http.Response, error) {
	if l.before != nil {
		l.before(req)
	}
	l.mu.Lock()
	at := len(l.sent)
	l.sent = append(l.sent, sentRequest{req.Method, req.URL.Path, req.URL.Host, req.Header.Get("Idempotency-Key"), time.Now(), 0})
	l.mu.Unlock()
	resp, err := l.Transport.RoundTrip(req)
	if err == nil {
		l.mu.Lock()
		l.sent[at].status = resp.StatusCode
		l.mu.Unlock()
	}
	if l.after != nil {
		l.after(req)
	}
	return resp, err
}

// all are the requests with the method, so far.
func (l *lines) all(method string) []sentRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	var some []sentRequest
	for _, s := range l.sent {
		if s.method == method {
			some = append(some, s)
		}
	}
	return some
}

// within is a context with the bound of what must happen soon.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	t.Cleanup(cancel)
	return ctx
}

func mustLock(t testing.TB, c *latchkey.Client, name string, opts latchkey.LockOptions) *latchkey.Lock {
	t.Helper()
	lock, err := c.Lock(within(t), name, opts)
	if err != nil {
		t.Fatalf("lock %s: %v", name, err)
	}
	t.Cleanup(func() { lock.Release() })
	return lock
}

// claims are those on a name.
func claims(t testing.TB, c *latchkey.Client, name string) []latchkey.Claim {
	t.Helper()
	page, err := c.List(within(t), latchkey.Filter{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return page.Locks
}

// eventually waits until ok says so.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not %s within %v", what, bound)
		}
	}
}

// awaitClaims waits until ok says so of the claims on a name.
func awaitClaims(t testing.TB, c *latchkey.Client, name string, ok func([]latchkey.Claim) bool) []latchkey.Claim {
	t.Helper()
	var all []latchkey.Claim
	eventually(t, "as wanted: the claims on "+name, func() bool {
		all = claims(t, c, name)
		return ok(all)
	})
	return all
}

func number(n int) func([]latchkey.Claim) bool {
	return func(all []latchkey.Claim) bool { return len(all) == n }
}

// waitingLock is a call of Lock that goes on beside the test.
type waitingLock struct {
	t        testing.TB
	first    latchkey.Progress
	progress chan latchkey.Progress
	done     chan struct{}
	lock     *latchkey.Lock
	err      error
}

// lockBeside calls Lock beside the test, and returns when it waits in line.
func lockBeside(ctx context.Context, t testing.TB, c *latchkey.Client, name string, opts latchkey.LockOptions) *waitingLock {
	t.Helper()
	w := &waitingLock{t: t, progress: make(chan latchkey.Progress, 100), done: make(chan struct{})}
	opts.OnWait = func(p latchkey.Progress) { w.progress <- p }
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(w.done)
		w.lock, w.err = c.Lock(ctx, name, opts)
	}()
	t.Cleanup(func() {
		cancel()
		if <-w.done; w.lock != nil {
			w.lock.Release()
		}
	})
	w.first = w.next()
	return w
}

// next is what the waiter is told next.
func (w *waitingLock) next() latchkey.Progress {
	w.t.Helper()
	select {
	case p := <-w.progress:
		return p
	case <-w.done:
		w.t.Fatalf("it waits no more: %v", w.err)
	case <-time.After(bound):
		w.t.Fatalf("a waiter is told nothing within %v", bound)
	}
	return latchkey.Progress{}
}

// end is what Lock returned.
func (w *waitingLock) end() (*latchkey.Lock, error) {
	w.t.Helper()
	select {
	case <-w.done:
	case <-time.After(bound):
		w.t.Fatalf("Lock does not return within %v", bound)
	}
	return w.lock, w.err
}

func (w *waitingLock) mustEnd() *latchkey.Lock {
	w.t.Helper()
	lock, err := w.end()
	if err != nil {
		w.t.Fatal(err)
	}
	return lock
}

// await waits for a context's end and returns its cause.
func await(t testing.TB, ctx context.Context) error {
	t.Helper()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(bound):
		t.Fatalf("a context has not ended within %v", bound)
		return nil
	}
}

func wantIs(t testing.TB, err error, wanted ...error) {
	t.Helper()
	for _, want := range wanted {
		if !errors.Is(err, want) {
			t.Errorf("error is %v, want %v in it", err, want)
		}
	}
}

// as is the error's T; it fails the test if there is none.
func as[T error](t testing.TB, err error) T {
	t.Helper()
	var found T
	if !errors.As(err, &found) {
		t.Fatalf("error is %T %v, want a %T", err, err, found)
	}
	return found
}

func address(url string) string { return strings.TrimPrefix(url, "http://") }
