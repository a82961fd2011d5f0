package server

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/server/access"
	"github.com/latchkey/latchkey/store"
)

// gateOf is a gate that knows principals by tokens of theirs. Each is a name and grants in the auth file's words.
func gateOf(t *testing.T, principals ...string) (*access.Gate, []string) {
	t.Helper()
	var text strings.Builder
	var tokens []string
	text.WriteString("principals:\n")
	for i := 0; i < len(principals); i += 2 {
		token, kept := access.NewToken()
		tokens = append(tokens, token)
		fmt.Fprintf(&text, "- {name: %q, tokens: [%q], grants: [%s]}\n", principals[i], kept, principals[i+1])
	}
	file := filepath.Join(t.TempDir(), "auth.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	gate, err := access.Open(access.Config{File: file}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return gate, tokens
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

func principalWith(t *testing.T, name, grants string) (*access.Principal, string) {
	t.Helper()
	gate, tokens := gateOf(t, name, grants)
	who, err := gate.Who(t.Context(), http.Header{"Authorization": {"Bearer " + tokens[0]}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return who, tokens[0]
}

const (
	lockA  = "{prefix: team-a, rights: [lock]}"
	readA  = "{prefix: team-a, rights: [read]}"
	adminA = "{prefix: team-a, rights: [admin]}"
)

// TestWhoMayDoWhat asks for everything, as each kind of principal and as nobody.
func TestWhoMayDoWhat(t *testing.T) {
	gate, tokens := gateOf(t, "locker", lockA, "reader", readA, "admin", adminA, "all", "{prefix: '*', rights: [lock, read, admin]}")
	lock := store.Lock{ID: "id", LeaseID: "id", Name: "team-a/x", State: store.Held, Token: 7, TTL: 30 * time.Second, Owner: "someone"}
	fake := &fakeStore{
		claim: func(context.Context, store.Claim) (store.Lock, error) { return lock, nil },
		list: func(context.Context, store.Filter) (store.Page, error) {
			return store.Page{Locks: []store.Lock{lock}}, nil
		},
		newLease: func(context.Context, store.Lease, time.Time) (store.Lease, error) {
			return store.Lease{ID: "id", TTL: time.Minute}, nil
		},
		breaks: func(_ context.Context, _ string, _ store.Breaking, may func(string) bool) (store.Lock, error) {
			if !may("team-a/x") {
				return store.Lock{}, store.ErrNoLock
			}
			return lock, nil
		},
	}
	ts := serve(t, fake, Config{Gate: gate})
	claim := func(name string) [3]string { return [3]string{"POST", "/locks", `{"name":"` + name + `"}`} }
	for request, want := range map[[3]string]string{
		claim("team-a"):                            "201 403 403 201",
		claim("team-a/x"):                          "201 403 403 201",
		claim("team-a/../team-b"):                  "201 403 403 201", // a name below team-a, and no other
		claim("team-ab/x"):                         "403 403 403 201",
		claim("team-"):                             "403 403 403 201",
		claim("TEAM-A/x"):                          "403 403 403 201",
		claim("team-b"):                            "403 403 403 201",
		{"POST", "/leases", "{}"}:                  "201 403 403 201",
		{"GET", "/locks", ""}:                      "403 200 200 200",
		{"GET", "/locks?prefix=team-a%2F", ""}:     "403 200 200 200",
		{"GET", "/locks?prefix=team", ""}:          "403 200 200 200",
		{"GET", "/locks?prefix=team-b", ""}:        "403 403 403 200",
		{"GET", "/locks?name=team-a", ""}:          "403 200 200 200",
		{"GET", "/locks?name=team-ab", ""}:         "403 403 403 200",
		{"DELETE", "/locks/id?reason=why", ""}:     "403 403 204 204",
		{"GET", "/metrics", ""}:                    "403 403 403 200",
		{"GET", "/healthz", ""}:                    "200 200 200 200",
		{"GET", "/readyz", ""}:                     "200 200 200 200",
		{"GET", "/openapi.yaml", ""}:               "200 200 200 200",
		{"GET", "/debug/pprof/", ""}:               "404 404 404 404",
		{"POST", "/locks", `{"name":"team-b",}`}:   "400 400 400 400", // what cannot be read has no name
		{"PATCH", "/locks", ""}:                    "405 405 405 405",
		{"DELETE", "/locks/id?reason=a%0Ab", ""}:   "400 400 400 400",
		{"DELETE", "/locks/id?reason=", ""}:        "400 400 400 400",
		{"DELETE", "/locks/id?reason=a&x=y", ""}:   "400 400 400 400",
		{"GET", "/locks?name=team-a/x&name=b", ""}: "400 400 400 400",
	} {
		var got []string
		for _, token := range tokens {
			got = append(got, fmt.Sprint(do(t, ts, request[0], request[1], request[2], bearer(token)...).status))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v: got %s, want %s", request, strings.Join(got, " "), want)
		}
		status := do(t, ts, request[0], request[1], request[2]).status
		open := strings.HasSuffix(request[1], "z") || strings.HasSuffix(request[1], "yaml")
		switch {
		case open && status != 200, status < 400 && !open, strings.HasPrefix(want, "403") && status != 401:
			t.Errorf("%v without credentials: got %d", request, status)
		}
	}
}

// TestRefusedCredentialsAreAllToldTheSame: forged, foreign, twice, of another scheme, in the query.
func TestRefusedCredentialsAreAllToldTheSame(t *testing.T) {
	gate, tokens := gateOf(t, "locker", lockA)
	ts := serve(t, &fakeStore{}, Config{Gate: gate})
	other, _ := access.NewToken()
	first := ""
	for _, header := range []string{
		"Bearer " + other, "Bearer", "Bearer ", "Basic " + tokens[0], tokens[0], "Bearer " + tokens[0] + "x", "Bearer " + tokens[0][:40],
		"Bearer " + tokens[0] + "|Bearer " + tokens[0], "Bearer " + strings.Repeat("x", 9000), "Bearer a.b.c", "Bearer eyJhbGciOiJub25lIn0.e30.",
	} {
		got := do(t, ts, "POST", "/locks", `{"name":"team-a"}`, "Authorization", header)
		if got.status != 401 || got.problem(t).Code != "unauthorized" || got.header.Get("WWW-Authenticate") != `Bearer realm="latchkey"` {
			t.Errorf("%.20q: got %d %s, WWW-Authenticate %q", header, got.status, got.body, got.header.Get("WWW-Authenticate"))
		}
		if first == "" {
			first = got.body
		}
		if got.body != first {
			t.Errorf("%.20q: got %s, another was told %s", header, got.body, first)
		}
		if strings.Contains(got.body, tokens[0][:40]) {
			t.Errorf("the token is told: %s", got.body)
		}
	}
	if got := do(t, ts, "GET", "/locks?access_token="+tokens[0], ""); got.status != 401 {
		t.Errorf("a token in the query: got %d", got.status)
	}
}

// TestListsShowIDsOnlyToOwnersAndAdministrators.
func TestListsShowIDsOnlyToOwnersAndAdministrators(t *testing.T) {
	gate, tokens := gateOf(t, "reader", readA, "admin", adminA, "locker", lockA+", "+readA)
	var within []store.Names
	fake := &fakeStore{list: func(_ context.Context, f store.Filter) (store.Page, error) {
		within = f.Within
		return store.Page{Locks: []store.Lock{
			{ID: "secret", LeaseID: "secret", Name: "team-a", State: store.Held, Token: 7, TTL: time.Minute, Owner: "other", Holder: "h", Metadata: map[string]string{"k": "v"}},
			{ID: "mine", LeaseID: "mine", Name: "team-a/x", TTL: time.Minute, Owner: "locker"},
		}}, nil
	}}
	ts := serve(t, fake, Config{Gate: gate})
	for i, want := range []string{" ", "secret mine", " mine"} {
		list := decode[api.LockList](t, do(t, ts, "GET", "/locks", "", bearer(tokens[i])...), 200)
		if got := list.Locks[0].ID + " " + list.Locks[1].ID; got != want || list.Locks[0].LeaseID != list.Locks[0].ID {
			t.Errorf("principal %d: ids %q, want %q", i, got, want)
		}
		if l := list.Locks[0]; l.Principal != "other" || l.Holder != "h" || l.Metadata["k"] != "v" || l.FencingToken != 7 {
			t.Errorf("principal %d is not shown who holds: %+v", i, l)
		}
		if len(within) != 2 || within[0].Exact != "team-a" || within[1].Begins != "team-a/" {
			t.Errorf("principal %d: the list is of %+v", i, within)
		}
	}
	open := serve(t, fake, Config{})
	list := decode[api.LockList](t, do(t, open, "GET", "/locks", ""), 200)
	if list.Locks[0].ID != "secret" || within != nil {
		t.Errorf("without authentication: %+v of %+v", list.Locks, within)
	}
}

// TestHolderIsShownToReadersOnly, by a refused claim.
func TestHolderIsShownToReadersOnly(t *testing.T) {
	gate, tokens := gateOf(t, "locker", lockA, "both", "{prefix: team-a, rights: [lock, read]}")
	held := &store.HeldError{QueueLength: 3, Holder: &store.Lock{Token: 7, Holder: "h", Owner: "other"}}
	ts := serve(t, &fakeStore{claim: func(context.Context, store.Claim) (store.Lock, error) {
		return store.Lock{}, fmt.Errorf("claim: %w", held)
	}}, Config{Gate: gate})
	for i, shown := range []bool{false, true} {
		p := do(t, ts, "POST", "/locks", `{"name":"team-a"}`, bearer(tokens[i])...).problem(t)
		if p.Code != "lock_held" || *p.QueueLength != 3 || (p.Holder != nil) != shown {
			t.Errorf("principal %d: got %+v, holder %+v", i, p, p.Holder)
		}
		if shown && (p.Holder.Principal != "other" || p.Holder.Holder != "h") {
			t.Errorf("the holder: %+v", p.Holder)
		}
	}
}

type hardGate struct{ err error }

// TestIssuerOutOfReachIsNotARefusal: the client may well be known, so it is told to come back.
func TestIssuerOutOfReachIsNotARefusal(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{Gate: hardGate{access.ErrCannotTell}})
	got := do(t, ts, "POST", "/locks", `{"name":"a"}`, bearer("x")...)
	if got.status != 503 || got.problem(t).Code != "unavailable" || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := do(t, ts, "GET", "/healthz", ""); got.status != 200 {
		t.Errorf("healthz: got %d", got.status)
	}
	ts = serve(t, &fakeStore{}, Config{Gate: hardGate{errors.New("a fault")}})
	if got := do(t, ts, "POST", "/locks", `{"name":"a"}`, bearer("x")...); got.status != 500 {
		t.Errorf("a fault of the gate: got %d", got.status)
	}
}

func (g hardGate) Who(context.Context, http.Header, *x509.Certificate) (*access.Principal, error) {
	return nil, g.err
}

// TestRefusedRequestsLeaveTheirConnection: a small body is passed over, a large one is not waited for.
func TestRefusedRequestsLeaveTheirConnection(t *testing.T) {
	gate, _ := gateOf(t, "locker", lockA)
	ts := serve(t, &fakeStore{}, Config{Gate: gate})
	for size, closed := range map[int]bool{20: false, maxPassedOver: false, maxPassedOver + 1: true} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", ts.URL+"/locks", strings.NewReader(strings.Repeat("x", size)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := ts.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 401 || res.Close != closed {
			t.Errorf("%d bytes: got %d, connection closed: %v, want %v", size, res.StatusCode, res.Close, closed)
		}
	}
}

// changingGate has another answer for the same token when it is told to.
type changingGate struct {
	now atomic.Pointer[access.Principal]
}

func (g *changingGate) Who(context.Context, http.Header, *x509.Certificate) (*access.Principal, error) {
	if who := g.now.Load(); who != nil {
		return who, nil
	}
	return nil, access.ErrBadCredentials
}

// idFor is the id of a claim on a name, though of none that stands.
func idFor(name string) string {
	raw := append(make([]byte, 16), 0, 0, 0, 0, 0, 0, 0, 1)
	raw = append(append(raw, make([]byte, 16)...), name...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// TestARightThatIsTakenAwayEndsWithTheTTL: nothing is renewed, granted or followed by it any more; looking and letting go remain.
func TestARightThatIsTakenAwayEndsWithTheTTL(t *testing.T) {
	other, _ := principalWith(t, "one", "{prefix: team-b, rights: [lock]}")
	none, _ := principalWith(t, "one", "{prefix: team-a, rights: [read]}")
	gate := &changingGate{}
	lock := store.Lock{ID: "x", LeaseID: "x", Name: "team-a", TTL: time.Minute}
	ts := serve(t, &fakeStore{
		look:     func(context.Context, string) (store.Lock, error) { return lock, nil },
		getLease: func(context.Context, string) (store.Lease, error) { return store.Lease{ID: "x", TTL: time.Minute}, nil },
		release:  func(context.Context, string) error { return nil },
		endLease: func(context.Context, string) error { return nil },
		renew: func(context.Context, string, time.Time) (store.Lease, error) {
			return store.Lease{ID: "x", TTL: time.Minute}, nil
		},
	}, Config{Gate: gate})
	id := idFor("team-a")
	for _, c := range []struct {
		who          *access.Principal
		method, path string
		want         int
	}{
		{other, "PUT", "/leases/" + id, 403}, {other, "GET", "/locks/" + id + "?wait_seconds=0", 403},
		{other, "GET", "/locks/" + id + "/events", 403}, {other, "GET", "/leases/" + id + "/keepalive", 403},
		{other, "PUT", "/leases/9fJc0Zq3mE5rT8uXw2LkVg", 200}, // a lease that may be for other names
		{none, "PUT", "/leases/9fJc0Zq3mE5rT8uXw2LkVg", 403}, {none, "GET", "/leases/9fJc0Zq3mE5rT8uXw2LkVg/keepalive", 403},
		{other, "GET", "/locks/" + id, 200}, {other, "DELETE", "/locks/" + id, 204}, {other, "DELETE", "/leases/" + id, 204},
		{none, "GET", "/leases/" + id, 200},
	} {
		gate.now.Store(c.who)
		if got := do(t, ts, c.method, c.path, ""); got.status != c.want {
			t.Errorf("%s %.30s: got %d %s, want %d", c.method, c.path, got.status, got.body, c.want)
		}
	}
}

// TestAStreamEndsWithTheRightToIt, within a few looks.
func TestAStreamEndsWithTheRightToIt(t *testing.T) {
	may, _ := principalWith(t, "one", lockA)
	less, _ := principalWith(t, "one", "{prefix: team-b, rights: [lock]}")
	another, _ := principalWith(t, "two", lockA)
	for what, c := range map[string]struct {
		then *access.Principal
		code string
	}{"the right": {less, "forbidden"}, "the principal": {nil, "unauthorized"}, "who it is": {another, "unauthorized"}} {
		t.Run(what, func(t *testing.T) {
			gate := &changingGate{}
			gate.now.Store(may)
			begun := make(chan struct{})
			ts := serve(t, &fakeStore{follow: func(ctx context.Context, _ string, _ time.Time, tell func(store.Lock) error) error {
				if err := tell(store.Lock{ID: "x", Name: "team-a", TTL: time.Minute}); err != nil {
					return err
				}
				close(begun)
				<-ctx.Done()
				return context.Cause(ctx)
			}}, Config{Gate: gate, JudgeEvery: 5 * time.Millisecond})
			go func() {
				<-begun
				gate.now.Store(c.then)
			}()
			got := send(t, ts, "GET", "/locks/"+idFor("team-a")+"/events", "")
			if got.status != 200 || !strings.Contains(got.body, "event: ended\n") || !strings.Contains(got.body, c.code) {
				t.Errorf("got %d %s", got.status, got.body)
			}
		})
	}
}
