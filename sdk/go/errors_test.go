package latchkey_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestRefusalsOfTheServiceAreTyped(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	held := mustLock(t, c, "typed", latchkey.LockOptions{})
	queued, err := c.Claim(within(t), latchkey.ClaimRequest{Name: "typed", Queue: true})
	if err != nil {
		t.Fatal(err)
	}
	key := strings.Repeat("k", 16)
	if _, err := c.Claim(within(t), latchkey.ClaimRequest{Name: "typed/key", Key: key}); err != nil {
		t.Fatal(err)
	}
	claim := func(req latchkey.ClaimRequest) error { _, err := c.Claim(within(t), req); return err }
	renew := func(id string) error { _, err := c.Renew(within(t), id); return err }
	elsewhere := newClient(t, latchkey.Config{Servers: []string{shared + "/elsewhere"}})
	for name, tt := range map[string]struct {
		err    error
		code   latchkey.Code
		status int
	}{
		"a TTL out of range":   {claim(latchkey.ClaimRequest{Name: "typed", TTLSeconds: 1}), latchkey.ErrInvalidRequest, 400},
		"a held lock":          {claim(latchkey.ClaimRequest{Name: "typed"}), latchkey.ErrLockHeld, 409},
		"a lease that is gone": {claim(latchkey.ClaimRequest{Name: "typed", LeaseID: "gone"}), latchkey.ErrLeaseNotFound, 404},
		"a key for two claims": {claim(latchkey.ClaimRequest{Name: "typed/key", Key: key, Holder: "b"}), latchkey.ErrIdempotencyKeyReused, 422},
		"a lock that is gone":  {c.Release(within(t), "gone"), latchkey.ErrLockNotFound, 404},
		"a queued lock":        {renew(queued.ID), latchkey.ErrLockQueued, 409},
		"a body too large":     {claim(latchkey.ClaimRequest{Name: strings.Repeat("n", 70<<10)}), latchkey.ErrPayloadTooLarge, 413},
		"a wrong base URL":     {elsewhere.Release(within(t), held.ID()), latchkey.ErrNotFound, 404},
	} {
		wantIs(t, tt.err, tt.code)
		told := as[*latchkey.Error](t, tt.err)
		if told.Status != tt.status || told.Title == "" || told.Detail == "" || len(told.Document) == 0 {
			t.Errorf("%s: %+v, want status %d and its texts", name, told, tt.status)
		}
	}
	refused := as[*latchkey.Error](t, claim(latchkey.ClaimRequest{Name: "typed", TTLSeconds: 1}))
	if len(refused.Errors) != 1 || refused.Errors[0].Pointer != "/ttl_seconds" {
		t.Errorf("the faults are %+v, want that of the TTL", refused.Errors)
	}
	if busy := as[*latchkey.Error](t, claim(latchkey.ClaimRequest{Name: "typed"})); busy.RetryAfter <= 0 || busy.QueueLength != 1 {
		t.Errorf("held with %d in line, try again after %v, want 1 and when", busy.QueueLength, busy.RetryAfter)
	}
}

func TestInputThatNoRequestCanSay(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	lock := func(name string, opts latchkey.LockOptions) error {
		_, err := c.Lock(within(t), name, opts)
		return err
	}
	for name, err := range map[string]error{
		"half a second of TTL":     lock("input", latchkey.LockOptions{TTL: 1500 * time.Millisecond}),
		"a negative TTL":           lock("input", latchkey.LockOptions{TTL: -time.Second}),
		"a negative wait":          lock("input", latchkey.LockOptions{Wait: -1}),
		"a margin above half":      lock("input", latchkey.LockOptions{TTL: 4 * time.Second, Margin: 3 * time.Second}),
		"a name that is not UTF-8": lock("\xff", latchkey.LockOptions{}),
		"metadata that is not":     lock("input", latchkey.LockOptions{Metadata: map[string]string{"k": "\xff"}}),
		"a key with a line break":  lock("input", latchkey.LockOptions{Key: "0123456789abcdef\n"}),
		"an id that is a path":     c.Release(within(t), "../leases/a"),
		"no id":                    c.Release(within(t), ""),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if all := claims(t, c, "input"); len(all) != 0 {
		t.Errorf("the claims are %+v", all)
	}
	for _, server := range []string{"ftp://a", "a:b:c", "http://", "http://a?b"} {
		if _, err := latchkey.New(latchkey.Config{Servers: []string{shared, server}}); err == nil {
			t.Errorf("the server %q is accepted", server)
		}
	}
}

func TestErrorsNameNoID(t *testing.T) {
	t.Parallel()
	const id = "k7Qm2vXc9TtZ0aYdW3uN5h"
	c := newClient(t, latchkey.Config{Servers: []string{"http://127.0.0.1:1"}, Timeout: 200 * time.Millisecond})
	_, err := c.Get(within(t), id)
	as[*latchkey.UnreachableError](t, err)
	if strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("the error is %q, want the server in it and no id", err)
	}
	_, err = c.Renew(within(t), id+"/../x")
	if err == nil || strings.Contains(err.Error(), id) {
		t.Errorf("the error is %q, want one without the id", err)
	}
}

func TestLostAnswersMakeOneClaim(t *testing.T) {
	t.Parallel()
	line := etcdtest.NewProxy(t, address(shared))
	c := newClient(t, latchkey.Config{Servers: []string{"http://" + line.Addr()}})
	line.Swallow(2)
	lock := mustLock(t, c, "answers", latchkey.LockOptions{})
	if all := claims(t, c, "answers"); len(all) != 1 || all[0].ID != lock.ID() {
		t.Errorf("the claims are %+v, want the lock's", all)
	}
	line.Swallow(1)
	if released, err := lock.Release(); !released || err != nil {
		t.Errorf("a release whose answer was lost: %v, %v, want true", released, err)
	}
}

func TestClaimWithoutAKeyIsNotRepeatedInDoubt(t *testing.T) {
	t.Parallel()
	line := etcdtest.NewProxy(t, address(shared))
	sent := newLines(t)
	c := newClient(t, latchkey.Config{Servers: []string{"http://" + line.Addr(), shared}, Transport: sent})
	line.Swallow(1)
	_, err := c.Claim(within(t), latchkey.ClaimRequest{Name: "doubt"})
	as[*latchkey.UnreachableError](t, err)
	if posts := sent.all(http.MethodPost); len(posts) != 1 {
		t.Errorf("it was sent %d times, want once", len(posts))
	}
}

func TestCancelledClaimWhoseAnswerWasLostIsGivenBack(t *testing.T) {
	t.Parallel()
	line := etcdtest.NewProxy(t, address(shared))
	line.Blackhole(etcdtest.ToClient)
	direct := newClient(t, latchkey.Config{})
	c := newClient(t, latchkey.Config{Servers: []string{"http://" + line.Addr(), shared}})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := c.Lock(ctx, "answer", latchkey.LockOptions{TTL: time.Hour})
		failed <- err
	}()
	awaitClaims(t, direct, "answer", number(1))
	cancel()
	wantIs(t, <-failed, context.Canceled)
	if all := claims(t, direct, "answer"); len(all) != 0 {
		t.Errorf("the claims are %+v, want none", all)
	}
}

// The service is played by a server of the test's own where only what the client does with an answer matters.

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var followed atomic.Bool
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
	defer target.Close()
	server := httptest.NewServer(http.RedirectHandler(target.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	c := newClient(t, latchkey.Config{Servers: []string{server.URL}, Header: http.Header{"Authorization": {"secret"}}})
	_, err := c.Claim(within(t), latchkey.ClaimRequest{Name: "a"})
	if told := as[*latchkey.Error](t, err); told.Status != http.StatusTemporaryRedirect || followed.Load() {
		t.Errorf("told %v, followed: %v", told, followed.Load())
	}
}

func TestServerThatAsksForAPauseGetsIt(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "2")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write([]byte(`{"type":"","title":"","status":503,"detail":"","code":"overloaded"}`))
	}))
	defer server.Close()
	c := newClient(t, latchkey.Config{Servers: []string{server.URL}, Timeout: time.Second})
	_, err := c.Get(within(t), "a")
	as[*latchkey.UnreachableError](t, err)
	wantIs(t, err, latchkey.ErrOverloaded)
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times within the second of 2 that it asked to be left alone for", n)
	}
	both := newClient(t, latchkey.Config{Servers: []string{server.URL, shared}})
	mustLock(t, both, "pause", latchkey.LockOptions{}) // by the other
}

func TestAnswersOfSomethingElseAreNoAnswers(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"a portal": http.StatusOK, "a default page": http.StatusNotFound} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				w.Write([]byte("<html>"))
			}))
			defer portal.Close()
			elsewhere := newClient(t, latchkey.Config{Servers: []string{portal.URL}, Timeout: 200 * time.Millisecond})
			if err := elsewhere.Release(within(t), "a"); err == nil || errors.Is(err, latchkey.ErrLockNotFound) {
				t.Errorf("a release is answered by something else, and told as %v", err)
			}
			sent := newLines(t)
			sent.before = func(req *http.Request) {
				if req.Method == http.MethodPut {
					req.URL.Host = address(portal.URL)
				}
			}
			c := newClient(t, latchkey.Config{Transport: sent})
			lock := mustLock(t, c, "portal/"+name, latchkey.LockOptions{TTL: 3 * time.Second})
			as[*latchkey.UncertainError](t, await(t, lock.Context(t.Context())))
		})
	}
}

func TestServersOfTheEnvironment(t *testing.T) {
	t.Setenv("LATCHKEY_SERVER", "http://127.0.0.1:1, "+shared)
	c, err := latchkey.New(latchkey.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.List(within(t), latchkey.Filter{}); err != nil {
		t.Error(err)
	}
}

func TestAllGoesThroughThePages(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	for _, name := range []string{"pages/a", "pages/b", "pages/c"} {
		mustLock(t, c, name, latchkey.LockOptions{})
	}
	var names []string
	for claim, err := range c.All(within(t), latchkey.Filter{Prefix: "pages/", State: latchkey.Held, Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, claim.Name)
	}
	if got := strings.Join(names, " "); got != "pages/a pages/b pages/c" {
		t.Errorf("listed %s", got)
	}
}
