package access

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// record is a log that a test reads while others write it.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(line)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// gateOf is a gate on files of a test.
type gateOf struct {
	*Gate
	log      *record
	registry *prometheus.Registry
	dir      string
}

const authName = "auth.yaml"

// write puts a file beside the auth file.
func (g *gateOf) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tryOpen opens the auth file, with other files of it by name and text.
func tryOpen(t testing.TB, cfg Config, auth string, others ...string) (*gateOf, error) {
	t.Helper()
	g := &gateOf{log: &record{}, registry: prometheus.NewRegistry(), dir: t.TempDir()}
	g.write(t, authName, auth)
	for i := 0; i < len(others); i += 2 {
		g.write(t, others[i], others[i+1])
	}
	cfg.File = filepath.Join(g.dir, authName)
	log := slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	g.Gate, err = Open(cfg, log, g.registry)
	return g, err
}

func open(t testing.TB, auth string, others ...string) *gateOf {
	t.Helper()
	g, err := tryOpen(t, Config{}, auth, others...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// ask sends the credentials by themselves.
func (g *gateOf) ask(authorization ...string) (*Principal, error) {
	header := http.Header{}
	for _, value := range authorization {
		header.Add("Authorization", value)
	}
	return g.Who(context.Background(), header, nil)
}

// wantName asks for the principal of one Authorization header.
func (g *gateOf) wantName(t testing.TB, authorization, name string) {
	t.Helper()
	if p, err := g.ask(authorization); err != nil || p.Name != name {
		t.Errorf("got %+v, %v, want %s", p, err, name)
	}
}

// wantError asks for the same error, of which nothing but its text may be told.
func wantError(t testing.TB, what string, got *Principal, err, want error) {
	t.Helper()
	if got != nil || err != want {
		t.Errorf("%s: got %+v, %v, want %v", what, got, err, want)
	}
}

// ciFile is an auth file of one principal with these tokens.
func ciFile(kept ...string) string {
	return `principals: [{name: ci, tokens: ["` + strings.Join(kept, `", "`) + `"], grants: [{prefix: ci, rights: [lock, read]}]}]`
}

func TestTokenNamesItsPrincipal(t *testing.T) {
	token, kept := NewToken()
	second, keptToo := NewToken()
	g := open(t, ciFile(kept, keptToo))
	g.wantName(t, "Bearer "+token, "ci")
	g.wantName(t, "Bearer "+second, "ci")
	p, err := g.ask("Bearer " + token)
	if err != nil || !p.May(Lock, "ci/nightly") || p.May(Admin, "ci/nightly") || p.May(Lock, "cite") {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestAuthorizationHeadersAreReadStrictly(t *testing.T) {
	token, kept := NewToken()
	stranger, _ := NewToken()
	g := open(t, ciFile(kept))
	for _, good := range []string{"Bearer " + token, "bearer " + token, "BEARER  " + token} {
		g.wantName(t, good, "ci")
	}
	for name, bad := range map[string][]string{
		"unknown":              {"Bearer " + stranger},
		"empty":                {""},
		"no credentials":       {"Bearer"},
		"only a space":         {"Bearer "},
		"no scheme":            {token},
		"another scheme":       {"Basic " + token},
		"a longer scheme":      {"Bearers " + token},
		"no space":             {"Bearer" + token},
		"a tab":                {"Bearer\t" + token},
		"a space at the end":   {"Bearer " + token + " "},
		"a NUL at the end":     {"Bearer " + token + "\x00"},
		"two in one":           {"Bearer " + token + ", Bearer " + token},
		"two headers":          {"Bearer " + token, "Bearer " + token},
		"two, the second bad":  {"Bearer " + token, "Bearer " + stranger},
		"two, the first empty": {"", "Bearer " + token},
		"in lower case":        {"Bearer " + strings.ToLower(token)},
		"cut":                  {"Bearer " + token[:len(token)-1]},
		"the hash itself":      {"Bearer " + kept},
		"padded":               {"Bearer " + token + "="},
		"over-long":            {"Bearer " + strings.Repeat(" ", MaxAuthorization) + token},
		"long":                 {"Bearer " + strings.Repeat("x", MaxAuthorization-len("Bearer "))},
		"a JWT":                {"Bearer e30.e30.e30"},
	} {
		p, err := g.ask(bad...)
		wantError(t, name, p, err, ErrBadCredentials)
	}
	p, err := g.ask()
	wantError(t, "none", p, err, ErrNoCredentials)
	for _, secret := range []string{token, stranger, token[len(tokenMark):], kept} {
		if strings.Contains(g.log.String(), secret) {
			t.Error("the log has a secret")
		}
	}
	if !strings.Contains(g.log.String(), "level=DEBUG") {
		t.Error("the log has no causes")
	}
}

// What HTTP lets stand around a value is no part of it.
func TestSpaceAroundAHeaderIsForgivenByHTTP(t *testing.T) {
	token, kept := NewToken()
	g := open(t, ciFile(kept))
	names := make(chan string, 1)
	ts := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p, err := g.Who(r.Context(), r.Header, nil)
		if err != nil {
			p = &Principal{Name: err.Error()}
		}
		names <- p.Name
	}))
	defer ts.Close()
	for _, value := range []string{"Bearer " + token, "  bearer " + token + " \t "} {
		req, err := http.NewRequest("GET", ts.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header["authorization"] = []string{value}
		resp, err := ts.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := <-names; got != "ci" {
			t.Errorf("%q: got %s", value, got)
		}
	}
}

// A hash that someone made of a password is not a way in: only tokens of ours are looked for.
func TestOnlyOurTokensAreLookedFor(t *testing.T) {
	sum := sumOf([]byte("hunter2"), nil)
	g := open(t, ciFile(digestMark+hex.EncodeToString(sum[:])))
	p, err := g.ask("Bearer hunter2")
	wantError(t, "a password", p, err, ErrBadCredentials)
}

func TestNewTokensDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		token, kept := NewToken()
		if seen[token] || seen[kept] || !isToken(token) {
			t.Fatalf("got %s", token)
		}
		if _, err := parseDigest(kept); err != nil {
			t.Fatal(err)
		}
		seen[token], seen[kept] = true, true
	}
}

func TestAnyoneMayDoEverything(t *testing.T) {
	p := Anyone()
	for _, name := range []string{"a", "", "a/../b", "*", "\x00"} {
		for _, right := range []Right{Lock, Read, Admin, Lock | Read | Admin} {
			if !p.May(right, name) {
				t.Errorf("not %v of %q", right, name)
			}
		}
	}
	if ranges := p.Ranges(Read); p.Name != "" || len(ranges) != 1 || ranges[0] != (Range{"", true}) {
		t.Errorf("got %+v", ranges)
	}
}

func TestARegistryHasTheMetricsOnce(t *testing.T) {
	_, kept := NewToken()
	g := open(t, ciFile(kept))
	if _, err := Open(Config{File: g.file}, g.Gate.log, g.registry); err == nil || errors.Is(err, ErrBadCredentials) {
		t.Errorf("a second gate on one registry: %v", err)
	}
}

func TestMetricsAreWellNamed(t *testing.T) {
	g := open(t, "principals: []")
	problems, err := testutil.GatherAndLint(g.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if got, err := testutil.GatherAndCount(g.registry); err != nil || got != 5 {
		t.Errorf("got %d series, %v", got, err)
	}
}

// FuzzAuthorization: nothing but the credentials themselves is let in.
func FuzzAuthorization(f *testing.F) {
	token, kept := NewToken()
	for _, seed := range []string{"", "Bearer", "Bearer ", "bearer x", "Bearer a.b.c", "Bearer e30.e30.", "Basic Og==", "Bearer " + kept,
		"Bearer eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIn0.", "Bearer eyJhbGciOiJFUzI1NiJ9.bnVsbA.AA"} {
		f.Add(seed)
	}
	g := open(f, ciFile(kept)+jwtFile, "keys.json", keySetOf(f, newSigner(f, "ec").jwk()))
	f.Fuzz(func(t *testing.T, value string) {
		p, err := g.ask(value)
		wantError(t, value, p, err, ErrBadCredentials)
		g.wantName(t, "Bearer "+token, "ci")
	})
}

func BenchmarkWho(b *testing.B) {
	token, kept := NewToken()
	ec := newSigner(b, "ec")
	text := "principals: [{name: ci, tokens: [" + kept + "], certificates: ['DNS:ci.example'], grants: [{prefix: ci, rights: lock}]}]" + jwtFile
	g := open(b, text, "keys.json", keySetOf(b, ec.jwk()))
	leaf := certificateOf(b, x509.Certificate{DNSNames: []string{"ci.example"}}, nil).Leaf
	for _, by := range []struct {
		name          string
		authorization []string
		peer          *x509.Certificate
		may           string
	}{
		{"token", []string{"Bearer " + token}, nil, "ci/nightly"},
		{"certificate", nil, leaf, "ci/nightly"},
		{"JWT", []string{"Bearer " + ec.sign(b, claimsWith(nil))}, nil, "team-red/nightly"},
	} {
		b.Run(by.name, func(b *testing.B) {
			header := http.Header{"Authorization": by.authorization}
			b.ReportAllocs()
			for b.Loop() {
				p, err := g.Who(b.Context(), header, by.peer)
				if err != nil || !p.May(Lock, by.may) {
					b.Fatal(err)
				}
			}
		})
	}
}
