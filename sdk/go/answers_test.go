package latchkey_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
	"github.com/latchkey/latchkey/store/etcdtest"
)

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
	for name, held := range map[string]int{"granted": 0, "queued": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := newClient(t, latchkey.Config{})
			for range held {
				mustLock(t, direct, "answer/"+name, latchkey.LockOptions{})
			}
			line := etcdtest.NewProxy(t, address(shared))
			line.Blackhole(etcdtest.ToClient)
			c := newClient(t, latchkey.Config{Servers: []string{"http://" + line.Addr(), shared}})
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := c.Lock(ctx, "answer/"+name, latchkey.LockOptions{TTL: time.Hour, Wait: latchkey.Forever})
				failed <- err
			}()
			awaitClaims(t, direct, "answer/"+name, number(held+1))
			cancel()
			wantIs(t, <-failed, context.Canceled)
			if all := claims(t, direct, "answer/"+name); len(all) != held {
				t.Errorf("the claims are %+v, want %d", all, held)
			}
		})
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

func TestServerThatDoesNotLetWaitIsNotAskedWithoutPause(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.Method {
		case http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
			return
		case http.MethodGet:
			asked.Add(1)
		}
		w.Write([]byte(`{"id":"a","name":"a","state":"queued","position":1,"lease_id":"a","ttl_seconds":30,"renew_after_seconds":10}`))
	}))
	defer server.Close()
	c := newClient(t, latchkey.Config{Servers: []string{server.URL}})
	_, err := c.Lock(within(t), "a", latchkey.LockOptions{Wait: time.Second})
	as[*latchkey.NotAcquiredError](t, err)
	if n := asked.Load(); n > 100 {
		t.Errorf("it was asked %d times in a second", n)
	}
}

func TestAnswersOfSomethingElseAreNoAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		status int
		body   string
	}{
		"a portal":       {http.StatusOK, "<html>"},
		"a default page": {http.StatusNotFound, "<html>"},
		"other JSON":     {http.StatusOK, `{"id":"other","ttl_seconds":30,"renew_after_seconds":10,"locks":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(answer.status)
				w.Write([]byte(answer.body))
			}))
			defer portal.Close()
			elsewhere := newClient(t, latchkey.Config{Servers: []string{portal.URL}, Timeout: 200 * time.Millisecond})
			if err := elsewhere.Release(within(t), "a"); err == nil || errors.Is(err, latchkey.ErrLockNotFound) {
				t.Errorf("a release is answered by something else, and told as %v", err)
			}
			if lock, err := elsewhere.Lock(within(t), "a", latchkey.LockOptions{}); err == nil {
				t.Errorf("a claim is answered by something else, and gives the lock %d", lock.Token())
			}
			if page, err := elsewhere.List(within(t), latchkey.Filter{}); err == nil {
				t.Errorf("a list is answered by something else, and told as %+v", page)
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
