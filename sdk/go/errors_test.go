package latchkey_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

func TestRefusalsOfTheServiceAreTyped(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	held := mustLock(t, c, "typed", latchkey.LockOptions{})
	queued := mustClaim(t, c, latchkey.ClaimRequest{Name: "typed", Queue: true})
	key := strings.Repeat("k", 16)
	mustClaim(t, c, latchkey.ClaimRequest{Name: "typed/key", Key: key})
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

// What was answered last, if it is the service's own word, is not called an answer that is missing.
func TestUnreachableErrorTellsAnAnswerFromSilence(t *testing.T) {
	t.Parallel()
	told := func(code latchkey.Code, status int) error {
		return &latchkey.Error{Problem: latchkey.Problem{Code: code, Status: status, Detail: "as many as it may"}}
	}
	silence := errors.New("silence")
	for want, e := range map[string]*latchkey.UnreachableError{
		"latchkey: given up; the last answer: latchkey: too_many_claims (429): as many as it may":                  {Last: told(latchkey.ErrTooManyClaims, 429)},
		"latchkey: given up; the last answer: latchkey: draining (503): as many as it may; then: context canceled": {Last: told(latchkey.ErrDraining, 503), Cause: context.Canceled},
		"latchkey: no definite answer in time: silence":                                                            {Last: silence},
		"latchkey: no definite answer: silence; then: context canceled":                                            {Last: silence, Cause: context.Canceled},
		"latchkey: no definite answer in time: latchkey: status 502, and no problem document of latchkey's":        {Last: told("", 502)},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
