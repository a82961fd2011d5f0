package store

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// serve attaches a request to a queued claim that it found, and adopts the claim if another replica serves it. The
// place is nil if the claim turns out to be held; ErrNoLock if it is gone.
func (r *registration) serve(ctx context.Context, st standing) (*place, standing, error) {
	for {
		if p := r.attachTo(st); p != nil {
			return p, st, nil
		}
		if err := r.room(); err != nil {
			return nil, st, err
		}
		sl, err := r.presence.take(ctx)
		if err != nil {
			return nil, st, err
		}
		now, err := r.adopt(ctx, st, sl)
		if err == nil && !now.Held {
			r.s.metrics.adopted.Inc()
			p := r.join(now, sl, true)
			p.tookOver()
			return p, now, nil
		}
		if errors.Is(err, ErrUnknown) {
			r.resolve(st, sl, true)
			return nil, st, err
		}
		r.presence.give(sl)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound) && ctx.Err() == nil:
			r.presence.lost(sl)
			continue
		case !errors.Is(err, errMoved):
			return nil, now, err
		}
		st = now
	}
}

// Look shows the claim to its owner. It neither keeps a place nor renews anything.
func (s *Store) Look(ctx context.Context, id string) (Lock, error) {
	want, ok := s.openID(ctx, id)
	if !ok {
		return Lock{}, ErrNoLock
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestBound)
	defer cancel()
	got, err := s.read(ctx, clientv3.OpGet(s.keys.claim(want.name, want.nonce)), s.aheadOf(want.name, want.revision))
	if err != nil {
		return Lock{}, err
	}
	st, err := s.found(got.ranges[0], want)
	if err != nil {
		return Lock{}, s.toldIfBroken(ctx, id, err)
	}
	l := st.lock()
	if !st.Held {
		l.Position = len(got.ranges[1].Kvs)
	}
	return l, nil
}

// Ask asks for the claim: it keeps its place for one waiting TTL more, takes the grant if its turn has come, and waits
// for it otherwise. It returns the lock Held or still Queued, or fails with ErrNoLock or a *BrokenError; ErrPlaceLost or
// ErrNoLease if the claim or its client's lease went while it waited; ErrMaxHold, ErrOverloaded, ErrUnavailable,
// ErrUnknown.
func (s *Store) Ask(ctx context.Context, id string, wait time.Duration, arrived time.Time) (Lock, error) {
	var p *place
	var st standing
	var err error
	onAnotherStack(func() { p, st, err = s.ask(ctx, id, arrived) })
	if err != nil {
		return Lock{}, s.toldIfBroken(ctx, id, err)
	}
	if p == nil {
		return s.heldLock(ctx, st, time.Time{}, arrived)
	}
	defer p.detach()
	waiting, cancel := s.waitContext(ctx, wait)
	defer cancel()
	st, sent, err := p.await(waiting)
	if errors.Is(err, errWaitOver) || errors.Is(err, ErrDraining) {
		st, sent, err = s.endAsk(p)
	}
	l, err := s.asked(ctx, p, st, sent, arrived, err)
	return l, s.toldIfBroken(ctx, id, err)
}

// endAsk ends a poll. A grant under way is seen through, so that a client whose turn has come is told.
func (s *Store) endAsk(p *place) (standing, time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.RequestBound)
	defer cancel()
	p.inView(ctx)
	if p.quiet(ctx) {
		defer p.done()
	}
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	return p.st, p.sent, p.over
}

// inView waits until the view contains the claim, at the latest until ctx ends: only then is it known whether its turn
// has come, and if so the grant is under way.
func (p *place) inView(ctx context.Context) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	for ctx.Err() == nil && l.ctx.Err() == nil && p.over == nil && !p.held {
		if _, ok := l.view.ahead(p.key, p.st.created); ok && l.whole {
			return
		}
		p.block(ctx)
	}
}

// catchUp is for a claim that was asked for again, without a wait: what was done before that must count. If etcd has it
// first in line, the view is brought there, so that its grant is under way, at the latest until ctx ends.
func (p *place) catchUp(ctx context.Context) {
	l := p.line
	k := l.r.s.keys
	got, err := l.r.s.read(ctx, clientv3.OpGet(k.queue(l.name), append(clientv3.WithFirstCreate(), clientv3.WithRange(k.queueEnd(l.name)))...))
	if err != nil || len(got.ranges[0].Kvs) == 0 || string(got.ranges[0].Kvs[0].Key) != p.key {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for ctx.Err() == nil && l.ctx.Err() == nil && p.over == nil && !p.held && !p.busy {
		if head := l.view.head(); l.whole && head != nil && head.key == p.key {
			l.step()
			return
		}
		select {
		case l.recheck <- struct{}{}:
		default:
		}
		p.block(ctx)
	}
}

func (s *Store) asked(ctx context.Context, p *place, st standing, sent, arrived time.Time, err error) (Lock, error) {
	if err != nil {
		return Lock{}, err
	}
	if st.Held {
		return s.heldLock(ctx, st, sent, arrived)
	}
	l := st.lock()
	l.Position, err = s.position(ctx, p, 0)
	return l, err
}

// ask finds the claim that id names and attaches to it. The place is nil if it is held.
func (s *Store) ask(ctx context.Context, id string, arrived time.Time) (*place, standing, error) {
	want, ok := s.openID(ctx, id)
	if !ok {
		return nil, standing{}, ErrNoLock
	}
	bound, cancel := s.bounded(ctx, arrived)
	defer cancel()
	r, err := s.registered(bound)
	if err != nil {
		return nil, standing{}, err
	}
	got, err := s.read(bound, clientv3.OpGet(s.keys.claim(want.name, want.nonce)))
	if err != nil {
		return nil, standing{}, err
	}
	st, err := s.found(got.ranges[0], want)
	if err != nil || st.Held {
		return nil, st, err
	}
	return r.serve(bound, st)
}

// heldLock tells of a held lock, once its lease is known to have most of its TTL before it.
func (s *Store) heldLock(ctx context.Context, st standing, sent, arrived time.Time) (Lock, error) {
	if err := s.confirm(ctx, &st, sent, arrived); err != nil {
		return Lock{}, err
	}
	return st.lock(), nil
}

// positionsEvery is how often a stream is told of a new position, at most.
const positionsEvery = 10 * time.Second

// Follow asks for the claim and tells how it stands: at once, then when its position has changed, at most once in 10 s,
// until it is held, and then returns nil. It fails like Ask, and with ErrDraining; an error before anything was told
// means that there is nothing to follow.
func (s *Store) Follow(ctx context.Context, id string, arrived time.Time, tell func(Lock) error) error {
	return s.toldIfBroken(ctx, id, s.follow(ctx, id, arrived, tell))
}

func (s *Store) follow(ctx context.Context, id string, arrived time.Time, tell func(Lock) error) error {
	var p *place
	var st standing
	var err error
	onAnotherStack(func() { p, st, err = s.ask(ctx, id, arrived) })
	if err != nil {
		return err
	}
	if p != nil {
		defer p.detach()
	}
	told := -1
	for wait := time.Duration(0); p != nil; wait = positionsEvery {
		waiting, cancel := s.waitContext(ctx, wait)
		now, sent, err := p.await(waiting)
		cancel()
		if err == nil {
			l, err := s.heldLock(ctx, now, sent, arrived)
			return errOr(err, tell, l)
		}
		if !errors.Is(err, errWaitOver) {
			return err
		}
		l, err := s.asked(ctx, p, p.now(), time.Time{}, arrived, nil)
		if err != nil {
			return err
		}
		if l.State == Queued && l.Position == told {
			continue
		}
		if err := tell(l); err != nil || l.State == Held {
			return err
		}
		told = l.Position
	}
	l, err := s.heldLock(ctx, st, time.Time{}, arrived)
	return errOr(err, tell, l)
}

func errOr(err error, tell func(Lock) error, l Lock) error {
	if err != nil {
		return err
	}
	return tell(l)
}

func (p *place) now() standing {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	return p.st
}
