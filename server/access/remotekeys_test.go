package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// keyServer is an issuer's, which says what it is told to.
type keyServer struct {
	*httptest.Server
	asked  atomic.Int32
	answer atomic.Pointer[http.HandlerFunc]
}

func newKeyServer(t *testing.T, text string) *keyServer {
	t.Helper()
	s := &keyServer{}
	s.says(text)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		(*s.answer.Load())(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *keyServer) says(text string) {
	s.does(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
}

func (s *keyServer) does(do http.HandlerFunc) { s.answer.Store(&do) }

// clock is one that a test sets.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time       { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) pass(d time.Duration) { c.ahead.Add(int64(d)) }

func urlFile(url string) string {
	return strings.Replace(jwtFile, "jwks_file: keys.json", "jwks_url: "+url, 1)
}

// openRemote opens a gate that fetches the server's keys.
func openRemote(t *testing.T, s *keyServer) (*gateOf, *clock) {
	t.Helper()
	c := &clock{}
	g, err := tryOpen(t, Config{now: c.now}, urlFile(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	return g, c
}

func (s *keyServer) wantAsked(t *testing.T, want int32) {
	t.Helper()
	if got := s.asked.Load(); got != want {
		t.Errorf("the issuer was asked %d times, want %d", got, want)
	}
}

func TestKeysAreFetchedForTheFirstJWT(t *testing.T) {
	ec := newSigner(t, "ec")
	s := newKeyServer(t, keySetOf(t, ec.jwk()))
	g, _ := openRemote(t, s)
	s.wantAsked(t, 0)
	for range 3 {
		g.wantName(t, "Bearer "+ec.sign(t, claimsWith(nil)), "jwt:ann")
	}
	s.wantAsked(t, 1)
}

// A flood of JWTs whose keys nobody knows is not one of requests to the issuer, and its true JWTs go on.
func TestUnknownKeysAreNoFloodToTheIssuer(t *testing.T) {
	ec, stranger := newSigner(t, "ec"), newSigner(t, "stranger")
	s := newKeyServer(t, keySetOf(t, ec.jwk()))
	g, clock := openRemote(t, s)
	good := "Bearer " + ec.sign(t, claimsWith(nil))
	g.wantName(t, good, "jwt:ann")
	clock.pass(fetchPause)
	const senders, each = 8, 25
	var flood sync.WaitGroup
	for i := range senders {
		var sent []string
		for k := range each {
			id := fmt.Sprintf("made-up-%d-%d", i, k)
			if k%2 == 0 {
				id = "ec" // forged, under an id that is known
			}
			sent = append(sent, "Bearer "+signer{stranger.algorithm, id, stranger.key}.sign(t, claimsWith(nil)))
		}
		flood.Go(func() {
			for _, bad := range sent {
				p, err := g.ask(bad)
				wantError(t, "made up", p, err, ErrBadCredentials)
				g.wantName(t, good, "jwt:ann")
			}
		})
	}
	flood.Wait()
	s.wantAsked(t, 2)
}

func TestForeignJWTsAskTheIssuerNothing(t *testing.T) {
	stranger := newSigner(t, "stranger")
	s := newKeyServer(t, keySetOf(t))
	g, _ := openRemote(t, s)
	for name, jwt := range map[string]string{
		"of another issuer": stranger.sign(t, claimsWith(map[string]any{"iss": "https://other.example"})),
		"no JWT":            "a.b.c",
		"nothing like one":  "x",
	} {
		p, err := g.ask("Bearer " + jwt)
		wantError(t, name, p, err, ErrBadCredentials)
	}
	s.wantAsked(t, 0)
}

func TestKeysThatTheIssuerChanges(t *testing.T) {
	first, second := newSigner(t, "1"), newSigner(t, "2")
	s := newKeyServer(t, keySetOf(t, first.jwk()))
	g, clock := openRemote(t, s)
	g.wantName(t, "Bearer "+first.sign(t, claimsWith(nil)), "jwt:ann")

	s.says(keySetOf(t, second.jwk()))
	p, err := g.ask("Bearer " + second.sign(t, claimsWith(nil)))
	wantError(t, "within the pause", p, err, ErrBadCredentials)
	clock.pass(fetchPause)
	g.wantName(t, "Bearer "+second.sign(t, claimsWith(nil)), "jwt:ann")
	p, err = g.ask("Bearer " + first.sign(t, claimsWith(nil)))
	wantError(t, "withdrawn", p, err, ErrBadCredentials)

	again := newSigner(t, "2") // another key, under the same id
	s.says(keySetOf(t, again.jwk()))
	clock.pass(fetchPause)
	g.wantName(t, "Bearer "+again.sign(t, claimsWith(nil)), "jwt:ann")
	s.wantAsked(t, 3)
}

// TestKeysThatCannotBeFetched wants it told from bad credentials, once in the log, and without harm to keys that are known.
func TestKeysThatCannotBeFetched(t *testing.T) {
	ec, stranger := newSigner(t, "ec"), newSigner(t, "stranger")
	elsewhere := newKeyServer(t, keySetOf(t, stranger.jwk()))
	for name, answer := range map[string]http.HandlerFunc{
		"an error":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) },
		"no key set": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"error":"x"}`) },
		"no JSON":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"a cut":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a long answer": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat(" ", maxKeysAnswer), `{"keys":[]}`)
		},
		"a long header": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 2*maxKeysHeader))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newKeyServer(t, keySetOf(t, ec.jwk()))
			g, clock := openRemote(t, s)
			good, unknown := "Bearer "+ec.sign(t, claimsWith(nil)), "Bearer "+stranger.sign(t, claimsWith(nil))
			g.wantName(t, good, "jwt:ann")

			s.does(answer)
			clock.pass(fetchPause)
			for range 3 {
				p, err := g.ask(unknown)
				wantError(t, "unknown", p, err, ErrCannotTell)
			}
			forged := signer{stranger.algorithm, "ec", stranger.key}.sign(t, claimsWith(nil))
			p, err := g.ask("Bearer " + forged)
			wantError(t, "forged", p, err, ErrBadCredentials)
			g.wantName(t, good, "jwt:ann")
			s.wantAsked(t, 2)
			if got := strings.Count(g.log.String(), "level=WARN"); got != 1 || strings.Contains(g.log.String(), s.URL) {
				t.Errorf("%d warnings in %s", got, g.log)
			}

			s.says(keySetOf(t, ec.jwk()))
			clock.pass(fetchPause)
			p, err = g.ask(unknown)
			wantError(t, "unknown, and they can be fetched again", p, err, ErrBadCredentials)
			want := `
# HELP latchkey_auth_key_fetches_total Requests to the issuer of JWTs for its keys.
# TYPE latchkey_auth_key_fetches_total counter
latchkey_auth_key_fetches_total{outcome="answered"} 2
latchkey_auth_key_fetches_total{outcome="failed"} 1
`
			if err := testutil.GatherAndCompare(g.registry, strings.NewReader(want), "latchkey_auth_key_fetches_total"); err != nil {
				t.Error(err)
			}
		})
	}
	elsewhere.wantAsked(t, 0)
}

// A key set with a key that we cannot read is as good as without it.
func TestKeysThatCannotBeReadAreLeftOut(t *testing.T) {
	ec := newSigner(t, "ec")
	s := newKeyServer(t, strings.Replace(keySetOf(t, ec.jwk()), `[`, `[{"kty":"XY"},{"kty":"oct","k":"aHVudGVyMg"},`, 1))
	g, _ := openRemote(t, s)
	g.wantName(t, "Bearer "+ec.sign(t, claimsWith(nil)), "jwt:ann")
	if strings.Contains(g.log.String(), "aHVudGVyMg") {
		t.Error("the log has a secret")
	}
}

// Whoever waits for keys leaves when its own request ends; the fetch, which is for others too, goes on.
func TestWaitingForKeysEndsWithTheRequest(t *testing.T) {
	ec := newSigner(t, "ec")
	s := newKeyServer(t, "")
	asked, goOn := make(chan struct{}), make(chan struct{})
	s.does(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-goOn
		fmt.Fprint(w, keySetOf(t, ec.jwk()))
	})
	g, _ := openRemote(t, s)
	header := http.Header{"Authorization": {"Bearer " + ec.sign(t, claimsWith(nil))}}
	who := func(ctx context.Context, said chan<- error) {
		_, err := g.Who(ctx, header, nil)
		said <- err
	}
	first, second, third := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	ctx, leave := context.WithCancel(t.Context())
	go who(ctx, first) // which fetches
	<-asked
	go who(ctx, second)
	go who(t.Context(), third)
	leave()
	if err := <-second; err != ErrCannotTell {
		t.Errorf("who left: %v", err)
	}
	close(goOn)
	for name, said := range map[string]chan error{"who fetched": first, "who stayed": third} {
		if err := <-said; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.wantAsked(t, 1)
}

func TestAFetchIsBoundedInTime(t *testing.T) {
	release := make(chan struct{})
	s := newKeyServer(t, "")
	s.does(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush() // the header is in time, the rest never comes
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	defer close(release)
	g, _ := openRemote(t, s)
	began := time.Now()
	p, err := g.ask("Bearer " + newSigner(t, "ec").sign(t, claimsWith(nil)))
	wantError(t, "no answer", p, err, ErrCannotTell)
	if took := time.Since(began); took < keysBound || took > 4*keysBound {
		t.Errorf("it took %v", took)
	}
}

func TestRunEndsThoughTheIssuerDoesNotAnswer(t *testing.T) {
	s := newKeyServer(t, "")
	asked := make(chan struct{})
	s.does(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})
	g, _ := openRemote(t, s)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); g.Run(ctx) }()
	<-asked
	stop()
	began := time.Now()
	<-ended
	if took := time.Since(began); took > keysBound/2 {
		t.Errorf("it took %v", took)
	}
	if strings.Contains(g.log.String(), "level=WARN") {
		t.Errorf("that is no failure of the issuer: %s", g.log)
	}
}

func TestKeysURLs(t *testing.T) {
	for _, good := range []string{"https://issuer.example/keys", "https://issuer.example:8443/keys?x=y", "http://localhost:1/", "http://127.0.0.1:1", "http://[::1]:1/keys", "HTTPS://issuer.example"} {
		if err := checkKeysURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "x", "http://issuer.example/", "http://127.0.0.1.example/", "http://localhost.example/", "http://10.0.0.1/",
		"ftp://issuer.example/", "file:///etc/passwd", "https://", "https:///keys", "https://ann:hunter2@issuer.example/", "https://[", "//issuer.example/"} {
		if err := checkKeysURL(bad); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestAFetchThatPanicsHoldsNobodyUp(t *testing.T) {
	g, clock := openRemote(t, newKeyServer(t, ""))
	remote, _ := g.remote()
	remote.get = func(context.Context) (keyring, error) { panic("x") }
	func() {
		defer func() { recover() }()
		remote.fetch(t.Context(), t.Context())
		t.Error("the panic was swallowed")
	}()
	clock.pass(fetchPause)
	remote.get = func(context.Context) (keyring, error) { return nil, errors.New("told") }
	if err := remote.fetch(t.Context(), t.Context()); err == nil || err.Error() != "told" {
		t.Errorf("got %v", err)
	}
}
