package server

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/latchkey/latchkey/store"
)

func TestMetricsAreWellNamed(t *testing.T) {
	registry := prometheus.NewRegistry()
	ts := serve(t, &fakeStore{}, Config{Registry: registry})
	do(t, ts, "GET", "/healthz", "")
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "latchkey_") {
			t.Errorf("%s is not named as ours", family.GetName())
		}
	}
}

func TestRequestsAreCountedByOperationAndStatus(t *testing.T) {
	registry := prometheus.NewRegistry()
	ts := serve(t, &fakeStore{claim: func(context.Context, store.Claim) (store.Lock, error) {
		return store.Lock{}, &store.HeldError{}
	}}, Config{Registry: registry})
	for range 3 {
		do(t, ts, "POST", "/locks", `{"name":"a"}`)
	}
	do(t, ts, "POST", "/locks", `{}`)
	do(t, ts, "GET", "/nowhere", "")
	ts.Close() // what is counted at the end of a request is counted now
	want := `
# HELP latchkey_http_requests_in_flight Requests being served, waits and streams included.
# TYPE latchkey_http_requests_in_flight gauge
latchkey_http_requests_in_flight 0
# HELP latchkey_http_requests_total Requests served, by operation and status; client_left where the client did not stay for the answer.
# TYPE latchkey_http_requests_total counter
latchkey_http_requests_total{operation="createLock",status="400"} 1
latchkey_http_requests_total{operation="createLock",status="409"} 3
latchkey_http_requests_total{operation="unmatched",status="404"} 1
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want), "latchkey_http_requests_total", "latchkey_http_requests_in_flight")
	if err != nil {
		t.Error(err)
	}
}

// A client that leaves while it waits is no failure of the service, in the log or in the metrics.
func TestClientsThatLeaveAreNoFailures(t *testing.T) {
	var log lockedBuffer
	registry, asking := prometheus.NewRegistry(), make(chan struct{})
	ts := serve(t, &fakeStore{ask: func(ctx context.Context, _ string, _ time.Duration, _ time.Time) (store.Lock, error) {
		close(asking)
		<-ctx.Done()
		return store.Lock{}, ctx.Err()
	}}, Config{Registry: registry, Logger: debugLogger(&log)})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", ts.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /locks/x?wait_seconds=55 HTTP/1.1\r\nHost: x\r\n\r\n")
	<-asking
	conn.Close()
	line := awaitLines(t, &log, 0, 1)[0]
	if !strings.Contains(line, `"level":"INFO"`) || !strings.Contains(line, `"client_left":true`) {
		t.Errorf("got %s", line)
	}
	want := `
# HELP latchkey_http_requests_total Requests served, by operation and status; client_left where the client did not stay for the answer.
# TYPE latchkey_http_requests_total counter
latchkey_http_requests_total{operation="getLock",status="client_left"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "latchkey_http_requests_total"); err != nil {
		t.Error(err)
	}
}

// No label comes from a client: what it makes up makes no series.
func TestClientsMakeNoSeries(t *testing.T) {
	registry := prometheus.NewRegistry()
	ts := serve(t, &fakeStore{
		claim: func(context.Context, store.Claim) (store.Lock, error) { return store.Lock{}, &store.HeldError{} },
		look:  func(context.Context, string) (store.Lock, error) { return store.Lock{}, store.ErrNoLock },
	}, Config{Registry: registry})
	for i := range 50 {
		do(t, ts, "POST", "/locks", fmt.Sprintf(`{"name":"stranger-%d"}`, i))
		do(t, ts, "GET", fmt.Sprintf("/locks/stranger-%d", i), "")
		do(t, ts, "GET", fmt.Sprintf("/stranger-%d", i), "")
		do(t, ts, fmt.Sprintf("STRANGER%d", i), "/locks", "")
	}
	text := do(t, ts, "GET", "/metrics", "")
	if got := text.header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Errorf("got %s", got)
	}
	if strings.Contains(strings.ToLower(text.body), "stranger") {
		t.Error("a metric tells of a client")
	}
	if got, err := testutil.GatherAndCount(registry, "latchkey_http_requests_total"); err != nil || got > 6 {
		t.Errorf("got %d series, %v", got, err)
	}
}

func TestARegistryHasTheMetricsOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := New(&fakeStore{t: t}, Config{Registry: registry}); err != nil {
		t.Fatal(err)
	}
	if _, err := New(&fakeStore{t: t}, Config{Registry: registry}); err == nil {
		t.Error("a second server on one registry was made")
	}
}
