package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// holders are clients that hold a lock each and renew it, through one replica or another: some of them by a lease of the
// client's own.
type holders struct {
	t    *testing.T
	s    *service
	c    *client
	held []answer
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex
	renewed  int
	repeated map[string]int // renewals that had to be sent again, by what was said
	longest  time.Duration  // between two renewals of one holder
}

const (
	holdersCount = 20
	holdersTTL   = 10
	renewEvery   = 2 * time.Second
	ownLeaseEach = 4 // of so many holders one is on a lease of the client's own
)

func newHolders(t *testing.T, s *service, name string) *holders {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	h := &holders{t: t, s: s, c: newClient(t), stop: stop, repeated: map[string]int{}}
	t.Cleanup(func() { stop(); h.all.Wait() })
	for i := range holdersCount {
		claim := api.LockRequest{Name: fmt.Sprintf("%s %d", name, i), TTLSeconds: holdersTTL}
		if i%ownLeaseEach == 0 {
			lease, err := h.c.lease(s, holdersTTL)
			if err != nil {
				t.Fatal(err)
			}
			claim.TTLSeconds, claim.LeaseID = 0, lease
		}
		a := h.c.claim(s.any(), "", claim)
		if !a.held() {
			t.Fatalf("a free lock: %v", a)
		}
		h.held = append(h.held, a)
	}
	for _, a := range h.held {
		h.all.Go(func() { h.hold(ctx, a) })
	}
	return h
}

// hold renews until it is told to stop or a promise is broken.
func (h *holders) hold(ctx context.Context, lock answer) {
	last := lock.sent
	for tick := time.NewTicker(renewEvery); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
		a, ok := h.renew(lock.lock)
		if !ok {
			tick.Stop()
			return
		}
		h.mu.Lock()
		h.renewed++
		h.longest = max(h.longest, a.got.Sub(last))
		h.mu.Unlock()
		last = a.got
	}
}

// renew renews a lock, at one replica after another until one does.
func (h *holders) renew(lock api.Lock) (answer, bool) {
	for began := time.Now(); ; time.Sleep(tryAgain()) {
		a := h.c.renew(h.s.any(), lock.LeaseID)
		switch {
		case a.status == http.StatusOK && (a.lock.FencingToken == lock.FencingToken || lock.LeaseID != lock.ID):
			return a, true
		case !a.elsewhere():
			h.t.Errorf("a lock of %d s that is renewed every %v outlives the fault, but %q answers %v", holdersTTL, renewEvery, lock.Name, a)
			return a, false
		case time.Since(began) > takerBound:
			h.t.Errorf("a renewal succeeds once the fault is over, but %q was not renewed for %v: %v", lock.Name, takerBound, a)
			return a, false
		}
		h.mu.Lock()
		said := a.problem.Code
		if a.err != nil {
			said = "no answer"
		}
		h.repeated[said]++
		h.mu.Unlock()
	}
}

// judge ends the holders: every one still holds, with the token it was given.
func (h *holders) judge() {
	h.t.Helper()
	h.stop()
	h.all.Wait()
	h.t.Logf("%d holders, %d renewals; the longest time between two was %v; sent again: %v", len(h.held), h.renewed, h.longest.Round(time.Millisecond), h.repeated)
	for _, lock := range h.held {
		a, ok := h.renew(lock.lock)
		if !ok {
			continue
		}
		if look := h.c.look(h.s.any(), lock.lock.ID); !look.held() || look.lock.FencingToken != lock.lock.FencingToken {
			h.t.Errorf("%q was just renewed (%v), but a look finds %v", lock.lock.Name, a, look)
		}
		if err := h.c.releaseSurely(h.s, lock.lock.ID); err != nil {
			h.t.Error(err)
		}
	}
}
