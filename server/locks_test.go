package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store"
)

const (
	someID  = "k7Qm2vXc9TtZ0aYdW3uN5hAAAAAAAAAqYmlsbGluZy9pbnZvaWNlcw"
	someKey = "0123456789 ,;%41\"'=abcdef"
)

func TestClaimsReachTheStoreAsTheyWereMeant(t *testing.T) {
	var got store.Claim
	began := time.Now()
	ts := serve(t, &fakeStore{claim: func(_ context.Context, c store.Claim) (store.Lock, error) {
		got = c
		return store.Lock{ID: someID, Name: c.Name, State: store.Held, Token: 1, TTL: time.Minute}, nil
	}}, Config{})
	longest := strings.Repeat("é", 127) + "a"
	for body, want := range map[string]store.Claim{
		`{"name":"a"}`: {Name: "a", TTL: 30 * time.Second},
		`{"name":"a","ttl_seconds":5,"wait_seconds":55,"queue":true,"holder":"h","metadata":{"k":"v"}}`: {
			Name: "a", TTL: 5 * time.Second, Wait: 55 * time.Second, Queue: true, Holder: "h",
			Metadata: map[string]string{"k": "v"},
		},
		`{"name":"a/b","lease_id":"l","wait_seconds":0,"queue":false}`: {Name: "a/b", LeaseID: "l"},
		`{"name":"\ud83d\ude00"}`:                                      {Name: "😀", TTL: 30 * time.Second},
		`{"name":"` + longest + `"}`:                                   {Name: longest, TTL: 30 * time.Second},
		` {"name":" ","holder":"","metadata":{}}`:                      {Name: " ", TTL: 30 * time.Second, Metadata: map[string]string{}},
		`{"name":"a","holder":"line\nline"}`:                           {Name: "a", TTL: 30 * time.Second, Holder: "line\nline"},
	} {
		for _, key := range []string{"", someKey} {
			want.Key = key
			if a := do(t, ts, "POST", "/locks", body, "Idempotency-Key", key); a.status != 201 {
				t.Errorf("%s: got %d %s", body, a.status, a.body)
				continue
			}
			if got.Arrived.Before(began) || got.Arrived.After(time.Now()) {
				t.Errorf("arrived at %v", got.Arrived)
			}
			got.Arrived = time.Time{}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\n got %+v\nwant %+v", body, got, want)
			}
		}
	}
}

func TestClaimsAreAnswered(t *testing.T) {
	var lock store.Lock
	ts := serve(t, &fakeStore{claim: func(context.Context, store.Claim) (store.Lock, error) { return lock, nil }}, Config{})

	lock = store.Lock{ID: someID, LeaseID: someID, Name: "a", State: store.Held, Token: 1<<53 - 1, TTL: 5 * time.Second, Replayed: true}
	got := do(t, ts, "POST", "/locks", `{"name":"a"}`)
	held := decode[api.Lock](t, got, 201)
	want := api.Lock{ID: someID, LeaseID: someID, Name: "a", State: "held", FencingToken: 1<<53 - 1, TTLSeconds: 5, RenewAfterSeconds: 1}
	if !reflect.DeepEqual(held, want) {
		t.Errorf("got %+v, want %+v", held, want)
	}
	if !strings.Contains(got.body, `"position":0`) || !strings.Contains(got.body, `"fencing_token":9007199254740991,`) {
		t.Errorf("got %s", got.body)
	}
	for header, want := range map[string]string{
		"Location": "/locks/" + someID, "Fencing-Token": "9007199254740991", "Idempotent-Replayed": "true", "Retry-After": "",
		"Cache-Control": "",
	} {
		if got.header.Get(header) != want {
			t.Errorf("201: %s is %q, want %q", header, got.header.Get(header), want)
		}
	}

	lock = store.Lock{ID: someID, LeaseID: someID, Name: "a", Position: 3, TTL: time.Minute}
	got = do(t, ts, "POST", "/locks", `{"name":"a","queue":true}`)
	queued := decode[api.Lock](t, got, 202)
	if queued.State != "queued" || queued.Position != 3 || strings.Contains(got.body, "fencing_token") {
		t.Errorf("got %s", got.body)
	}
	for header, want := range map[string]bool{"Location": true, "Retry-After": true, "Fencing-Token": false, "Idempotent-Replayed": false} {
		if (got.header.Get(header) != "") != want {
			t.Errorf("202: %s is %q", header, got.header.Get(header))
		}
	}
}

// A client that left before its answer could be written: the store is told, once, whose answer that was.
func TestAClaimThatCannotBeToldIsGivenBack(t *testing.T) {
	for _, state := range []store.State{store.Held, store.Queued} {
		claiming, untold := make(chan struct{}), make(chan store.Lock, 2)
		lock := store.Lock{ID: someID, Name: "a", State: state, Token: 7}
		ts := serve(t, &fakeStore{
			claim: func(ctx context.Context, _ store.Claim) (store.Lock, error) {
				close(claiming)
				<-ctx.Done() // the grant comes just as the client leaves
				return lock, nil
			},
			untold: func(l store.Lock) { untold <- l },
		}, Config{})
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", ts.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "POST /locks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n"+`{"name":"a"}`)
		<-claiming
		conn.Close()
		select {
		case got := <-untold:
			if !reflect.DeepEqual(got, lock) {
				t.Errorf("got %+v", got)
			}
		case <-time.After(patience):
			t.Fatal("the store was not told")
		}
		ts.Close()
		if len(untold) > 0 {
			t.Error("the store was told twice")
		}
	}
}

func TestAClaimThatWasToldIsNotGivenBack(t *testing.T) {
	ts := serve(t, &fakeStore{claim: func(context.Context, store.Claim) (store.Lock, error) {
		return store.Lock{ID: someID, Name: "a", State: store.Held, Token: 7, TTL: time.Minute}, nil
	}}, Config{})
	if got := do(t, ts, "POST", "/locks", `{"name":"a"}`); got.status != 201 {
		t.Errorf("got %d", got.status)
	}
	ts.Close() // waits for the handlers; the fake fails the test on Untold
}

func TestHeldByAnother(t *testing.T) {
	held := &store.HeldError{QueueLength: 0}
	ts := serve(t, &fakeStore{claim: func(context.Context, store.Claim) (store.Lock, error) { return store.Lock{}, held }}, Config{})
	got := do(t, ts, "POST", "/locks", `{"name":"a"}`)
	if p := got.problem(t); p.Code != "lock_held" || p.Holder != nil || !strings.Contains(got.body, `"queue_length":0`) {
		t.Errorf("got %s", got.body)
	}
	held.Holder = &store.Lock{ID: "not to be told", LeaseID: "not to be told", Token: 7, Holder: "h", Metadata: map[string]string{"k": "v"}}
	got = do(t, ts, "POST", "/locks", `{"name":"a"}`)
	want := &api.LockHolder{FencingToken: 7, Holder: "h", Metadata: map[string]string{"k": "v"}}
	if p := got.problem(t); !reflect.DeepEqual(p.Holder, want) || strings.Contains(got.body, "not to be told") {
		t.Errorf("got %s", got.body)
	}
}

func TestLookingIsNotAsking(t *testing.T) {
	var asked string
	var arrivedAt time.Time
	ts := serve(t, &fakeStore{
		look: func(_ context.Context, id string) (store.Lock, error) {
			asked = "look " + id
			return store.Lock{ID: id, Name: "a", State: store.Held, Token: 7, TTL: time.Minute}, nil
		},
		ask: func(_ context.Context, id string, wait time.Duration, arrived time.Time) (store.Lock, error) {
			asked, arrivedAt = fmt.Sprint("ask ", id, " ", wait), arrived
			return store.Lock{ID: id, Name: "a", Position: 2, TTL: time.Minute}, nil
		},
	}, Config{})
	for path, want := range map[string]string{
		"/locks/x": "look x", "/locks/x?wait_seconds=0": "ask x 0s", "/locks/x?wait_seconds=55": "ask x 55s", "/locks/" + someID: "look " + someID,
	} {
		got := do(t, ts, "GET", path, "")
		lock := decode[api.Lock](t, got, 200)
		if asked != want || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: asked %q, want %q; %v", path, asked, want, got.header)
		}
		if token := got.header.Get("Fencing-Token"); (token == "7") != (lock.State == "held") || (token == "") != (lock.State == "queued") {
			t.Errorf("%s: %s with Fencing-Token %q", path, lock.State, token)
		}
	}
	if time.Since(arrivedAt) > patience {
		t.Errorf("arrived at %v", arrivedAt)
	}
}

func TestWaitingAsksEnd(t *testing.T) {
	var err error
	ts := serve(t, &fakeStore{ask: func(context.Context, string, time.Duration, time.Time) (store.Lock, error) {
		return store.Lock{}, err
	}}, Config{})
	for e, code := range map[error]string{
		store.ErrNoLock: "lock_not_found", store.ErrPlaceLost: "place_lost", store.ErrNoLease: "lease_not_found",
		store.ErrUnknown: "outcome_unknown", context.Canceled: "outcome_unknown",
	} {
		err = e
		got := do(t, ts, "GET", "/locks/x?wait_seconds=1", "")
		if got.problem(t).Code != code || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v: got %s", e, got.body)
		}
	}
}

func TestReleases(t *testing.T) {
	var err error
	ts := serve(t, &fakeStore{release: func(_ context.Context, id string) error {
		if id != someID {
			t.Errorf("released %q", id)
		}
		return err
	}}, Config{})
	if got := do(t, ts, "DELETE", "/locks/"+someID, ""); got.status != 204 || got.body != "" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	err = store.ErrNoLock
	if got := do(t, ts, "DELETE", "/locks/"+someID, ""); got.problem(t).Code != "lock_not_found" || strings.Contains(got.body, someID) {
		t.Errorf("got %s", got.body)
	}
}

func TestListsAreFiltered(t *testing.T) {
	var got store.Filter
	ts := serve(t, &fakeStore{list: func(_ context.Context, f store.Filter) (store.Page, error) {
		got = f
		return store.Page{Locks: []store.Lock{{ID: "x", Name: "a", TTL: time.Minute}}, Next: "more"}, nil
	}}, Config{})
	held, queued := store.Held, store.Queued
	for query, want := range map[string]store.Filter{
		"":                                       {Limit: 100},
		"?name=a%2Fb":                            {Name: "a/b", Limit: 100},
		"?name=a,b+c%25":                         {Name: "a,b c%", Limit: 100},
		"?prefix=a&state=held&limit=5&cursor=cc": {Prefix: "a", State: &held, Limit: 5, Cursor: "cc"},
		"?state=queued&limit=1000":               {State: &queued, Limit: 1000},
	} {
		list := decode[api.LockList](t, do(t, ts, "GET", "/locks"+query, ""), 200)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", query, got, want)
		}
		if len(list.Locks) != 1 || list.NextCursor != "more" {
			t.Errorf("%s: got %+v", query, list)
		}
	}
}

func TestTheLastPageHasNoCursor(t *testing.T) {
	ts := serve(t, &fakeStore{list: func(context.Context, store.Filter) (store.Page, error) { return store.Page{}, nil }}, Config{})
	if got := do(t, ts, "GET", "/locks", ""); strings.TrimSpace(got.body) != `{"locks":[]}` {
		t.Errorf("got %s", got.body)
	}
}

func TestTheGeneratedClientUnderstandsTheServer(t *testing.T) {
	ts := serve(t, &fakeStore{claim: func(_ context.Context, c store.Claim) (store.Lock, error) {
		return store.Lock{ID: someID, LeaseID: someID, Name: c.Name, State: store.Held, Token: 7, TTL: c.TTL, Metadata: c.Metadata}, nil
	}}, Config{})
	client, err := api.NewClientWithResponses(ts.URL)
	if err != nil {
		t.Fatal(err)
	}
	key := someKey
	res, err := client.CreateLockWithResponse(t.Context(), &api.CreateLockParams{IdempotencyKey: &key},
		api.LockRequest{Name: "a", Metadata: api.Metadata{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	if res.JSON201 == nil || res.JSON201.FencingToken != 7 || res.JSON201.TTLSeconds != 30 || res.JSON201.Metadata["k"] != "v" {
		t.Errorf("got %d %s", res.StatusCode(), res.Body)
	}
	contract, err := client.Openapi(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer contract.Body.Close()
	text, err := io.ReadAll(contract.Body)
	if err != nil || string(text) != string(api.Contract) || contract.Header.Get("Content-Type") != "application/yaml" {
		t.Errorf("the contract served is another: %d bytes, %v", len(text), err)
	}
}
