package latchkey_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

func TestTokenIsSentWithEveryRequest(t *testing.T) {
	t.Parallel()
	service := play(t, func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/events") {
			fmt.Fprint(w, "event: held\ndata: {\"state\":\"held\"}\n\n")
			return
		}
		holding(30, nil)(w, req)
	})
	c := newClient(t, latchkey.Config{Servers: []string{service.URL}, Token: "lk_token"})
	lock, err := c.Lock(within(t), playedName, latchkey.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Renew(within(t), playedID); err != nil {
		t.Error(err)
	}
	for _, err := range c.LockEvents(within(t), playedID) {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := lock.Release(); err != nil {
		t.Error(err)
	}
	if got, want := service.tokens(""), slices.Repeat([]string{"Bearer lk_token"}, 4); !slices.Equal(got, want) {
		t.Errorf("sent were %q, want %q", got, want)
	}
}

// accepting answers 401 to all tokens but one.
func accepting(token string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer "+token {
			refuse(w, http.StatusUnauthorized, "unauthorized")
			return
		}
		playedLock(w, "held", 30)
	}
}

func TestRefusedTokenIsAskedForAgainOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tokens  []string // of the source, the last for ever
		want    []string // what is sent by two calls
		refused bool
	}{
		"that has another":         {[]string{"old", "new"}, []string{"Bearer old", "Bearer new", "Bearer new"}, false},
		"that has the same":        {[]string{"old"}, []string{"Bearer old", "Bearer old"}, true},
		"that has another bad one": {[]string{"old", "older", "oldest"}, []string{"Bearer old", "Bearer older", "Bearer older", "Bearer oldest"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := play(t, accepting("new"))
			source := func(context.Context) (string, error) {
				token := tt.tokens[0]
				tt.tokens = tt.tokens[min(1, len(tt.tokens)-1):]
				return token, nil
			}
			c := newClient(t, latchkey.Config{Servers: []string{service.URL}, TokenSource: source})
			for range 2 {
				_, err := c.Get(within(t), playedID)
				if refused := errors.Is(err, latchkey.ErrUnauthorized); refused != tt.refused || !refused && err != nil {
					t.Errorf("a call ends with %v, want it refused: %v", err, tt.refused)
				}
				if err != nil && strings.Contains(err.Error(), "old") {
					t.Errorf("the error %q tells the token", err)
				}
			}
			if got := service.tokens(""); !slices.Equal(got, tt.want) {
				t.Errorf("sent were %q, want %q", got, tt.want)
			}
		})
	}
}

func TestManyRefusedRequestsAskForOneToken(t *testing.T) {
	t.Parallel()
	const callers = 20
	var arrived, asked atomic.Int64
	all := make(chan struct{})
	service := play(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") == "Bearer old" {
			if arrived.Add(1) == callers {
				close(all)
			}
			select {
			case <-all: // of them have been sent with the old one
			case <-time.After(bound):
				t.Errorf("%d requests arrived within %v", arrived.Load(), bound)
			}
		}
		accepting("new")(w, req)
	})
	c := newClient(t, latchkey.Config{Servers: []string{service.URL}, TokenSource: func(context.Context) (string, error) {
		if asked.Add(1) == 1 {
			return "old", nil
		}
		return "new", nil
	}})
	var calls sync.WaitGroup
	for range callers {
		calls.Go(func() {
			if _, err := c.Get(within(t), playedID); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if n := asked.Load(); n != 2 {
		t.Errorf("the source was asked %d times, want 2", n)
	}
}

func TestTokenThatCannotBeHad(t *testing.T) {
	t.Parallel()
	service := play(t, accepting("new"))
	noToken := errors.New("the vault is closed")
	for name, source := range map[string]func(context.Context) (string, error){
		"a source that fails": func(context.Context) (string, error) { return "", noToken },
		"an empty token":      func(context.Context) (string, error) { return "", nil },
		"a line too many":     func(context.Context) (string, error) { return "new\n", nil },
	} {
		c := newClient(t, latchkey.Config{Servers: []string{service.URL}, TokenSource: source})
		if _, err := c.Get(within(t), playedID); err == nil || strings.HasPrefix(name, "a source") && !errors.Is(err, noToken) {
			t.Errorf("%s: the call ends with %v", name, err)
		}
	}
	if sent := service.tokens(""); len(sent) != 0 {
		t.Errorf("sent were %q, want nothing", sent)
	}
	source := func(context.Context) (string, error) { return "a", nil }
	for name, cfg := range map[string]latchkey.Config{
		"a token with a space":  {Token: "a b"},
		"a token and a source":  {Token: "a", TokenSource: source},
		"a token and a header":  {Token: "a", Header: http.Header{"Authorization": {"Basic b"}}},
		"TLS and a transport":   {TLS: &tls.Config{}, Transport: http.DefaultTransport},
		"a source and a header": {TokenSource: source, Header: http.Header{"Authorization": {"Basic b"}}},
	} {
		if _, err := latchkey.New(cfg); err == nil || strings.Contains(err.Error(), "a b") {
			t.Errorf("%s is answered %v", name, err)
		}
	}
}

func TestTokenFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere := play(t, holding(30, nil))
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect} {
		server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		defer server.Close()
		c := newClient(t, latchkey.Config{Servers: []string{server.URL}, Token: "lk_token"})
		_, err := c.Get(within(t), playedID)
		if told := as[*latchkey.Error](t, err); told.Status != status {
			t.Errorf("told %v, want status %d", told, status)
		}
	}
	if sent := elsewhere.tokens(""); len(sent) != 0 {
		t.Errorf("%d redirects were followed", len(sent))
	}
}

func TestRefusedRenewalIsUncertainAndNotLost(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{"unauthorized": http.StatusUnauthorized, "forbidden": http.StatusForbidden} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			service := play(t, holding(4, map[string]http.HandlerFunc{
				http.MethodPut: func(w http.ResponseWriter, _ *http.Request) { refuse(w, status, code) },
			}))
			c := newClient(t, latchkey.Config{Servers: []string{service.URL}, Token: "lk_token"})
			lock := mustLock(t, c, playedName, latchkey.LockOptions{TTL: 4 * time.Second, Margin: 2 * time.Second})
			err := await(t, lock.Context(t.Context()))
			if left := lock.Remaining(); left <= 0 {
				t.Errorf("it was reported %v before the deadline", left)
			}
			as[*latchkey.UncertainError](t, err)
			wantIs(t, err, latchkey.Code(code), latchkey.ErrNotHeld)
			if n := len(service.tokens(http.MethodPut)); n < 2 {
				t.Errorf("%d renewals were tried, want more", n)
			}
		})
	}
}

func TestRefusedRenewalThatHealsLosesNothing(t *testing.T) {
	t.Parallel()
	var rotated atomic.Bool
	service := play(t, holding(6, map[string]http.HandlerFunc{http.MethodPut: func(w http.ResponseWriter, req *http.Request) {
		if rotated.Load() && req.Header.Get("Authorization") != "Bearer new" {
			refuse(w, http.StatusUnauthorized, "unauthorized")
			return
		}
		playedLock(w, "held", 6)
	}}))
	c := newClient(t, latchkey.Config{Servers: []string{service.URL}, TokenSource: func(context.Context) (string, error) {
		if rotated.Load() {
			return "new", nil
		}
		return "old", nil
	}})
	lock := mustLock(t, c, playedName, latchkey.LockOptions{TTL: 6 * time.Second})
	rotated.Store(true)
	eventually(t, "renewed with the new token", func() bool { return slices.Contains(service.tokens(http.MethodPut), "Bearer new") })
	if err := lock.Check(); err != nil {
		t.Error(err)
	}
}

func TestSourceThatFailsForAWhileLosesNothing(t *testing.T) {
	t.Parallel()
	var revoked, healed atomic.Bool
	service := play(t, holding(9, map[string]http.HandlerFunc{http.MethodPut: func(w http.ResponseWriter, req *http.Request) {
		if revoked.Load() && req.Header.Get("Authorization") != "Bearer new" {
			refuse(w, http.StatusUnauthorized, "unauthorized")
			return
		}
		playedLock(w, "held", 9)
	}}))
	failures := make(chan struct{}, 100)
	c := newClient(t, latchkey.Config{Servers: []string{service.URL}, TokenSource: func(context.Context) (string, error) {
		switch {
		case !revoked.Load():
			return "old", nil
		case healed.Load():
			return "new", nil
		}
		failures <- struct{}{}
		return "", errors.New("the vault is closed")
	}})
	lock := mustLock(t, c, playedName, latchkey.LockOptions{TTL: 9 * time.Second})
	revoked.Store(true)
	select {
	case <-failures:
	case <-time.After(bound):
		t.Fatal("the source is not asked again")
	}
	healed.Store(true)
	eventually(t, "renewed with the new token", func() bool { return slices.Contains(service.tokens(http.MethodPut), "Bearer new") })
	if err := lock.Check(); err != nil {
		t.Error(err)
	}
}

func TestClientCertificateIsShown(t *testing.T) {
	t.Parallel()
	service := &played{}
	service.Server = httptest.NewUnstartedServer(service.hearing(holding(30, nil)))
	service.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	service.Config.ErrorLog = log.New(io.Discard, "", 0) // it tells of each that is turned away
	service.StartTLS()
	t.Cleanup(service.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(service.Certificate())
	for name, tt := range map[string]struct {
		secure *tls.Config
		works  bool
	}{
		"with a certificate":         {&tls.Config{RootCAs: trusted, Certificates: service.TLS.Certificates}, true},
		"without one":                {&tls.Config{RootCAs: trusted}, false},
		"of a server nobody trusts":  {&tls.Config{Certificates: service.TLS.Certificates}, false},
		"without anything about TLS": {nil, false},
	} {
		c := newClient(t, latchkey.Config{Servers: []string{service.URL}, Timeout: time.Second, TLS: tt.secure})
		if _, err := c.List(within(t), latchkey.Filter{}); (err == nil) != tt.works {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestServerThatNobodyVouchesForIsLeftForAnother(t *testing.T) {
	t.Parallel()
	strange, good := &played{}, &played{}
	for service, answer := range map[*played]http.HandlerFunc{strange: broken, good: holding(30, nil)} {
		service.Server = httptest.NewUnstartedServer(service.hearing(answer))
		service.Config.ErrorLog = log.New(io.Discard, "", 0)
	}
	strange.StartTLS()
	t.Cleanup(strange.Close)
	good.Start()
	t.Cleanup(good.Close)
	c := newClient(t, latchkey.Config{Servers: []string{strange.URL, good.URL}})
	if _, err := c.Claim(within(t), latchkey.ClaimRequest{Name: playedName}); err != nil { // without a key: it is sent once
		t.Error(err)
	}
	if len(strange.tokens("")) != 0 {
		t.Error("a server that nobody vouches for was sent a claim")
	}
}
