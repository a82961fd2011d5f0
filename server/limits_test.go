package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store"
)

const lockAll = "{prefix: '*', rights: [lock, read]}"

func wantLimit(t *testing.T, what string, got answer, code string) {
	t.Helper()
	status := http.StatusTooManyRequests
	if code == "overloaded" {
		status = http.StatusServiceUnavailable
	}
	if got.status != status || got.problem(t).Code != code || got.header.Get("Retry-After") == "" {
		t.Errorf("%s: got %d %s, Retry-After %q", what, got.status, got.body, got.header.Get("Retry-After"))
	}
}

// TestRatesOfAPrincipal: one that asks too much is refused, another is not, and what it holds it can go on renewing.
func TestRatesOfAPrincipal(t *testing.T) {
	gate, tokens := gateOf(t, "one", lockAll, "two", lockAll)
	fake := &fakeStore{
		look: func(context.Context, string) (store.Lock, error) { return store.Lock{}, store.ErrNoLock },
		renew: func(context.Context, string, time.Time) (store.Lease, error) {
			return store.Lease{ID: "x", TTL: time.Minute}, nil
		},
	}
	ts := serve(t, fake, Config{Gate: gate, Limits: Limits{RatePerPrincipal: 5}})
	refused := false
	for range 200 {
		if got := do(t, ts, "GET", "/locks/x", "", bearer(tokens[0])...); got.status != 404 {
			wantLimit(t, "too many", got, "too_many_requests")
			refused = true
			break
		}
	}
	if !refused {
		t.Error("200 requests at once at 5 a second: none was refused")
	}
	if got := do(t, ts, "PUT", "/leases/x", "", bearer(tokens[0])...); got.status != 200 {
		t.Errorf("a renewal of who is refused: got %d", got.status)
	}
	if got := do(t, ts, "GET", "/locks/x", "", bearer(tokens[1])...); got.status != 404 {
		t.Errorf("another principal: got %d", got.status)
	}
	if got := do(t, ts, "GET", "/healthz", ""); got.status != 200 {
		t.Errorf("healthz: got %d", got.status)
	}
}

// TestRateOfAnAddress goes before authentication: guessing tokens is slowed too.
func TestRateOfAnAddress(t *testing.T) {
	gate, _ := gateOf(t, "one", lockAll)
	ts := serve(t, &fakeStore{}, Config{Gate: gate, Limits: Limits{RatePerAddress: 5}})
	for range 200 {
		if got := do(t, ts, "GET", "/locks", "", bearer("guess")...); got.status != 401 {
			wantLimit(t, "too many guesses", got, "too_many_requests")
			if got := do(t, ts, "GET", "/readyz", ""); got.status != 200 {
				t.Errorf("readyz: got %d", got.status)
			}
			return
		}
	}
	t.Error("200 guesses at once at 5 a second: none was refused")
}

func TestWhatIsOneAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:1234": "192.0.2.7/32", "[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "[2001:db8:1:2:ffff::1]:9": "2001:db8:1:2::/64",
		"[::ffff:192.0.2.7]:80": "192.0.2.7/32", "[fe80::1%eth0]:80": "fe80::/64", "odd": "odd",
	} {
		if got := networkOfSender(remote); got != want {
			t.Errorf("%s: got %s, want %s", remote, got, want)
		}
	}
}

// TestRatesForgetWhoWasNotHeardOf: made up senders do not fill the memory, and do not make others be forgotten at once.
func TestRatesForgetWhoWasNotHeardOf(t *testing.T) {
	r, now := newRates(1), time.Now()
	kept := sender{"kept", false}
	if !r.allow(kept, now) || r.allow(kept, now) {
		t.Fatal("one a second is one at once")
	}
	for i := range 3 * maxSenders {
		r.allow(sender{fmt.Sprint(i), false}, now)
		if i%1000 == 0 && r.allow(kept, now) {
			t.Fatalf("forgotten after %d others", i)
		}
	}
	if n := len(r.young) + len(r.old); n > 2*maxSenders {
		t.Errorf("%d are remembered", n)
	}
}

// TestClaimsAndLeasesOfAPrincipal are bounded until they are released or have run out.
func TestClaimsAndLeasesOfAPrincipal(t *testing.T) {
	gate, tokens := gateOf(t, "one", lockAll, "two", lockAll)
	n, ttl := 0, time.Minute
	fake := &fakeStore{
		claim: func(_ context.Context, c store.Claim) (store.Lock, error) {
			n++
			l := store.Lock{ID: fmt.Sprint("id", n), Name: c.Name, State: store.Held, Token: 7, TTL: ttl, LeaseID: c.LeaseID}
			if c.Key != "" {
				l.ID = c.Key
			}
			if l.LeaseID == "" {
				l.LeaseID = l.ID
			}
			return l, nil
		},
		newLease: func(context.Context, store.Lease, time.Time) (store.Lease, error) {
			n++
			return store.Lease{ID: fmt.Sprint("lease", n), TTL: ttl}, nil
		},
		release:  func(context.Context, string) error { return nil },
		endLease: func(context.Context, string) error { return nil },
		renew: func(context.Context, string, time.Time) (store.Lease, error) {
			return store.Lease{TTL: time.Minute}, nil
		},
	}
	ts := serve(t, fake, Config{Gate: gate, Limits: Limits{ClaimsPerPrincipal: 3, LeasesPerPrincipal: 2}})
	claim := func(body string, who int, header ...string) answer {
		return do(t, ts, "POST", "/locks", body, append(bearer(tokens[who]), header...)...)
	}
	for i := range 2 {
		if got := claim(`{"name":"a"}`, 0); got.status != 201 {
			t.Fatalf("claim %d: got %d %s", i, got.status, got.body)
		}
	}
	for range 3 { // the same claim again and again is one
		if got := claim(`{"name":"k"}`, 0, "Idempotency-Key", "a key of sixteen or more"); got.status != 201 {
			t.Fatalf("a claim with a key: got %d %s", got.status, got.body)
		}
	}
	wantLimit(t, "a fourth claim", claim(`{"name":"k"}`, 0), "too_many_claims")
	if got := do(t, ts, "DELETE", "/locks/id1", "", bearer(tokens[0])...); got.status != 204 {
		t.Fatal(got.status)
	}
	if got := claim(`{"name":"a"}`, 0); got.status != 201 {
		t.Fatalf("after a release: got %d %s", got.status, got.body)
	}
	wantLimit(t, "and a fourth again", claim(`{"name":"k"}`, 0), "too_many_claims")
	if got := claim(`{"name":"a"}`, 1); got.status != 201 {
		t.Errorf("another principal: got %d", got.status)
	}
	lease := func() answer { return do(t, ts, "POST", "/leases", "{}", bearer(tokens[0])...) }
	lease()
	last := fmt.Sprint("lease", n)
	lease()
	wantLimit(t, "a third lease", lease(), "too_many_leases")
	do(t, ts, "DELETE", "/leases/"+last, "", bearer(tokens[0])...)
	if got := lease(); got.status != 201 {
		t.Errorf("after the end of one: got %d", got.status)
	}
}

// TestTallyForgetsWhatRanOut, and goes on with what was renewed.
func TestTallyForgetsWhatRanOut(t *testing.T) {
	tally := tally{mostClaims: 2}
	hold := func(id, lease string, ttl time.Duration) error {
		claim := store.Claim{Name: id}
		err := tally.claim("one", claim)
		if err == nil {
			tally.settle("one", claim, store.Lock{ID: id, LeaseID: lease, TTL: ttl}, nil)
		}
		return err
	}
	const short = 50 * time.Millisecond
	if err := hold("a", "a", short); err != nil {
		t.Fatal(err)
	}
	if err := hold("b", "b", short); err != nil {
		t.Fatal(err)
	}
	tally.kept("one", "b", time.Minute)
	tally.kept("one", "unknown", time.Minute)
	for end := time.Now().Add(patience); hold("c", "c", short) != nil; time.Sleep(short / 10) {
		if time.Now().After(end) {
			t.Fatal("what ran out still counts")
		}
	}
	tally.ended("one", "c")
	for i := range 10 * spareLeases {
		if err := hold("d", fmt.Sprint("lease", i), time.Minute); err != nil {
			t.Fatal(err)
		}
		tally.ended("one", "d")
	}
	if h := tally.of["one"]; len(h.until) > 2*spareLeases || len(h.claims) != 1 {
		t.Errorf("%d leases are remembered, %d claims", len(h.until), len(h.claims))
	}
	tally.ended("one", "b")
	if len(tally.of) != 0 {
		t.Errorf("a principal with nothing is remembered: %+v", tally.of["one"])
	}
}

// TestWaitersAndStreams are bounded while they last.
func TestWaitersAndStreams(t *testing.T) {
	gate, tokens := gateOf(t, "one", lockAll, "two", lockAll)
	begun := make(chan struct{}, 10)
	fake := &fakeStore{
		claim: func(ctx context.Context, _ store.Claim) (store.Lock, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return store.Lock{}, ctx.Err()
		},
		keep: func(ctx context.Context, _ string, tell func(store.Kept) error) error {
			if err := tell(store.Kept{Sent: time.Now()}); err != nil {
				return err
			}
			begun <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		},
	}
	ts := serve(t, fake, Config{Gate: gate, Limits: Limits{WaitersPerPrincipal: 1, StreamsPerPrincipal: 1, Streams: 2}})
	background := func(method, path, body string, who int) (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, method, ts.URL+path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+tokens[who])
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if res, err := ts.Client().Do(req); err == nil {
				buf := make([]byte, 1<<10)
				for err == nil {
					_, err = res.Body.Read(buf)
				}
				res.Body.Close()
			}
		}()
		<-begun
		return func() { cancel(); <-ended }
	}
	const wait = `{"name":"a","wait_seconds":20}`
	leave := background("POST", "/locks", wait, 0)
	wantLimit(t, "a second waiter", do(t, ts, "POST", "/locks", wait, bearer(tokens[0])...), "too_many_waiters")
	wantLimit(t, "a poll", do(t, ts, "GET", "/locks/x?wait_seconds=5", "", bearer(tokens[0])...), "too_many_waiters")
	background("POST", "/locks", wait, 1)()
	leave()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if s := time.Now(); s.After(end) {
			t.Fatal("the place of a waiter that left is not free again")
		}
		if got := waitOnce(t, ts.URL, tokens[0], begun); got {
			break
		}
	}
	leave = background("GET", "/leases/x/keepalive", "", 0)
	wantLimit(t, "a second stream", do(t, ts, "GET", "/leases/x/keepalive", "", bearer(tokens[0])...), "too_many_streams")
	leaveToo := background("GET", "/leases/x/keepalive", "", 1)
	wantLimit(t, "a third stream of all", do(t, ts, "GET", "/leases/x/keepalive", "", bearer(tokens[1])...), "overloaded")
	leave()
	leaveToo()
}

// waitOnce reports whether a waiter was let through, and leaves.
func waitOnce(t *testing.T, url, token string, begun chan struct{}) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "POST", url+"/locks", strings.NewReader(`{"name":"a","wait_seconds":20}`))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	answered := make(chan int, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			answered <- 0
			return
		}
		res.Body.Close()
		answered <- res.StatusCode
	}()
	select {
	case <-begun:
		cancel()
		<-answered
		return true
	case status := <-answered:
		if status != http.StatusTooManyRequests {
			t.Fatalf("got %d", status)
		}
		return false
	}
}

// TestARepeatNeedsNoRoom: a claim whose answer was lost is found again by its key, though there is room for no other.
func TestARepeatNeedsNoRoom(t *testing.T) {
	tally := tally{mostClaims: 1}
	lost := store.Claim{Name: "a", Key: "its key"}
	if err := tally.claim("one", lost); err != nil {
		t.Fatal(err)
	}
	tally.settle("one", lost, store.Lock{}, store.ErrUnknown)
	for _, other := range []store.Claim{{Name: "a"}, {Name: "b", Key: "its key"}, {Name: "a", Key: "another"}, {Name: "a", LeaseID: "its key"}} {
		if err := tally.claim("one", other); err == nil {
			t.Errorf("there was room for %+v", other)
		}
	}
	for range 2 {
		if err := tally.claim("one", lost); err != nil {
			t.Fatal(err)
		}
		tally.settle("one", lost, store.Lock{ID: "id", LeaseID: "id", TTL: time.Minute}, nil)
	}
	if h := tally.of["one"]; len(h.claims) != 1 || h.claimsUnderWay != 0 {
		t.Errorf("got %+v, want one claim", h)
	}
	tally.ended("one", "id")
	if err := tally.claim("one", store.Claim{Name: "b"}); err != nil {
		t.Errorf("after its release: %v", err)
	}
}
