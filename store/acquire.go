package store

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Claim claims a name. It returns the lock Held, or Queued if c.Queue keeps its place, or fails:
//
//	*HeldError         another claim has the name, and nothing of this one stands
//	ErrNoLease         no such lease, or it ended while the claim waited on it
//	ErrKeyReused       the key stands for a claim that asked for something else
//	*InputError        a value cannot be kept
//	ErrTooManyWaiters  the name's queue is full
//	ErrOverloaded      this replica serves as many waiters as it may
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
	if errors.Is(err, ErrNoLock) {
		err = ErrPlaceLost // it ran out between its grant and this answer
	}
	return l, err
}

// acquire is one call of Claim on its way.
type acquire struct {
	s *Store
	c Claim
	// wish is the claim as it is to stand: all repeats of its transaction ask for this one.
	wish standing
	// findable says that a later request can find the claim again.
	findable bool
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

// describeWish fills in the claim to be made. Its nonce is random, or one that a repeat makes again.
func (a *acquire) describeWish(ctx context.Context, r *registration) error {
	// With authentication the principal goes in too; without it everyone is one.
	const principal = ""
	c, w := a.c, standing{name: a.c.Name}
	w.TTLSeconds, w.Holder, w.Metadata = int64(c.TTL/time.Second), c.Holder, c.Metadata
	switch {
	case c.Key != "":
		w.nonce, w.Digest = derive(r.secret, 'k', principal, c.Name, c.Key), c.digest()
	case c.LeaseID != "":
		w.nonce = derive(r.secret, 'l', principal, c.Name, c.LeaseID)
	default:
		w.nonce = newNonce()
	}
	if c.LeaseID != "" {
		lease, err := a.s.readLease(ctx, c.LeaseID)
		if err != nil {
			return err
		}
		w.ClientLease, w.Lease, w.TTLSeconds = c.LeaseID, lease.Lease, lease.TTLSeconds
	}
	w.key = a.s.keys.claim(w.name, w.nonce)
	a.wish = w
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
		return a.replay(ctx, bound, r, got.st)
	}
	return a.held(ctx, got.st, got.sent, false)
}

// peek reads a name that was busy lately, before an etcd lease is begun for nothing. Nil if it may be free, or if the
// caller's own claim stands on it.
func (a *acquire) peek(ctx context.Context) (*HeldError, error) {
	ops := append([]clientv3.Op{clientv3.OpGet(a.wish.key, clientv3.WithKeysOnly())}, a.describe()...)
	got, err := a.s.read(ctx, ops...)
	if err != nil || len(got.ranges[0].Kvs) > 0 || got.ranges[2].Count == 0 {
		return nil, err
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
	got, err := a.claim(bound, r, sl)
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
		return a.replay(ctx, bound, r, got.st)
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
func (a *acquire) replay(ctx, bound context.Context, r *registration, st standing) (Lock, error) {
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
		l, err = a.held(ctx, st, time.Time{}, true)
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

// describe looks at who holds the name and how many claims there are. The first costs the length of the queue, for
// etcd sorts it: only who was refused pays that.
func (a *acquire) describe() []clientv3.Op {
	k, name := a.s.keys, a.c.Name
	return []clientv3.Op{
		clientv3.OpGet(k.queue(name), append(clientv3.WithFirstCreate(), clientv3.WithRange(k.queueEnd(name)))...),
		clientv3.OpGet(k.queue(name), clientv3.WithRange(k.queueEnd(name)), clientv3.WithCountOnly()),
	}
}

func (k keys) busy(first []*mvccpb.KeyValue, count int64) (*HeldError, error) {
	e := &HeldError{QueueLength: int(count)}
	if len(first) == 0 {
		return e, nil
	}
	st, err := k.standing(first[0])
	if err != nil {
		return nil, err
	}
	if st.Held {
		e.Holder, e.QueueLength = st.shown(), int(count)-1
	}
	return e, nil
}

// claimed is what the transaction of a claim has come to: one of busy, found, held or queued.
type claimed struct {
	st    standing
	found bool // it stood already
	// sent is when its lease was last started, zero if that is not proven.
	sent time.Time
	term uint64
	busy *HeldError
	// queue counts the claims on the name, this one among them; 0 if that was not asked.
	queue int64
}

// claim is one transaction: if the claim stands already, read it; else, if the name is free, put it held; else put it
// queued on sl, or with no slot nothing.
//
// It is sent with an etcd lease to hold on. Only where this replica's own line shows that the name is taken is it just
// queued: comparing the whole range costs the length of the queue, inside etcd's serial apply.
func (a *acquire) claim(ctx context.Context, r *registration, sl *slot) (claimed, error) {
	if r != nil {
		if waiting := r.waiting(a.c.Name); waiting > a.s.cfg.MaxQueue {
			return claimed{}, ErrTooManyWaiters
		} else if waiting > 0 {
			got, err := a.send(ctx, r, sl, holdLease{}, true)
			return got, err
		}
	}
	for {
		got, err := a.claimFree(ctx, r, sl)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound) && a.c.LeaseID != "":
			return claimed{}, ErrNoLease
		case errors.Is(err, rpctypes.ErrLeaseNotFound) && ctx.Err() == nil:
			continue // the etcd lease ran out before it was used
		case err != nil:
			return got, unavailableUnlessOurs(err)
		}
		if int(got.queue)-1 > a.s.cfg.MaxQueue {
			return claimed{}, a.tooMany(ctx, r, got.st)
		}
		return got, nil
	}
}

// tooMany takes back a claim that made the queue longer than it may be.
func (a *acquire) tooMany(ctx context.Context, r *registration, st standing) error {
	if _, err := r.takeOut(ctx, st); err != nil && !errors.Is(err, ErrNoLock) {
		r.abandon(st)
	}
	return ErrTooManyWaiters
}

// claimFree claims a name that may be free: with an etcd lease to hold on.
func (a *acquire) claimFree(ctx context.Context, r *registration, sl *slot) (claimed, error) {
	if a.c.LeaseID != "" {
		renewed := a.s.renewBeside(ctx, a.wish.Lease)
		hold := holdLease{a.wish.Lease, granted{ttl: a.wish.ttl()}}
		got, err := a.send(ctx, r, sl, hold, false)
		if k := <-renewed; err == nil && got.st.Held {
			got.sent = k.provenBy(got.term)
		}
		return got, err
	}
	hold, err := a.s.newHold(ctx, a.wish.ttl())
	if err != nil {
		return claimed{}, err
	}
	got, err := a.send(ctx, r, sl, hold, false)
	if err == nil && got.st.Held && got.st.Lease == hold.id {
		got.sent, got.found = hold.sent, false // found: by an attempt of this call that went unanswered
		return got, nil
	}
	if !errors.Is(err, ErrUnknown) {
		a.s.tidy.revoke(hold.id) // nothing is on it
	}
	return got, err
}

// waiting counts the claims on a name that this replica watches; 0 if it cannot say.
func (r *registration) waiting(name string) int {
	r.mu.Lock()
	l := r.lines[name]
	r.mu.Unlock()
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.whole {
		return 0
	}
	return len(l.view.order)
}

// send sends the claim's transaction and takes the answer apart. With taken it does not ask whether the name is free.
func (a *acquire) send(ctx context.Context, r *registration, sl *slot, hold holdLease, taken bool) (claimed, error) {
	held := a.wish
	held.Held, held.Lease = true, hold.id
	held.TTLSeconds = int64(hold.ttl / time.Second)
	ans, err := a.s.commit(ctx, r, func(r *registration) part {
		held.Base = r.epoch.Base
		return a.part(held, sl, taken)
	})
	if err != nil {
		return claimed{}, err
	}
	ok, ops := ans.ok, ans.ops
	if a.c.LeaseID != "" {
		if !ok {
			return claimed{}, ErrNoLease
		}
		inner := ops[0].GetResponseTxn()
		ok, ops = inner.Succeeded, inner.Responses
	}
	if ok {
		st, err := a.s.keys.standing(ops[0].GetResponseRange().Kvs[0])
		// A random nonce is nobody else's: then it was an attempt of this call that went unanswered.
		return claimed{st: st, found: a.findable, term: ans.term}, err
	}
	free := ops[0].GetResponseTxn()
	switch {
	case free.Succeeded && !taken:
		a.s.metrics.grants.Inc()
		held.created, held.modified, held.onLease = ans.revision, ans.revision, hold.id
		return claimed{st: held, term: ans.term}, nil
	case sl != nil:
		st := a.wish
		st.created, st.modified, st.onLease = ans.revision, ans.revision, sl.id
		got := claimed{st: st}
		if len(free.Responses) > 1 {
			got.queue = free.Responses[1].GetResponseRange().Count
		}
		return got, nil
	}
	found := rangesOf(free.Responses)
	busy, err := a.s.keys.busy(found[0].Kvs, found[1].Count)
	return claimed{busy: busy}, err
}

func (a *acquire) part(held standing, sl *slot, taken bool) part {
	k, w := a.s.keys, a.wish
	var queued []clientv3.Op
	if sl != nil {
		queued = []clientv3.Op{clientv3.OpPut(w.key, w.encode(), clientv3.WithLease(sl.id))}
	}
	var free clientv3.Op
	switch {
	case taken:
		free = clientv3.OpTxn(nil, queued, nil)
	case sl != nil:
		count := clientv3.OpGet(k.queue(w.name), clientv3.WithRange(k.queueEnd(w.name)), clientv3.WithCountOnly())
		free = a.ifFree(held, append(queued, count))
	default:
		free = a.ifFree(held, a.describe())
	}
	p := part{
		grants: w.key,
		cmps:   []clientv3.Cmp{exists(w.key)},
		then:   []clientv3.Op{clientv3.OpGet(w.key)},
		els:    []clientv3.Op{free},
	}
	if a.c.LeaseID == "" {
		return p
	}
	return part{ // a claim on a lease that has ended is refused, not queued
		grants: w.key,
		cmps:   []clientv3.Cmp{exists(k.leaseOf(w.ClientLease))},
		then:   []clientv3.Op{clientv3.OpTxn(p.cmps, p.then, p.els)},
	}
}

func (a *acquire) ifFree(held standing, otherwise []clientv3.Op) clientv3.Op {
	k := a.s.keys
	return clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(k.queue(held.name)), "=", 0).WithRange(k.queueEnd(held.name))},
		[]clientv3.Op{clientv3.OpPut(held.key, held.encode(), clientv3.WithLease(held.Lease))},
		otherwise)
}
