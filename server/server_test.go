package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test for something that must come.
const patience = 10 * time.Second

// fakeStore does what its functions do. A call that has no function fails the test.
type fakeStore struct {
	t        *testing.T
	claim    func(context.Context, store.Claim) (store.Lock, error)
	untold   func(store.Lock)
	look     func(context.Context, string) (store.Lock, error)
	ask      func(context.Context, string, time.Duration, time.Time) (store.Lock, error)
	follow   func(context.Context, string, time.Time, func(store.Lock) error) error
	release  func(context.Context, string) error
	another  func(context.Context, string) (bool, error)
	gone     func(context.Context, []string) ([]string, error)
	find     func(context.Context, []store.Claim) ([]store.Found, error)
	others   []store.Word
	breaks   func(context.Context, string, store.Breaking, func(string) bool) (store.Lock, error)
	list     func(context.Context, store.Filter) (store.Page, error)
	newLease func(context.Context, store.Lease, time.Time) (store.Lease, error)
	renew    func(context.Context, string, time.Time) (store.Lease, error)
	getLease func(context.Context, string) (store.Lease, error)
	endLease func(context.Context, string) error
	keep     func(context.Context, string, func(store.Kept) error) error
	ready    func() error
	drained  int
}

var errNotExpected = errors.New("the store was not to be called")

// unexpected is only reached when the function asked for is nil.
func (f *fakeStore) unexpected(call string) error {
	f.t.Errorf("the store was asked to %s", call)
	return errNotExpected
}

func (f *fakeStore) Claim(ctx context.Context, c store.Claim) (store.Lock, error) {
	if f.claim == nil {
		return store.Lock{}, f.unexpected("Claim")
	}
	return f.claim(ctx, c)
}

func (f *fakeStore) Untold(l store.Lock) {
	if f.untold == nil {
		_ = f.unexpected("Untold")
		return
	}
	f.untold(l)
}

func (f *fakeStore) Look(ctx context.Context, id string) (store.Lock, error) {
	if f.look == nil {
		return store.Lock{}, f.unexpected("Look")
	}
	return f.look(ctx, id)
}

func (f *fakeStore) Ask(ctx context.Context, id string, wait time.Duration, arrived time.Time) (store.Lock, error) {
	if f.ask == nil {
		return store.Lock{}, f.unexpected("Ask")
	}
	return f.ask(ctx, id, wait, arrived)
}

func (f *fakeStore) Follow(ctx context.Context, id string, arrived time.Time, tell func(store.Lock) error) error {
	if f.follow == nil {
		return f.unexpected("Follow")
	}
	return f.follow(ctx, id, arrived, tell)
}

func (f *fakeStore) Release(ctx context.Context, id string) error {
	if f.release == nil {
		return f.unexpected("Release")
	}
	return f.release(ctx, id)
}

func (f *fakeStore) Break(ctx context.Context, id string, b store.Breaking, may func(string) bool) (store.Lock, error) {
	if f.breaks == nil {
		return store.Lock{}, f.unexpected("Break")
	}
	return f.breaks(ctx, id, b, may)
}

func (f *fakeStore) Another(ctx context.Context, id string) (bool, error) {
	if f.another == nil {
		return false, f.unexpected("Another")
	}
	return f.another(ctx, id)
}

func (f *fakeStore) Gone(ctx context.Context, ids []string) ([]string, error) {
	if f.gone == nil {
		return nil, nil
	}
	return f.gone(ctx, ids)
}

func (f *fakeStore) Find(ctx context.Context, claims []store.Claim) ([]store.Found, error) {
	if f.find == nil {
		return make([]store.Found, len(claims)), nil
	}
	return f.find(ctx, claims)
}

func (f *fakeStore) Share(func(context.Context) store.Word) {}

func (f *fakeStore) Others() []store.Word { return f.others }

func (f *fakeStore) List(ctx context.Context, filter store.Filter) (store.Page, error) {
	if f.list == nil {
		return store.Page{}, f.unexpected("List")
	}
	return f.list(ctx, filter)
}

func (f *fakeStore) NewLease(ctx context.Context, l store.Lease, arrived time.Time) (store.Lease, error) {
	if f.newLease == nil {
		return store.Lease{}, f.unexpected("NewLease")
	}
	return f.newLease(ctx, l, arrived)
}

func (f *fakeStore) Renew(ctx context.Context, id string, arrived time.Time) (store.Lease, error) {
	if f.renew == nil {
		return store.Lease{}, f.unexpected("Renew")
	}
	return f.renew(ctx, id, arrived)
}

func (f *fakeStore) GetLease(ctx context.Context, id string) (store.Lease, error) {
	if f.getLease == nil {
		return store.Lease{}, f.unexpected("GetLease")
	}
	return f.getLease(ctx, id)
}

func (f *fakeStore) EndLease(ctx context.Context, id string) error {
	if f.endLease == nil {
		return f.unexpected("EndLease")
	}
	return f.endLease(ctx, id)
}

func (f *fakeStore) Keep(ctx context.Context, id string, tell func(store.Kept) error) error {
	if f.keep == nil {
		return f.unexpected("Keep")
	}
	return f.keep(ctx, id, tell)
}

func (f *fakeStore) TTLBounds() (least, most time.Duration) { return 2 * time.Second, 24 * time.Hour }

func (f *fakeStore) Ready() error {
	if f.ready == nil {
		return nil
	}
	return f.ready()
}

func (f *fakeStore) Drain() { f.drained++ }

// serve starts a server on the fake as the binary would start it.
func serve(t *testing.T, fake *fakeStore, cfg Config) *httptest.Server {
	t.Helper()
	fake.t = t
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := New(fake, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return serveHandler(t, s, cfg.Logger)
}

func serveHandler(t *testing.T, handler http.Handler, logger *slog.Logger) *httptest.Server {
	t.Helper()
	listener, err := Listen(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	ts := &httptest.Server{Listener: listener, Config: NewHTTPServer(handler, logger)}
	ts.Start()
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
	})
	return ts
}

// answer is one whole answer.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends one request and checks the answer against the contract.
func do(t *testing.T, ts *httptest.Server, method, path, body string, header ...string) answer {
	t.Helper()
	got := send(t, ts, method, path, body, header...)
	checkAnswer(t, method, path, got)
	return got
}

// send sends one request. JSON is sent as such unless the header says otherwise.
func send(t *testing.T, ts *httptest.Server, method, path, body string, header ...string) answer {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, ts.URL+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			req.Header.Del(header[i])
			continue
		}
		req.Header[http.CanonicalHeaderKey(header[i])] = strings.Split(header[i+1], "|")
	}
	res, err := ts.Client().Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: read the answer: %v", method, path, err)
	}
	return answer{res.StatusCode, res.Header, string(text)}
}

// problem reads a problem document and checks what all of them have in common.
func (a answer) problem(t *testing.T) api.Problem {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("got a %d of type %q: %s", a.status, got, a.body)
	}
	var p api.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	if p.Status != a.status {
		t.Errorf("the problem says status %d, the answer %d", p.Status, a.status)
	}
	if p.Code == "" || p.Title == "" || p.Detail == "" || p.Type != "/openapi.yaml#/components/examples/"+p.Code {
		t.Errorf("the problem is not whole: %s", a.body)
	}
	return p
}

// decode reads a JSON answer with the status wanted.
func decode[T any](t *testing.T, a answer, status int) T {
	t.Helper()
	var v T
	if a.status != status || a.header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %s, want %d: %s", a.status, a.header.Get("Content-Type"), status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

func TestDrainIsNotReadyAndIdempotent(t *testing.T) {
	fake := &fakeStore{t: t}
	s, err := New(fake, Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ts := serveHandler(t, s, slog.New(slog.DiscardHandler))

	if got := decode[api.Health](t, do(t, ts, "GET", "/readyz", ""), 200); got.Status != "ready" {
		t.Errorf("got %+v", got)
	}
	s.Drain()
	s.Drain()
	if fake.drained != 1 {
		t.Errorf("the store was drained %d times", fake.drained)
	}
	if got := do(t, ts, "GET", "/readyz", "").problem(t); got.Code != "draining" {
		t.Errorf("got %+v", got)
	}
	if got := decode[api.Health](t, do(t, ts, "GET", "/healthz", ""), 200); got.Status != "alive" {
		t.Errorf("got %+v", got)
	}
}

func TestReadyzSaysWhatTheStoreSays(t *testing.T) {
	ts := serve(t, &fakeStore{ready: func() error { return store.ErrUnavailable }}, Config{})
	if got := do(t, ts, "GET", "/readyz", "").problem(t); got.Code != "unavailable" {
		t.Errorf("got %+v", got)
	}
}
