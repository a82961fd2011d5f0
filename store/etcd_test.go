package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m) }

// within bounds every wait of the tests: far above any promise, so that only a hang meets it.
const within = 20 * time.Second

// testConfig has a waiting TTL that a busy machine can keep and a test can wait for, and everything under a prefix of the test's own.
func testConfig(t testing.TB) Config {
	return Config{
		Prefix: prefixFor(t), WaitingTTL: 5 * time.Second, Registerer: prometheus.NewRegistry(),
		Logger: slog.New(slog.NewTextHandler(logTo{t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

var prefixes sync.Map

// prefixFor is the test's own, the same for all its replicas, and another when the test is run again.
func prefixFor(t testing.TB) string {
	prefix, had := prefixes.LoadOrStore(t, "/"+t.Name()+"/"+newNonce().text()+"/")
	if !had {
		t.Cleanup(func() { prefixes.Delete(t) })
	}
	return prefix.(string)
}

type logTo struct{ t testing.TB }

func (l logTo) Write(line []byte) (int, error) {
	l.t.Log(string(line))
	return len(line), nil
}

// open opens a replica's store and closes it when the test ends.
func open(t testing.TB, etcd *clientv3.Client, change ...func(*Config)) *Store {
	t.Helper()
	cfg := testConfig(t)
	for _, c := range change {
		c(&cfg)
	}
	ctx := ctxFor(t)
	s, err := Open(ctx, etcd, cfg)
	if err != nil {
		t.Fatalf("open the store: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return s
}

func ctxFor(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*within)
	t.Cleanup(cancel)
	return ctx
}

// pair are two replicas on one etcd.
func pair(t testing.TB) (a, b *Store) {
	etcd := etcdtest.Shared(t)
	return open(t, etcd.Client(t)), open(t, etcd.Client(t))
}

func mustClaim(t testing.TB, s *Store, c Claim) Lock {
	t.Helper()
	if c.TTL == 0 && c.LeaseID == "" {
		c.TTL = 30 * time.Second
	}
	l, err := s.Claim(ctxFor(t), c)
	if err != nil {
		t.Fatalf("claim %q: %v", c.Name, err)
	}
	return l
}

func mustHold(t testing.TB, s *Store, c Claim) Lock {
	t.Helper()
	l := mustClaim(t, s, c)
	if l.State != Held || l.Token == 0 {
		t.Fatalf("claim %q: got %+v, want it held with a token", c.Name, l)
	}
	return l
}

// enqueue keeps a place in the queue and returns at once.
func enqueue(t testing.TB, s *Store, c Claim) Lock {
	t.Helper()
	c.Queue = true
	l := mustClaim(t, s, c)
	if l.State != Queued {
		t.Fatalf("claim %q: got %+v, want it queued", c.Name, l)
	}
	return l
}

func mustRelease(t testing.TB, s *Store, l Lock) {
	t.Helper()
	if err := s.Release(ctxFor(t), l.ID); err != nil {
		t.Fatalf("release: %v", err)
	}
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got error %v, want %v", what, err, want)
	}
}

func wantBusy(t testing.TB, what string, err error) *HeldError {
	t.Helper()
	var held *HeldError
	if !errors.As(err, &held) {
		t.Fatalf("%s: got error %v, want a HeldError", what, err)
	}
	return held
}

// result is what a call in the background came to.
type result struct {
	lock Lock
	err  error
}

func inBackground(call func() (Lock, error)) <-chan result {
	done := make(chan result, 1)
	go func() {
		l, err := call()
		done <- result{l, err}
	}()
	return done
}

func claimInBackground(t testing.TB, s *Store, c Claim) <-chan result {
	if c.TTL == 0 && c.LeaseID == "" {
		c.TTL = 30 * time.Second
	}
	ctx := ctxFor(t)
	return inBackground(func() (Lock, error) { return s.Claim(ctx, c) })
}

func askInBackground(t testing.TB, s *Store, l Lock, wait time.Duration) <-chan result {
	ctx := ctxFor(t)
	return inBackground(func() (Lock, error) { return s.Ask(ctx, l.ID, wait, time.Now()) })
}

// get waits for a call in the background.
func get(t testing.TB, done <-chan result) (Lock, error) {
	t.Helper()
	select {
	case r := <-done:
		return r.lock, r.err
	case <-time.After(within):
		t.Fatal("the call did not return")
		return Lock{}, nil
	}
}

func getHeld(t testing.TB, done <-chan result) Lock {
	t.Helper()
	l, err := get(t, done)
	if err != nil || l.State != Held {
		t.Fatalf("got %+v, %v, want a held lock", l, err)
	}
	return l
}

func stillWaiting(t testing.TB, done <-chan result) {
	t.Helper()
	select {
	case r := <-done:
		t.Fatalf("the call returned %+v, %v: want it to wait", r.lock, r.err)
	default:
	}
}

// eventually asks again and again until ok says yes.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// claimsOn reads who stands on a name, in queue order, straight from etcd.
func claimsOn(t testing.TB, s *Store, name string) []Lock {
	t.Helper()
	p, err := s.List(ctxFor(t), Filter{Name: name, Limit: MaxLimit})
	if err != nil {
		t.Fatalf("list %q: %v", name, err)
	}
	return p.Locks
}

// queuedUp waits until n claims stand on a name.
func queuedUp(t testing.TB, s *Store, name string, n int) []Lock {
	t.Helper()
	var locks []Lock
	eventually(t, "that many claims on the name", func() bool {
		locks = claimsOn(t, s, name)
		return len(locks) == n
	})
	return locks
}

func shared(t testing.TB) *clientv3.Client { return etcdtest.Shared(t).Client(t) }

// calledOf is what the key of a client's lease is called.
func calledOf(t testing.TB, id string) string {
	t.Helper()
	if len(id) != 2*nonceText {
		t.Fatalf("%q is no id of a lease with a seal", id)
	}
	return sealedLease + id[:nonceText]
}
