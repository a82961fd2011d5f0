package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store"
)

// event is one block of a stream, read as the standard for event sources says.
type event struct {
	name, id, data, retry, comment string
}

func parseEvents(text string) []event {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	var list []event
	for _, block := range strings.Split(text, "\n\n") {
		if block == "" {
			continue
		}
		var e event
		for _, line := range strings.Split(block, "\n") {
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "":
				e.comment = value
			case "event":
				e.name = value
			case "id":
				e.id = value
			case "retry":
				e.retry = value
			case "data":
				e.data += value
			}
		}
		list = append(list, e)
	}
	return list
}

func names(events []event) []string {
	var list []string
	for _, e := range events {
		if e.name != "" {
			list = append(list, e.name)
		}
	}
	return list
}

// following makes a store that tells these states and ends with err.
func following(err error, states ...store.Lock) *fakeStore {
	return &fakeStore{follow: func(_ context.Context, _ string, _ time.Time, tell func(store.Lock) error) error {
		for _, lock := range states {
			if err := tell(lock); err != nil {
				return err
			}
		}
		return err
	}}
}

func TestLockEventsTellQueuedThenHeld(t *testing.T) {
	ts := serve(t, following(nil,
		store.Lock{ID: "x", LeaseID: "x", Name: "a", Position: 1, TTL: 30 * time.Second, Revision: 41},
		store.Lock{ID: "x", LeaseID: "x", Name: "a", State: store.Held, Token: 7, TTL: 30 * time.Second, Revision: 43},
	), Config{})
	got := do(t, ts, "GET", "/locks/x/events", "", "Last-Event-ID", "40")
	for header, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no",
	} {
		if got.header.Get(header) != want {
			t.Errorf("%s is %q, want %q", header, got.header.Get(header), want)
		}
	}
	events := parseEvents(got.body)
	if len(events) != 3 || events[0].retry == "" {
		t.Fatalf("got %+v", events)
	}
	for i, want := range []event{
		{name: "queued", id: "41", data: `{"id":"x","name":"a","state":"queued","position":1,"lease_id":"x","ttl_seconds":30,"renew_after_seconds":10}`},
		{name: "held", id: "43", data: `{"id":"x","name":"a","state":"held","fencing_token":7,"position":0,"lease_id":"x","ttl_seconds":30,"renew_after_seconds":10}`},
	} {
		if events[i+1] != want {
			t.Errorf("got %+v, want %+v", events[i+1], want)
		}
	}
}

func TestStreamsSayWhyTheyEnd(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
		code string
	}{
		{store.ErrPlaceLost, "lost", "place_lost"},
		{store.ErrNoLock, "lost", "lock_not_found"},
		{store.ErrNoLease, "lost", "lease_not_found"},
		{store.ErrDraining, "ended", "draining"},
		{store.ErrUnavailable, "ended", "unavailable"},
		{store.ErrOverloaded, "ended", "overloaded"},
		{store.ErrUnknown, "ended", "outcome_unknown"},
		{errors.New("secret of the inside"), "ended", "internal"},
	} {
		ts := serve(t, following(c.err, store.Lock{ID: "x", Name: "a"}), Config{})
		got := do(t, ts, "GET", "/locks/x/events", "")
		events := parseEvents(got.body)
		if want := []string{"queued", c.want}; !slices.Equal(names(events), want) {
			t.Fatalf("%v: got %q, want %q", c.err, names(events), want)
		}
		var data struct{ Code, Detail string }
		if err := json.Unmarshal([]byte(events[2].data), &data); err != nil || data.Code != c.code || data.Detail == "" {
			t.Errorf("%v: got %s", c.err, events[2].data)
		}
		if strings.Contains(got.body, "secret") {
			t.Errorf("the stream tells of the inside: %s", got.body)
		}
	}
}

func TestStreamsThatCannotBeginAreProblems(t *testing.T) {
	fake := following(store.ErrNoLock)
	fake.keep = func(context.Context, string, func(store.Kept) error) error { return store.ErrNoLease }
	ts := serve(t, fake, Config{})
	if got := do(t, ts, "GET", "/locks/x/events", "").problem(t); got.Code != "lock_not_found" {
		t.Errorf("got %+v", got)
	}
	if got := do(t, ts, "GET", "/leases/x/keepalive", "").problem(t); got.Code != "lease_not_found" {
		t.Errorf("got %+v", got)
	}
}

func TestKeepaliveTellsWhenTheRenewalWasSent(t *testing.T) {
	lease := store.Lease{ID: "x", TTL: 30 * time.Second, Token: 7}
	ts := serve(t, &fakeStore{keep: func(ctx context.Context, id string, tell func(store.Kept) error) error {
		arrived := exchangeOf(ctx).arrived
		return errors.Join(
			tell(store.Kept{Lease: lease, Sent: arrived.Add(3*time.Millisecond + 999*time.Microsecond)}),
			tell(store.Kept{Lease: lease, Sent: arrived.Add(3 * time.Millisecond), Err: store.ErrUnavailable}),
			tell(store.Kept{Lease: lease, Sent: arrived.Add(10 * time.Second)}),
		)
	}}, Config{})
	events := parseEvents(do(t, ts, "GET", "/leases/x/keepalive", "").body)
	want := []event{
		{name: "renewed", data: `{"fencing_token":7,"renewed_after_ms":3,"ttl_seconds":30}`},
		{name: "warning", data: `{"code":"unavailable","detail":"the store cannot be used now","renewed_after_ms":3,"ttl_seconds":30}`},
		{name: "renewed", data: `{"fencing_token":7,"renewed_after_ms":10000,"ttl_seconds":30}`},
		{name: "ended", data: `{"code":"time_up","detail":"this stream has lasted as long as it may: open it again"}`},
	}
	if !slices.Equal(events[1:], want) {
		t.Errorf("got  %+v\nwant %+v", events[1:], want)
	}
}

func TestRenewalTimesAreRoundedDown(t *testing.T) {
	from := time.Now()
	for after, want := range map[time.Duration]int64{
		0: 0, 999 * time.Microsecond: 0, time.Millisecond: 1, -time.Microsecond: -1, -time.Millisecond: -1,
		-1500 * time.Microsecond: -2,
	} {
		if got := millisecondsBetween(from, from.Add(after)); got != want {
			t.Errorf("%v: got %d, want %d", after, got, want)
		}
	}
}

// Whatever a client puts into holder, metadata and name, it makes no event of its own.
func TestTextOfClientsMakesNoEvents(t *testing.T) {
	text := "x\r\ndata: {}\r\n\r\nevent: held\rdata: {}\n\n\u2028event: held\u0085"
	ts := serve(t, following(store.ErrPlaceLost, store.Lock{
		ID: "x", Name: text, Holder: text, Metadata: map[string]string{text: text},
	}), Config{})
	events := parseEvents(do(t, ts, "GET", "/locks/x/events", "").body)
	if want := []string{"queued", "lost"}; !slices.Equal(names(events), want) {
		t.Fatalf("got %q, want %q", names(events), want)
	}
	var lock api.Lock
	if err := json.Unmarshal([]byte(events[1].data), &lock); err != nil || lock.Holder != text || lock.Metadata[text] != text {
		t.Errorf("got %+v, %v", lock, err)
	}
}

// open opens a stream and returns its lines as they come.
func open(t *testing.T, ts *httptest.Server, path string) (*http.Response, <-chan string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", ts.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := ts.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(res.Body); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return res, lines
}

// await reads lines until one begins so.
func await(t *testing.T, lines <-chan string, begin string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the stream ended before %q", begin)
			}
			if strings.HasPrefix(line, begin) {
				return
			}
		case <-deadline:
			t.Fatalf("%q did not come", begin)
		}
	}
}

func TestSilentStreamsHaveAHeartbeatAndEndWithTheClient(t *testing.T) {
	ended := make(chan error, 1)
	ts := serve(t, &fakeStore{follow: func(ctx context.Context, _ string, _ time.Time, tell func(store.Lock) error) error {
		if err := tell(store.Lock{ID: "x", Name: "a"}); err != nil {
			return err
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}}, Config{Heartbeat: 20 * time.Millisecond})
	res, lines := open(t, ts, "/locks/x/events")
	await(t, lines, "event: queued")
	for range 3 {
		await(t, lines, ": ")
	}
	res.Body.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(patience):
		t.Error("the store goes on following for a client that has left")
	}
}

// A client that takes nothing any more does not hold its stream: the write's deadline ends it.
func TestAClientThatTakesNothingLosesItsStream(t *testing.T) {
	ended := make(chan error, 1)
	large := store.Lock{ID: "x", Name: "a", Holder: strings.Repeat("h", 1<<20)}
	ts := serve(t, &fakeStore{follow: func(ctx context.Context, _ string, _ time.Time, tell func(store.Lock) error) error {
		for {
			if err := tell(large); err != nil {
				ended <- errors.Join(err, context.Cause(ctx))
				return err
			}
		}
	}}, Config{WriteTimeout: 100 * time.Millisecond})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", ts.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /locks/x/events HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("got %v", err)
		}
	case <-time.After(patience):
		t.Error("the stream goes on")
	}
}

func TestHeadersAreSentBeforeAnythingHappens(t *testing.T) {
	told := make(chan struct{})
	ts := serve(t, &fakeStore{keep: func(ctx context.Context, _ string, tell func(store.Kept) error) error {
		err := tell(store.Kept{Lease: store.Lease{ID: "x", TTL: time.Minute}, Sent: time.Now()})
		<-told
		return err
	}}, Config{})
	res, lines := open(t, ts, "/leases/x/keepalive") // returns when the headers are there
	if res.StatusCode != 200 {
		t.Errorf("got %d", res.StatusCode)
	}
	await(t, lines, "event: renewed")
	close(told)
	await(t, lines, "event: ended")
}

func TestStreamsOverHTTP10EndWithTheConnection(t *testing.T) {
	ts := serve(t, following(nil, store.Lock{ID: "x", Name: "a", State: store.Held, Token: 7}), Config{})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", ts.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /locks/x/events HTTP/1.0\r\n\r\n")
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(text), "\r\n\r\n")
	if got := names(parseEvents(body)); !slices.Equal(got, []string{"held"}) {
		t.Errorf("got %q in %s", got, text)
	}
}
