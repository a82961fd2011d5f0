package latchkey

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Lock is a lock that is held, and kept by a heartbeat. It is safe for use by several goroutines.
type Lock struct {
	c     *Client
	claim Claim
	heart *heart
	ctx   context.Context // ends with why the lock is held no more
	end   func(error) error

	release  sync.Once
	released bool
	err      error
}

func (c *Client) newLock(ctx context.Context, claim Claim, margin, sent time.Duration) *Lock {
	h := newHeart(ctx, c, claim.Name, claim.LeaseID, time.Duration(claim.TTLSeconds)*time.Second, margin, sent)
	return &Lock{c: c, claim: claim, heart: h, ctx: h.ctx, end: h.stop}
}

// newLock is a lock without a heart of its own.
func (l *Lease) newLock(claim Claim) *Lock {
	lock := &Lock{c: l.c, claim: claim, heart: l.heart}
	ctx, cancel := context.WithCancelCause(l.heart.ctx)
	lock.ctx = ctx
	lock.end = func(err error) error {
		before := lock.Check()
		l.locks.remove(lock)
		cancel(err)
		return before
	}
	l.locks.add(lock)
	return lock
}

// Name is what is locked.
func (l *Lock) Name() string { return l.claim.Name }

// ID names this one claim for ever. It is a capability: whoever knows it can renew and release the lock.
func (l *Lock) ID() string { return l.claim.ID }

// LeaseID is the lease that the lock is on: its own ID, unless it was taken with [Lease.Lock].
func (l *Lock) LeaseID() string { return l.claim.LeaseID }

// Token is the fencing token: an integer below 2^53 that grows with every grant of the name and never changes while the lock is
// held. Send it with every write to what the lock protects.
func (l *Lock) Token() int64 { return l.claim.FencingToken }

// TTL is how long the lock outlives its last renewal.
func (l *Lock) TTL() time.Duration { return l.heart.ttl }

// Held says whether the lock is held now. See Check.
func (l *Lock) Held() bool { return l.Check() == nil }

// Check returns nil if the lock is held now, else an error that matches [ErrNotHeld] and says why: a [*LostError], an
// [*UncertainError], or [ErrReleased]. It compares the clock with the deadline and sends nothing.
func (l *Lock) Check() error {
	if err := l.heart.check(); err != nil {
		return err
	}
	return context.Cause(l.ctx)
}

// Remaining is the time in which nobody else can be granted the name, counted from when the last renewal that succeeded was
// sent. It goes on being told of a lock that is uncertain, and is 0 for one that is lost or released.
func (l *Lock) Remaining() time.Duration {
	if err := l.Check(); err != nil && !isUncertain(err) {
		return 0
	}
	return l.heart.remaining()
}

// Context returns a child of parent that ends also when the lock is held no more. context.Cause then returns what Check does.
func (l *Lock) Context(parent context.Context) context.Context {
	return newHeldContext(parent, l.ctx, l.Check)
}

// Release gives the lock back, ends its heartbeat and its contexts, and says whether it was this that removed the claim: false
// without an error is a lock that was gone already. It takes no context, as it must be done above all when one has ended; it
// returns within the client's Timeout. Each later call returns what the first did.
//
// If the lock was lost before, the error is the [*LostError] or [*UncertainError]: what was done under it may have met another
// holder's work. If the service could not be told, it is an [*UnreachableError], and the lock runs out after its TTL.
func (l *Lock) Release() (bool, error) {
	l.release.Do(func() {
		lost := l.end(ErrReleased)
		l.released, l.err = l.c.giveBack(l.ctx, "locks/", l.claim.ID, l.claim.Name, lost)
	})
	return l.released, l.err
}

// giveBack removes what was held until now, or was lost before.
func (c *Client) giveBack(ctx context.Context, path, id, name string, lost error) (bool, error) {
	bound := c.timeout
	if lost != nil {
		bound = leaveBound
	}
	ctx, cancel := detached(ctx, bound)
	defer cancel()
	a, err := c.remove(ctx, path, id, nil)
	switch {
	case lost != nil:
		return err == nil, lost
	case errors.Is(err, ErrLockBroken):
		return false, &LostError{Name: name, Cause: err}
	case isOver(err):
		return a.doubted, nil // an earlier try of this call removed it, or it was gone before
	}
	return err == nil, err
}
