package store

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Claim claims a name. It returns the lock Held, or Queued if c.Queue keeps its place or another request of this client may
// wait for it still, or fails:
//
//	*HeldError         another claim has the name, and nothing of this one stands
//	ErrNoLease         no such lease, or it ended while the claim waited on it
//	ErrMaxHold         the claim found, or the lease, was held for as long as it may be
//	ErrKeyReused       the key stands for a claim that asked for something else
//	*InputError        a value cannot be kept
//	ErrTooManyWaiters  the name's queue is full
//	ErrOverloaded      this replica does as much at a time as it may
//	ErrDraining        this replica is going away; a claim with a key keeps its place
//	ErrPlaceLost       the claim vanished while it waited
//	ErrUnavailable     nothing was done
//	ErrUnknown         it may have been done: repeat with the same key
//
// When ctx ends the client has left: a claim that nobody can ask for again goes with it.
func (s *Store) Claim(ctx context.Context, c Claim) (Lock, error) {
	a, err := s.newAcquire(c)
	if err != nil {
		return Lock{}, err
	}
	l, err := a.run(ctx)
	switch {
	case errors.Is(err, ErrNoLock):
		err = ErrPlaceLost // it ran out between its grant and this answer
	case errors.Is(err, ErrNoLease):
		s.forget(c.LeaseID)
	}
	return l, err
}

// acquire is one call of Claim on its way.
type acquire struct {
	s *Store
	c Claim
	// wish is the claim as it is to stand: all repeats of its transaction ask for this one.
	wish standing
	// spare is what the nonce of a claim is that nobody can find again.
	spare spare
	// findable says that a later request can find the claim again.
	findable bool
	// record is that of the client's lease, if the claim is to be on one.
	record *leaseRecord
	// counts asks for the length of the queue where the name is known to be taken.
	counts bool
}

func (s *Store) newAcquire(c Claim) (*acquire, error) {
	if err := checkName(c.Name); err != nil {
		return nil, err
	}
	if err := checkShown(c.Holder, c.Metadata); err != nil {
		return nil, err
	}
	if c.Key != "" {
		if err := checkKey(c.Key); err != nil {
			return nil, err
		}
	}
	if c.LeaseID == "" {
		if err := s.checkTTL(c.TTL); err != nil {
			return nil, err
		}
	}
	if c.Arrived.IsZero() {
		c.Arrived = time.Now()
	}
	return &acquire{s: s, c: c, findable: c.Key != "" || c.LeaseID != ""}, nil
}

func (a *acquire) run(ctx context.Context) (Lock, error) {
	bound, cancel := a.s.bounded(ctx, a.c.Arrived)
	defer cancel()
	r, err := a.s.registered(bound)
	if err != nil {
		return Lock{}, err
	}
	if err := a.describeWish(bound, r); err != nil {
		return Lock{}, err
	}
	if a.c.Wait == 0 && !a.c.Queue {
		return a.try(ctx, bound, r)
	}
	if a.s.draining.Err() != nil {
		return Lock{}, ErrDraining
	}
	return a.enqueue(ctx, bound, r)
}

// describeWish fills in the claim to be made.
func (a *acquire) describeWish(ctx context.Context, r *registration) error {
	a.nameWish(ctx, r)
	if a.c.LeaseID != "" {
		return a.describeLease(ctx)
	}
	return nil
}

// nameWish fills in what the claim is found by, and what is known without etcd. Its nonce is random, or one that a repeat
// makes again.
func (a *acquire) nameWish(ctx context.Context, r *registration) {
	principal := ownerOf(ctx)
	c, w := a.c, standing{name: a.c.Name, ids: a.s.keys.ids}
	w.Owner = principal
	w.TTLSeconds, w.Holder, w.Metadata = int64(c.TTL/time.Second), c.Holder, c.Metadata
	switch {
	case c.Key != "":
		w.nonce, w.Digest = derive(r.secret, 'k', principal, c.Name, c.Key), c.digest()
	case c.LeaseID != "":
		w.nonce = derive(r.secret, 'l', principal, c.Name, c.LeaseID)
	default:
		a.spare = r.spares.take(c.Name)
		w.nonce = a.spare.nonce
	}
	w.key = a.s.keys.claim(w.name, w.nonce)
	a.wish = w
}

// describeLease fills in the client's lease that the claim is to be on.
func (a *acquire) describeLease(ctx context.Context) error {
	key, ok := a.s.keys.ids.openLease(a.c.LeaseID, a.wish.Owner)
	if !ok {
		return ErrNoLease
	}
	var err error
	if a.record, err = a.s.knownLease(ctx, a.c.LeaseID, key); err != nil {
		return err
	}
	switch {
	case a.record.Owner != a.wish.Owner:
		return ErrNoLease
	case a.record.over():
		return ErrMaxHold // a claim on it would renew it
	}
	a.wish.ClientLease, a.wish.Lease, a.wish.TTLSeconds = key, a.record.Lease, a.record.TTLSeconds
	return nil
}

// try claims the name if it is free, and leaves nothing otherwise.
func (a *acquire) try(ctx, bound context.Context, r *registration) (Lock, error) {
	if a.s.hot.is(a.c.Name) {
		busy, err := a.peek(bound)
		if err != nil {
			return Lock{}, err
		}
		if busy != nil {
			return Lock{}, busy
		}
	}
	got, err := a.claim(bound, nil, nil)
	switch {
	case err != nil:
		if errors.Is(err, ErrUnknown) {
			r.resolve(a.wish, nil, a.findable)
		}
		return Lock{}, err
	case got.busy != nil:
		a.s.hot.note(a.c.Name)
		return Lock{}, got.busy
	case got.found:
		return a.replay(ctx, bound, r, got.st, got.sent)
	}
	return a.held(ctx, got.st, got.sent, false)
}

// peek reads a name that was busy lately, before an etcd lease is begun for nothing. Nil if it may be free, or if the
// caller's own claim stands on it.
func (a *acquire) peek(ctx context.Context) (*HeldError, error) {
	ops := append([]clientv3.Op{clientv3.OpGet(a.wish.key, clientv3.WithKeysOnly())}, a.describe()...)
	if a.c.LeaseID != "" { // what is remembered of it may be over
		ops = append(ops, clientv3.OpGet(a.s.keys.leaseOf(a.wish.ClientLease), clientv3.WithKeysOnly()))
	}
	got, err := a.s.read(ctx, ops...)
	switch {
	case err != nil:
		return nil, err
	case a.c.LeaseID != "" && len(got.ranges[3].Kvs) == 0:
		return nil, ErrNoLease
	case len(got.ranges[0].Kvs) > 0 || got.ranges[2].Count == 0:
		return nil, nil
	}
	return a.s.keys.busy(got.ranges[1].Kvs, got.ranges[2].Count)
}

// enqueue claims the name, or a place in its queue, and waits there.
func (a *acquire) enqueue(ctx, bound context.Context, r *registration) (Lock, error) {
	if err := r.room(); err != nil {
		return Lock{}, err
	}
	sl, err := r.presence.take(bound)
	if err != nil {
		return Lock{}, err
	}
	var got claimed
	onAnotherStack(func() { got, err = a.claim(bound, r, sl) })
	switch {
	case errors.Is(err, ErrUnknown):
		r.resolve(a.wish, sl, a.findable)
		return Lock{}, err
	case err == nil && !got.found && !got.st.Held:
		return a.wait(ctx, r.join(got.st, sl, a.findable), got.queue)
	}
	r.presence.give(sl)
	switch {
	case err != nil:
		return Lock{}, err
	case got.found:
		return a.replay(ctx, bound, r, got.st, got.sent)
	}
	return a.held(ctx, got.st, got.sent, false)
}

// room refuses a waiter more than this replica may serve.
func (r *registration) room() error {
	if r.serving.Load() >= int64(r.s.cfg.MaxWaiters) {
		return ErrOverloaded
	}
	return nil
}

// replay goes on with a claim that an earlier request made: the key or the lease says that it is the same client.
func (a *acquire) replay(ctx, bound context.Context, r *registration, st standing, sent time.Time) (Lock, error) {
	if a.c.Key != "" && st.Digest != a.wish.Digest {
		return Lock{}, ErrKeyReused
	}
	var l Lock
	var err error
	if !st.Held {
		var p *place
		if p, st, err = r.serve(bound, st); err == nil && p != nil {
			l, err = a.wait(ctx, p, 0)
			l.Replayed = true
			return l, err
		}
	}
	if err == nil {
		l, err = a.held(ctx, st, sent, true)
	}
	if errors.Is(err, ErrNoLock) && bound.Err() == nil {
		return a.run(ctx) // it ran out just now: the request claims anew
	}
	return l, err
}

// held tells of a grant, once it is certain that the lease has most of its TTL before it, counted from this request.
func (a *acquire) held(ctx context.Context, st standing, sent time.Time, found bool) (Lock, error) {
	untold := !a.findable && !found
	if untold && ctx.Err() != nil {
		a.s.takeBack(st)
		return Lock{}, context.Cause(ctx)
	}
	if err := a.s.confirm(ctx, &st, sent, a.c.Arrived); err != nil {
		return Lock{}, err
	}
	l := st.lock()
	l.Replayed, l.untold = found, untold
	return l, nil
}
