package latchkey

import (
	"context"
	"errors"
	"sync"
	"time"
)

// LeaseOptions say what lease to make. The zero value is one of 30 s.
type LeaseOptions struct {
	TTL      time.Duration     // whole seconds, within the service's bounds (2 s to 24 h by default); 30 s if 0
	Holder   string            // shown to others: up to 255 bytes
	Metadata map[string]string // shown to others: up to 16 pairs, 2048 bytes in all
	Margin   time.Duration     // as in [LockOptions]
}

// Lease is a lease of one's own: many locks on one heartbeat. It is safe for use by several goroutines.
type Lease struct {
	c     *Client
	heart *heart
	locks roster

	release  sync.Once
	released bool
	err      error
}

// Lease makes a lease and keeps it by a heartbeat until its Release. When ctx ends later that changes nothing.
func (c *Client) Lease(ctx context.Context, opts LeaseOptions) (*Lease, error) {
	seconds, err := checkTTL(opts.TTL, opts.Margin)
	if err != nil {
		return nil, err
	}
	info, a, err := c.createLease(ctx, LeaseRequest{TTLSeconds: seconds, Holder: opts.Holder, Metadata: opts.Metadata}, true)
	if err != nil {
		return nil, err
	}
	ttl := time.Duration(info.TTLSeconds) * time.Second
	lease := &Lease{c: c, heart: newHeart(ctx, c, "", info.ID, ttl, marginOf(opts.Margin, ttl), a.sent)}
	lease.heart.beats.Go(lease.lookAfterRenewals)
	if err := lease.Check(); err != nil { // the answer took too long
		lease.Release()
		return nil, err
	}
	return lease, nil
}

// checkTTL returns the TTL as the service wants it.
func checkTTL(ttl, margin time.Duration) (int64, error) {
	if ttl == 0 {
		ttl = defaultTTL
	}
	seconds, err := wholeSeconds("TTL", ttl)
	if margin < 0 || margin > ttl/2 {
		err = errors.Join(err, errMargin)
	}
	return seconds, err
}

var errMargin = errors.New("latchkey: Margin must be from 0 to half of the TTL")

// Lock takes a lock on this lease, as [Client.Lock] does: the lease's heartbeat keeps it, and its end is the lock's. TTL and
// Margin are the lease's, and must not be given.
func (l *Lease) Lock(ctx context.Context, name string, opts LockOptions) (*Lock, error) {
	if opts.TTL != 0 || opts.Margin != 0 {
		return nil, errors.New("latchkey: TTL and Margin of a lock on a lease are the lease's")
	}
	return l.c.acquire(ctx, name, opts, l)
}

// during is ctx for as long as the lease stands.
func (l *Lease) during(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.heart.ctx, func() { cancel(l.Check()) })
	return ctx, func() { stop(); cancel(nil) }
}

// ID is a capability: whoever knows it can renew and end the lease.
func (l *Lease) ID() string { return l.heart.id }

// TTL is how long the lease outlives its last renewal.
func (l *Lease) TTL() time.Duration { return l.heart.ttl }

// Held says whether the lease stands now. See Check.
func (l *Lease) Held() bool { return l.Check() == nil }

// Check returns nil if the lease stands now, else why not, as [Lock.Check] does.
func (l *Lease) Check() error { return l.heart.check() }

// Remaining is the time in which the lease surely stands, as for [Lock.Remaining].
func (l *Lease) Remaining() time.Duration { return l.heart.remaining() }

// Context returns a child of parent that ends also when the lease stands no more, as [Lock.Context] does.
func (l *Lease) Context(parent context.Context) context.Context {
	return newHeldContext(parent, l.heart.ctx, l.Check)
}

// Release ends the lease: every lock on it is free at once. What it returns is as for [Lock.Release].
func (l *Lease) Release() (bool, error) {
	l.release.Do(func() {
		lost := l.heart.stop(ErrReleased)
		l.released, l.err = l.c.giveBack(l.heart.ctx, "leases/", l.heart.id, "", lost)
	})
	return l.released, l.err
}
