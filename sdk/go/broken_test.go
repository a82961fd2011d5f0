package latchkey_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

func broken(w http.ResponseWriter, _ *http.Request) {
	refuse(w, http.StatusGone, "lock_broken", map[string]any{"reason": "host web-3 is gone"})
}

func TestEndThatARenewalIsToldIsLostAtOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		code   latchkey.Code
		says   string
	}{
		"broken": {broken, latchkey.ErrLockBroken, "was broken by an administrator: host web-3 is gone"},
		"held for too long": {
			func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusConflict, "max_hold_reached") },
			latchkey.ErrMaxHoldReached, "is renewed no more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl = 3 * time.Minute // it is not the deadline that ends it
			var renewed atomic.Int64
			service := play(t, holding(int(ttl/time.Second), map[string]http.HandlerFunc{http.MethodPut: func(w http.ResponseWriter, req *http.Request) {
				renewed.Add(1)
				tt.answer(w, req)
			}}))
			c := newClient(t, latchkey.Config{Servers: []string{service.URL}})
			jump := c.Jumping()
			lock := mustLock(t, c, playedName, latchkey.LockOptions{TTL: ttl})
			jump(ttl / 2)
			err := await(t, lock.Context(t.Context()))
			if told := as[*latchkey.LostError](t, err); !strings.Contains(told.Why(), tt.says) || !strings.Contains(err.Error(), playedName) {
				t.Errorf("it says %q and %q, want %q", told.Why(), err, tt.says)
			}
			wantIs(t, err, tt.code, latchkey.ErrNotHeld)
			if _, err := lock.Release(); err == nil {
				t.Error("the release does not say that it was lost")
			}
			if n := renewed.Load(); n != 1 {
				t.Errorf("%d renewals were sent, want one", n)
			}
		})
	}
}

func TestLockThatWasBrokenUnnoticedIsLostAtItsRelease(t *testing.T) {
	t.Parallel()
	service := play(t, holding(30, map[string]http.HandlerFunc{http.MethodDelete: broken}))
	c := newClient(t, latchkey.Config{Servers: []string{service.URL}})
	lock := mustLock(t, c, playedName, latchkey.LockOptions{})
	released, err := lock.Release()
	if told := as[*latchkey.LostError](t, err); released || told.Name != playedName {
		t.Errorf("released: %v, %v", released, told)
	}
	wantIs(t, err, latchkey.ErrLockBroken)
}

func TestPlaceThatWasBrokenIsNotTakenAgain(t *testing.T) {
	t.Parallel()
	service := play(t, holding(30, map[string]http.HandlerFunc{
		http.MethodPost: func(w http.ResponseWriter, _ *http.Request) { playedLock(w, "queued", 30) },
		http.MethodGet:  broken, http.MethodDelete: broken,
	}))
	c := newClient(t, latchkey.Config{Servers: []string{service.URL}})
	_, err := c.Lock(within(t), playedName, latchkey.LockOptions{Wait: latchkey.Forever})
	wantIs(t, err, latchkey.ErrLockBroken)
	if told := as[*latchkey.Error](t, err); told.Reason != "host web-3 is gone" {
		t.Errorf("the reason is %q", told.Reason)
	}
	if n := len(service.tokens(http.MethodPost)); n != 1 {
		t.Errorf("it was claimed %d times, want once", n)
	}
}

func TestBreakTellsTheReason(t *testing.T) {
	t.Parallel()
	reasons := make(chan string, 1)
	service := play(t, holding(30, map[string]http.HandlerFunc{http.MethodDelete: func(w http.ResponseWriter, req *http.Request) {
		reasons <- req.URL.Query().Get("reason")
		w.WriteHeader(http.StatusNoContent)
	}}))
	c := newClient(t, latchkey.Config{Servers: []string{service.URL}})
	const reason = "host web-3 & co. went away"
	if err := c.Break(within(t), playedID, reason); err != nil {
		t.Fatal(err)
	}
	if got := <-reasons; got != reason {
		t.Errorf("the service is told %q, want %q", got, reason)
	}
	for _, bad := range []string{"", "\xff"} {
		if err := c.Break(within(t), playedID, bad); err == nil {
			t.Errorf("the reason %q is accepted", bad)
		}
	}
}

func TestTooManyIsTriedAgainWhenAskedTo(t *testing.T) {
	t.Parallel()
	for _, code := range []latchkey.Code{
		latchkey.ErrTooManyRequests, latchkey.ErrTooManyClaims, latchkey.ErrTooManyLeases, latchkey.ErrTooManyStreams, latchkey.ErrTooManyWaiters,
	} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			var refused atomic.Int64
			service := play(t, func(w http.ResponseWriter, req *http.Request) {
				if refused.Add(1) <= 1 {
					w.Header().Set("Retry-After", "1")
					refuse(w, http.StatusTooManyRequests, string(code))
					return
				}
				holding(30, nil)(w, req)
			})
			c := newClient(t, latchkey.Config{Servers: []string{service.URL}})
			began := time.Now()
			mustLock(t, c, playedName, latchkey.LockOptions{})
			if took := time.Since(began); took < time.Second {
				t.Errorf("it was tried again after %v, and a second was asked for", took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			refused.Store(-1 << 20) // always
			_, err := c.Claim(ctx, latchkey.ClaimRequest{Name: playedName, Key: "0123456789abcdef"})
			wantIs(t, err, code)
		})
	}
}

func TestRenewalThatCameTooSoonIsSentAgainInTime(t *testing.T) {
	t.Parallel()
	var refused atomic.Int64
	service := play(t, holding(6, map[string]http.HandlerFunc{http.MethodPut: func(w http.ResponseWriter, _ *http.Request) {
		if refused.Add(1) == 1 {
			w.Header().Set("Retry-After", "60") // longer than the lock lasts
			refuse(w, http.StatusTooManyRequests, "too_many_requests")
			return
		}
		playedLock(w, "held", 6)
	}}))
	c := newClient(t, latchkey.Config{Servers: []string{service.URL}})
	lock := mustLock(t, c, playedName, latchkey.LockOptions{TTL: 6 * time.Second})
	eventually(t, "renewed again", func() bool { return refused.Load() >= 3 })
	if err := lock.Check(); err != nil {
		t.Error(err)
	}
}
