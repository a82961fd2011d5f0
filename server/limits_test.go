package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
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
			wantLimit(t, "a look at the metrics", do(t, ts, "GET", "/metrics", "", bearer("guess")...), "too_many_requests")
			wantLimit(t, "what is not there", send(t, ts, "GET", "/nothing", ""), "too_many_requests")
			wantLimit(t, "a wrong method", send(t, ts, "PATCH", "/locks", ""), "too_many_requests")
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

// holdWith claims with a tally, and settles that it is held.
func holdWith(t *testing.T, tally *tally, who, id string, c store.Claim) error {
	t.Helper()
	settle, err := tally.claim(t.Context(), who, c)
	if err == nil {
		settle(store.Lock{ID: id, LeaseID: id, TTL: time.Minute}, nil)
	}
	return err
}

// TestTallyLooksBeforeItRefuses: what was released at another replica, or ran out, is not held against anybody; and whoever is
// refused again and again costs one look in a while.
func TestTallyLooksBeforeItRefuses(t *testing.T) {
	gone, looks := map[string]bool{}, 0
	tally := tally{mostClaims: 2, mostLeases: 1, store: &fakeStore{gone: func(_ context.Context, ids []string) (over []string, err error) {
		looks++
		for _, id := range ids {
			if gone[id] {
				over = append(over, id)
			}
		}
		return over, nil
	}}}
	for _, id := range []string{"a", "b"} {
		if err := holdWith(t, &tally, "one", id, store.Claim{Name: id}); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if err := holdWith(t, &tally, "one", "c", store.Claim{Name: "c"}); err == nil {
			t.Fatal("a third was let through")
		}
	}
	if looks != 1 {
		t.Errorf("ten refusals cost %d looks", looks)
	}
	gone["b"] = true
	tally.young["one"].looked = time.Time{}
	if err := holdWith(t, &tally, "one", "c", store.Claim{Name: "c"}); err != nil {
		t.Errorf("after one ended elsewhere: %v", err)
	}
	settle, err := tally.lease(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	settle(store.Lease{ID: "lease"}, nil)
	if _, err := tally.lease(t.Context(), "one"); err == nil {
		t.Error("a second lease was let through")
	}
	gone["lease"] = true
	tally.young["one"].looked = time.Time{}
	if _, err := tally.lease(t.Context(), "one"); err != nil {
		t.Errorf("after it ended elsewhere: %v", err)
	}
}

// TestTallyKeepsNothingOfWhatEnded, nor a made up number of principals, and a panic is given back like an error.
func TestTallyKeepsNothingOfWhatEnded(t *testing.T) {
	tally := tally{mostClaims: 10, store: &fakeStore{}}
	for i := range 100 { // another key each time, and each released
		id := fmt.Sprint(i)
		if err := holdWith(t, &tally, "one", id, store.Claim{Name: "a", Key: "key " + id}); err != nil {
			t.Fatal(err)
		}
		tally.ended("one", id)
	}
	if h := tally.young["one"]; len(h.claims)+len(h.known) != 0 {
		t.Errorf("%d claims and %d handles are kept", len(h.claims), len(h.known))
	}
	for range 20 {
		settle, err := tally.claim(t.Context(), "one", store.Claim{Name: "a"})
		if err != nil {
			t.Fatal("what came to nothing counts")
		}
		settle(store.Lock{}, nil) // as after a panic
	}
	for i := range 3 * maxTallied {
		tally.holdings(fmt.Sprint(i))
	}
	if n := len(tally.young) + len(tally.old); n > 2*maxTallied {
		t.Errorf("%d principals are kept", n)
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

// TestARepeatNeedsNoRoom: a claim whose answer was lost is found again by its key, though there is room for no other; and what
// was released is no repeat any more.
func TestARepeatNeedsNoRoom(t *testing.T) {
	lost, stands := store.Claim{Name: "a", Key: "its key"}, true
	tally := tally{mostClaims: 1, store: &fakeStore{find: func(_ context.Context, claims []store.Claim) ([]store.Found, error) {
		found := make([]store.Found, len(claims))
		for i, c := range claims {
			if stands && c.Name == lost.Name && c.Key == lost.Key {
				found[i] = store.Found{ID: "id", Here: true}
			}
		}
		return found, nil
	}}}
	settle, err := tally.claim(t.Context(), "one", lost)
	if err != nil {
		t.Fatal(err)
	}
	settle(store.Lock{}, store.ErrUnknown)
	others := []store.Claim{{Name: "a"}, {Name: "b", Key: "its key"}, {Name: "a", Key: "another"}, {Name: "a", LeaseID: "its key"}}
	for _, other := range others {
		if _, err := tally.claim(t.Context(), "one", other); err == nil {
			t.Errorf("there was room for %+v", other)
		}
	}
	for range 2 {
		if err := holdWith(t, &tally, "one", "id", lost); err != nil {
			t.Fatal(err)
		}
	}
	if h := tally.young["one"]; len(h.claims) != 1 || h.doubted+h.nameless != 0 {
		t.Errorf("got %+v, want one claim", h)
	}
	tally.ended("one", "id")
	stands = false
	if err := holdWith(t, &tally, "one", "other", others[0]); err != nil {
		t.Errorf("after its release: %v", err)
	}
	if err := holdWith(t, &tally, "one", "again", lost); err == nil {
		t.Error("the key of a released claim passes the bound")
	}
}

// TestLongAnswersTakeTurns: however many ask for all there is, only a few of the answers are made at one time.
func TestLongAnswersTakeTurns(t *testing.T) {
	var now, most atomic.Int64
	asked, going := make(chan struct{}, 100), make(chan struct{})
	busy := func() {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		asked <- struct{}{}
		<-going
		now.Add(-1)
	}
	fake := &fakeStore{
		list: func(context.Context, store.Filter) (store.Page, error) { busy(); return store.Page{}, nil },
		getLease: func(context.Context, string) (store.Lease, error) {
			busy()
			return store.Lease{ID: "x", TTL: time.Minute}, nil
		},
	}
	ts := serve(t, fake, Config{OverloadPause: time.Millisecond})
	var all sync.WaitGroup
	for i := range 2 * dearAtOnce {
		all.Go(func() {
			if got := send(t, ts, "GET", []string{"/locks", "/leases/x"}[i%2], ""); got.status != 200 {
				t.Errorf("got %d %s", got.status, got.body)
			}
		})
	}
	for range dearAtOnce {
		<-asked
	}
	if got := send(t, ts, "GET", "/healthz", ""); got.status != 200 {
		t.Errorf("healthz meanwhile: %d", got.status)
	}
	close(going)
	all.Wait()
	if n := most.Load(); n != dearAtOnce {
		t.Errorf("%d at one time, want %d", n, dearAtOnce)
	}
}

// TestLongAnswersOfOnePrincipalLeaveTurnsToOthers: one has as many slow readers as it likes, and another is answered.
func TestLongAnswersOfOnePrincipalLeaveTurnsToOthers(t *testing.T) {
	gate, tokens := gateOf(t, "greedy", "{prefix: '*', rights: [read]}", "other", "{prefix: '*', rights: [read]}")
	asked, going := make(chan struct{}, 100), make(chan struct{})
	fake := &fakeStore{list: func(ctx context.Context, f store.Filter) (store.Page, error) {
		if f.Prefix == "slow" {
			asked <- struct{}{}
			<-going
		}
		return store.Page{}, nil
	}}
	ts := serve(t, fake, Config{Gate: gate, OverloadPause: time.Millisecond})
	var all sync.WaitGroup
	for range dearAtOnce {
		all.Go(func() { do(t, ts, "GET", "/locks?prefix=slow", "", bearer(tokens[0])...) })
	}
	for range dearOfOne {
		<-asked
	}
	for range dearAtOnce {
		if got := do(t, ts, "GET", "/locks", "", bearer(tokens[1])...); got.status != 200 {
			t.Errorf("another principal's list: %d %s", got.status, got.body)
		}
	}
	wantLimit(t, "one more of the first", do(t, ts, "GET", "/locks", "", bearer(tokens[0])...), "overloaded")
	select {
	case <-asked:
		t.Errorf("more than %d of one principal are made at one time", dearOfOne)
	default:
	}
	close(going)
	all.Wait()
}
