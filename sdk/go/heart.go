package latchkey

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

const (
	defaultTTL   = 30 * time.Second
	leastMargin  = 250 * time.Millisecond
	mostMargin   = 2 * time.Second
	renewalBound = 5 * time.Second // of one try, if a third of the TTL is not less
	jitter       = 0.1             // of the time between renewals, either way
	lookEvery    = time.Second     // at the clock: timers stand still while the machine sleeps
)

// heart keeps a lease alive, and knows until when it surely stands.
type heart struct {
	c      *Client
	name   string // of the lock; empty for a lease that is not a lock's own
	id     string // of the lease
	ttl    time.Duration
	margin time.Duration
	ctx    context.Context // ends with why the lease is held no more
	cancel context.CancelCauseFunc
	beats  sync.WaitGroup
	told   chan struct{} // holds one when the lease was renewed

	mu      sync.Mutex
	renewed time.Duration // when the last renewal that succeeded was sent
	failure error         // of the last renewal; nil if it succeeded
	err     error         // why it is held no more
}

// newHeart begins to beat for a lease that was renewed, or made, by a request sent then. It beats on when ctx ends.
func newHeart(ctx context.Context, c *Client, name, id string, ttl, margin, sent time.Duration) *heart {
	h := &heart{c: c, name: name, id: id, ttl: ttl, margin: min(margin, ttl/2), told: make(chan struct{}, 1), renewed: sent}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h.beats.Go(h.watch)
	h.beats.Go(h.beat)
	return h
}

// marginOf is how long before its end a lease counts as uncertain.
func marginOf(chosen, ttl time.Duration) time.Duration {
	if chosen != 0 {
		return chosen
	}
	return min(max(ttl/10, leastMargin), mostMargin)
}

// check says why the lease is held no more, nil if it is. It asks the clock, so nobody learns late from it.
func (h *heart) check() error {
	h.mu.Lock()
	if h.err == nil && h.c.now() >= h.renewed+h.ttl-h.margin {
		h.err = &UncertainError{Name: h.name, Cause: h.failure}
	}
	err := h.err
	h.mu.Unlock()
	if err != nil {
		h.cancel(err)
	}
	return err
}

// end lets the heart stop, with err if it is the first to say why. It returns why the lease was held no more before that.
func (h *heart) end(err error) error {
	before := h.check()
	h.mu.Lock()
	if h.err == nil {
		h.err = err
	}
	err = h.err
	h.mu.Unlock()
	h.cancel(err)
	return before
}

// stop is end, and returns when nothing of the heart runs any more.
func (h *heart) stop(err error) error {
	before := h.end(err)
	h.beats.Wait()
	return before
}

// remaining is for how long the lease surely stands, counted from the last renewal that succeeded.
func (h *heart) remaining() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil && !isUncertain(h.err) {
		return 0
	}
	return max(0, h.renewed+h.ttl-h.c.now())
}

func isUncertain(err error) bool {
	uncertain := (*UncertainError)(nil)
	return errors.As(err, &uncertain)
}

// left is the time in which a renewal would still help.
func (h *heart) left() time.Duration { return h.remaining() - h.margin }

// sleepUntil returns false if the heart ended first.
func (h *heart) sleepUntil(at func() time.Duration) bool {
	for h.check() == nil {
		pause := at() - h.c.now()
		if pause <= 0 {
			return true
		}
		sleep(h.ctx, min(pause, lookEvery))
	}
	return false
}

// watch ends the heart when its time has come, whatever a renewal is waiting for.
func (h *heart) watch() {
	for h.sleepUntil(func() time.Duration { return h.c.now() + h.left() }) {
	}
}

// beat renews, a third of the TTL after the last renewal was sent.
func (h *heart) beat() {
	for {
		spread := 1 + jitter*(2*rand.Float64()-1)
		due := time.Duration(float64(h.ttl/3) * spread)
		if !h.sleepUntil(func() time.Duration { return h.lastSent() + due }) || !h.renew() {
			return
		}
	}
}

func (h *heart) lastSent() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.renewed
}

// renew tries until a renewal succeeds: at once a second time, as the next server may answer, then with pauses. It returns
// false if the heart ended first.
func (h *heart) renew() bool {
	pauses := backoff{most: max(h.ttl/10, leastPause)}
	asked := map[int]bool{}
	for tries := 1; ; tries++ {
		err := h.tryRenewal(asked)
		if err == nil {
			return true
		}
		if h.check() != nil {
			return false
		}
		h.c.log.Warn("a renewal failed", slog.String("lock", h.name), slog.Duration("left", h.left()), slog.Any("error", err))
		pause := h.askedPause(err)
		if tries > 1 {
			pause = max(pause, pauses.next())
		}
		again := h.c.now() + pause
		if !h.sleepUntil(func() time.Duration { return again }) {
			return false
		}
	}
}

// askedPause is how long the service wants to be left alone, having refused a renewal for coming too soon after others; at most
// half of the time in which one would still help.
func (h *heart) askedPause(err error) time.Duration {
	if told := (*Error)(nil); errors.As(err, &told) && told.Status == http.StatusTooManyRequests {
		return min(told.RetryAfter, h.left()/2)
	}
	return 0
}

// tryRenewal leaves a silent server its share of the time in which a renewal would still help, and the rest to those that were
// not asked yet.
func (h *heart) tryRenewal(asked map[int]bool) error {
	var info LeaseInfo
	server, _ := h.c.servers.next(h.c.now(), nil)
	share := h.left() / time.Duration(max(1, h.c.servers.untried(asked)))
	a, err := h.c.tryWithin(h.ctx, min(h.ttl/3, renewalBound, share), server, renewal(h.id, &info))
	asked[server] = true
	switch {
	case err == nil:
		h.renewedBy(a.sent)
	case isOver(err) || errors.Is(err, ErrMaxHoldReached):
		h.end(&LostError{Name: h.name, Cause: err})
	case h.ctx.Err() == nil:
		h.mu.Lock()
		h.failure = err
		h.mu.Unlock()
	}
	return err
}

// renewedBy tells that a renewal sent then was answered.
func (h *heart) renewedBy(sent time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewed, h.failure = max(h.renewed, sent), nil
	select {
	case h.told <- struct{}{}:
	default:
	}
}

// isOver says whether it is latchkey that answered, and that the lease is gone. Any other 404 is of something between.
func isOver(err error) bool {
	told := (*Error)(nil)
	if !errors.As(err, &told) {
		return false
	}
	return told.Code == ErrLeaseNotFound || told.Code == ErrLockNotFound || told.Code != "" && told.Status == http.StatusGone
}
