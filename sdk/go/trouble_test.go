package latchkey_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// troubles are what OnTrouble was told, of a kind each, the same in a row once.
type troubles struct {
	mu  sync.Mutex
	all []string
}

func (l *troubles) hear(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind, told := "silence", (*latchkey.Error)(nil)
	switch {
	case err == nil:
		kind = "none"
	case errors.As(err, &told):
		kind = string(told.Code)
	}
	if err == nil || len(l.all) == 0 || l.all[len(l.all)-1] != kind {
		l.all = append(l.all, kind)
	}
}

func (l *troubles) are(kinds ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Equal(l.all, kinds)
}

func (l *troubles) want(t *testing.T, kinds ...string) {
	t.Helper()
	if !l.are(kinds...) {
		t.Errorf("it is told of %q, want %q", l.all, kinds)
	}
}

func TestWaitTellsWhatRefusesItsClaim(t *testing.T) {
	t.Parallel()
	var told troubles
	claims := 0
	service := play(t, holding(30, map[string]http.HandlerFunc{http.MethodPost: func(w http.ResponseWriter, req *http.Request) {
		switch claims++; {
		case claims <= 2:
			refuse(w, http.StatusTooManyRequests, "too_many_claims")
		case claims == 3:
			refuse(w, http.StatusServiceUnavailable, "overloaded")
		default:
			playedLock(w, "held", 30)
		}
	}}))
	c := newClient(t, latchkey.Config{Servers: []string{service.URL}})
	mustLock(t, c, playedName, latchkey.LockOptions{Wait: time.Minute, OnTrouble: told.hear})
	told.want(t, "too_many_claims", "overloaded", "none")
}

func TestWaitTellsThatNoServerAnswersAndWhenOneDoes(t *testing.T) {
	t.Parallel()
	lines, servers := twoLines(t)
	servers = servers[:len(lines)]
	direct := newClient(t, latchkey.Config{})
	held := mustLock(t, direct, "trouble", latchkey.LockOptions{})
	var told troubles
	waiter := lockBeside(t.Context(), t, newClient(t, latchkey.Config{Servers: servers}), "trouble", latchkey.LockOptions{
		Wait: latchkey.Forever, OnTrouble: told.hear,
	})
	for _, line := range lines {
		line.Cut()
	}
	eventually(t, "told", func() bool { return told.are("silence") })
	for _, line := range lines {
		line.Heal()
	}
	held.Release()
	waiter.mustEnd()
	told.want(t, "silence", "none")
}

func TestServerThatDiesIsNoTroubleWhileAnotherAnswers(t *testing.T) {
	t.Parallel()
	lines, servers := twoLines(t)
	direct := newClient(t, latchkey.Config{})
	held := mustLock(t, direct, "no trouble", latchkey.LockOptions{})
	var told troubles
	sent := newLines(t)
	c := newClient(t, latchkey.Config{Servers: servers, Transport: sent})
	waiter := lockBeside(t.Context(), t, c, "no trouble", latchkey.LockOptions{Wait: latchkey.Forever, OnTrouble: told.hear})
	for _, line := range lines {
		line.Cut()
	}
	eventually(t, "asked for elsewhere", func() bool {
		return slices.ContainsFunc(sent.all(http.MethodGet), func(s sentRequest) bool { return s.host == address(shared) })
	})
	held.Release()
	waiter.mustEnd()
	told.want(t)
}

func TestWhatTheServiceSaysIsToldBeforeSilence(t *testing.T) {
	t.Parallel()
	service := play(t, func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusTooManyRequests, "too_many_claims") })
	dead := play(t, nil)
	dead.Close()
	for name, servers := range map[string][]string{"the first": {service.URL, dead.URL}, "the last": {dead.URL, service.URL}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told troubles
			c := newClient(t, latchkey.Config{Servers: servers})
			_, err := c.Lock(within(t), playedName, latchkey.LockOptions{Wait: 2 * time.Second, OnTrouble: told.hear})
			as[*latchkey.UnreachableError](t, err)
			told.want(t, "too_many_claims")
		})
	}
}

func TestEndIsNoTrouble(t *testing.T) {
	t.Parallel()
	const soon = 300 * time.Millisecond
	queued := func(w http.ResponseWriter, _ *http.Request) { playedLock(w, "queued", 30) }
	slow := func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-req.Context().Done():
		case <-time.After(2 * soon):
		}
		refuse(w, http.StatusTooManyRequests, "too_many_claims")
	}
	inLine := map[string]http.HandlerFunc{http.MethodPost: queued, http.MethodGet: slow}
	for name, tt := range map[string]struct {
		answers map[string]http.HandlerFunc
		wait    time.Duration
		within  time.Duration
	}{
		"of the wait, before the place is told": {map[string]http.HandlerFunc{http.MethodPost: slow}, soon, time.Minute},
		"of the wait, in line":                  {inLine, soon, time.Minute},
		"of the context, in line":               {inLine, latchkey.Forever, soon},
		"of the context, during a try":          {map[string]http.HandlerFunc{http.MethodPost: slow}, 0, soon},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told troubles
			c := newClient(t, latchkey.Config{Servers: []string{play(t, holding(30, tt.answers)).URL}})
			ctx, cancel := context.WithTimeout(t.Context(), tt.within)
			defer cancel()
			if _, err := c.Lock(ctx, playedName, latchkey.LockOptions{Wait: tt.wait, OnTrouble: told.hear}); err == nil {
				t.Error("it is held")
			}
			told.want(t)
		})
	}
}

// TestTryIsToldOfTroubleToo, so that its caller can end it.
func TestTryIsToldOfTroubleToo(t *testing.T) {
	t.Parallel()
	service := play(t, func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusTooManyRequests, "too_many_claims")
	})
	c := newClient(t, latchkey.Config{Servers: []string{service.URL}, Timeout: time.Hour})
	ctx, cancel := context.WithCancel(within(t))
	_, err := c.Lock(ctx, playedName, latchkey.LockOptions{OnTrouble: func(err error) {
		wantIs(t, err, latchkey.ErrTooManyClaims)
		cancel()
	}})
	wantIs(t, err, latchkey.ErrTooManyClaims, context.Canceled)
	if sent := service.tokens(""); len(sent) != 1 {
		t.Errorf("%d requests were sent, want the claim", len(sent))
	}
}
