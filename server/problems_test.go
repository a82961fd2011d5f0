package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/server/access"
	"github.com/latchkey/latchkey/store"
)

// failures has one error for each code of the contract, chosen to give the contract's own example.
func failures(t *testing.T) map[string]error {
	billing, _ := principalWith(t, "billing", "{prefix: billing, rights: [lock]}")
	pointer := "/ttl_seconds"
	return map[string]error{
		"invalid_request": &inputError{[]api.InputFault{
			{Pointer: &pointer, Detail: "must be from 2 to 86400 seconds"},
			{Parameter: "colour", Detail: "is not a parameter of this operation"},
		}},
		"not_found":          errNoRoute,
		"lock_not_found":     store.ErrNoLock,
		"lease_not_found":    store.ErrNoLease,
		"method_not_allowed": errMethod,
		"request_timeout":    errBodyTooSlow,
		"lock_held": &store.HeldError{QueueLength: 3, Holder: &store.Lock{
			ID: "secret", LeaseID: "secret", Token: 1834402758656042, Holder: "worker-7",
			Metadata: map[string]string{"host": "web-3"},
		}},
		"lock_queued":            store.ErrLockQueued,
		"payload_too_large":      &bodyTooLargeError{64 << 10},
		"unsupported_media_type": errMediaType,
		"idempotency_key_reused": store.ErrKeyReused,
		"too_many_waiters":       store.ErrTooManyWaiters,
		"internal":               errors.New("anything else"),
		"overloaded":             store.ErrOverloaded,
		"unavailable":            store.ErrUnavailable,
		"outcome_unknown":        store.ErrUnknown,
		"draining":               store.ErrDraining,
		"place_lost":             store.ErrPlaceLost,

		"unauthorized":      access.ErrBadCredentials,
		"forbidden":         &forbiddenError{right: access.Lock, who: billing},
		"max_hold_reached":  store.ErrMaxHold,
		"lock_broken":       &store.BrokenError{Reason: "host web-3 was taken out of service"},
		"too_many_claims":   tooMany("too_many_claims", "Too many claims", "claims", 10000),
		"too_many_leases":   tooMany("too_many_leases", "Too many leases", "leases", 1000),
		"too_many_streams":  tooMany("too_many_streams", "Too many streams", "streams open", 1000),
		"too_many_requests": tooManyRequests("principal", 1000),
	}
}

// The contract's examples are the golden files of the problem documents.
func TestProblemsAreThoseOfTheContract(t *testing.T) {
	examples := contractDoc().Components.Examples
	told := 0
	for name, example := range examples {
		if _, ok := example.Value.Value.(map[string]any)["code"]; ok {
			told++
			if failures(t)[name] == nil {
				t.Errorf("no failure here has the contract's code %s", name)
			}
		}
	}
	for code, err := range failures(t) {
		example := examples[code]
		if example == nil {
			t.Errorf("the contract has no example of %s", code)
			continue
		}
		text, _ := json.Marshal(problemOf(fmt.Errorf("doing something: %w", err), unmatched))
		var got any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if want := example.Value.Value; !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", code, got, want)
		}
	}
	if told != len(failures(t)) {
		t.Errorf("the contract has %d examples of problems, want %d", told, len(failures(t)))
	}
}

// What the store has sorted stays as it is, whatever it was that the store met.
func TestWhatTheStoreSortedDecides(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
	}{
		{fmt.Errorf("%w: %w", store.ErrUnavailable, context.DeadlineExceeded), "unavailable"},
		{fmt.Errorf("%w: %w", store.ErrUnavailable, context.Canceled), "unavailable"},
		{fmt.Errorf("%w: %w", store.ErrUnknown, context.DeadlineExceeded), "outcome_unknown"},
		{fmt.Errorf("%w: %w", store.ErrUnknown, store.ErrUnavailable), "outcome_unknown"},
		{fmt.Errorf("%w: %w", store.ErrOverloaded, context.DeadlineExceeded), "overloaded"},
		{fmt.Errorf("%w: %w", store.ErrNoLock, context.DeadlineExceeded), "lock_not_found"},
		{fmt.Errorf("unsorted: %w", context.DeadlineExceeded), "outcome_unknown"},
		{fmt.Errorf("unsorted: %w", context.Canceled), "outcome_unknown"},
	} {
		if got := failureOf(c.err).code; got != c.code {
			t.Errorf("%v: got %s, want %s", c.err, got, c.code)
		}
	}
}

func TestRefusedValuesAreToldWhereTheyWere(t *testing.T) {
	refuse := func(field string) error { return &store.InputError{Field: field, Reason: "must be otherwise"} }
	fake := &fakeStore{}
	ts := serve(t, fake, Config{})
	for field, want := range map[string]api.InputFault{
		"Name":     {Pointer: pointerTo("/name")},
		"TTL":      {Pointer: pointerTo("/ttl_seconds")},
		"Holder":   {Pointer: pointerTo("/holder")},
		"Metadata": {Pointer: pointerTo("/metadata")},
		"Key":      {Parameter: "Idempotency-Key"},
	} {
		fake.claim = func(context.Context, store.Claim) (store.Lock, error) { return store.Lock{}, refuse(field) }
		want.Detail = "must be otherwise"
		got := do(t, ts, "POST", "/locks", `{"name":"a"}`).problem(t)
		if got.Code != "invalid_request" || !reflect.DeepEqual(got.Errors, []api.InputFault{want}) {
			t.Errorf("%s: got %+v", field, got)
		}
	}
	for _, c := range []struct {
		err       error
		parameter string
	}{{refuse("Name"), "name"}, {refuse("Prefix"), "prefix"}, {refuse("Limit"), "limit"}, {store.ErrBadCursor, "cursor"}} {
		fake.list = func(context.Context, store.Filter) (store.Page, error) { return store.Page{}, c.err }
		got := do(t, ts, "GET", "/locks", "").problem(t)
		if got.Code != "invalid_request" || len(got.Errors) != 1 || got.Errors[0].Parameter != c.parameter {
			t.Errorf("%v: got %+v", c.err, got)
		}
	}
}

func pointerTo(s string) *string { return &s }

// Every way out of the server leads to the same kind of document, with nothing of the inside in it.
func TestEveryWayOutIsAProblem(t *testing.T) {
	inside := errors.New("rpc error: etcd at 127.0.0.1:2379 in store.go:1")
	fake := &fakeStore{
		claim: func(_ context.Context, c store.Claim) (store.Lock, error) {
			if c.Name == "panic" {
				panic("goroutine of etcd at 127.0.0.1:2379")
			}
			return store.Lock{}, inside
		},
		look:    func(context.Context, string) (store.Lock, error) { return store.Lock{}, store.ErrNoLock },
		release: func(context.Context, string) error { return fmt.Errorf("%w: %w", store.ErrUnavailable, inside) },
		follow: func(context.Context, string, time.Time, func(store.Lock) error) error {
			return fmt.Errorf("%w: %w", store.ErrOverloaded, inside)
		},
	}
	ts := serve(t, fake, Config{})
	for name, c := range map[string]struct {
		method, path, body string
		status             int
	}{
		"no route":            {"GET", "/nowhere", "", 404},
		"no method":           {"PUT", "/locks", "", 405},
		"unreadable body":     {"POST", "/locks", "{", 400},
		"query parameter":     {"GET", "/locks?limit=x", "", 400},
		"validator":           {"POST", "/locks", `{"name":""}`, 400},
		"store error":         {"GET", "/locks/x", "", 404},
		"stream before start": {"GET", "/locks/x/events", "", 503},
		"wrapped store error": {"DELETE", "/locks/x", "", 503},
		"unknown error":       {"POST", "/locks", `{"name":"a"}`, 500},
		"panic":               {"POST", "/locks", `{"name":"panic"}`, 500},
	} {
		t.Run(name, func(t *testing.T) {
			got := do(t, ts, c.method, c.path, c.body)
			got.problem(t)
			if got.status != c.status {
				t.Errorf("got %d, want %d: %s", got.status, c.status, got.body)
			}
			for _, word := range []string{"etcd", "rpc error", "127.0.0.1", "goroutine", ".go"} {
				if strings.Contains(got.body, word) {
					t.Errorf("the problem tells of the inside: %s", got.body)
				}
			}
		})
	}
}

// What the guard lets pass and the generated code still cannot read has a way out too.
func TestGeneratedErrorsAreProblems(t *testing.T) {
	s, err := New(&fakeStore{t: t}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err       error
		parameter string
	}{
		{&api.InvalidParamFormatError{ParamName: "limit", Err: io.EOF}, "limit"},
		{&api.TooManyValuesForParamError{ParamName: "Last-Event-ID", Count: 2}, "Last-Event-ID"},
		{io.ErrUnexpectedEOF, ""},
	} {
		ts := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ex := s.begin(w, r)
			s.failUnread(ex, r.WithContext(withExchange(r.Context(), ex)), c.err)
		}), s.log)
		got := do(t, ts, "GET", "/", "").problem(t)
		if got.Code != "invalid_request" || len(got.Errors) != 1 || got.Errors[0].Parameter != c.parameter {
			t.Errorf("%v: got %+v", c.err, got)
		}
	}
}

func TestRetryAfterIsWholeSecondsAndVaries(t *testing.T) {
	fake := &fakeStore{}
	ts := serve(t, fake, Config{OverloadPause: time.Millisecond})
	for _, err := range []error{
		&store.HeldError{}, &store.HeldError{QueueLength: 1000}, store.ErrTooManyWaiters, store.ErrOverloaded,
		store.ErrUnavailable, store.ErrUnknown, store.ErrDraining, store.ErrPlaceLost,
	} {
		fake.claim = func(context.Context, store.Claim) (store.Lock, error) { return store.Lock{}, err }
		seen := map[int]bool{}
		for range 50 {
			seconds, bad := strconv.Atoi(do(t, ts, "POST", "/locks", `{"name":"a"}`).header.Get("Retry-After"))
			if bad != nil || seconds < 1 || seconds > 12 {
				t.Fatalf("%v: got %d, %v", err, seconds, bad)
			}
			seen[seconds] = true
		}
		if len(seen) < 2 {
			t.Errorf("%v: all are told to come back together", err)
		}
	}
	fake.claim = func(context.Context, store.Claim) (store.Lock, error) { return store.Lock{}, store.ErrKeyReused }
	if got := do(t, ts, "POST", "/locks", `{"name":"a"}`).header.Values("Retry-After"); got != nil {
		t.Errorf("a 422 says Retry-After: %v", got)
	}
}

// Those that come back at once would take the time of all others. Whoever leaves meanwhile is not waited for.
func TestAnAnswerToARequestTooManyIsHeldBack(t *testing.T) {
	fake := &fakeStore{claim: func(context.Context, store.Claim) (store.Lock, error) { return store.Lock{}, store.ErrOverloaded }}
	const pause = 300 * time.Millisecond
	ts := serve(t, fake, Config{OverloadPause: pause})
	began := time.Now()
	if got := do(t, ts, "POST", "/locks", `{"name":"a"}`); got.problem(t).Code != "overloaded" || time.Since(began) < pause {
		t.Errorf("after %v it answers %d %s", time.Since(began), got.status, got.body)
	}

	s, err := New(fake, Config{OverloadPause: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s.holdBack(gone) // and not for an hour
}

func TestAPanicInTheMiddleOfAnAnswerCutsTheConnection(t *testing.T) {
	ts := serve(t, &fakeStore{
		follow: func(_ context.Context, _ string, _ time.Time, tell func(store.Lock) error) error {
			if err := tell(store.Lock{ID: "x", Name: "a"}); err != nil {
				return err
			}
			panic("in the middle")
		},
	}, Config{})
	res, err := ts.Client().Get(ts.URL + "/locks/x/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("the answer ended as if it were whole: %s", text)
	}
}
