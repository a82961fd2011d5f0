package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// waitContext ends with the client, when the wait is over, or when this replica drains.
func (s *Store) waitContext(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, stopTimer := context.WithTimeoutCause(ctx, wait, errWaitOver)
	stopDrain := context.AfterFunc(s.draining, func() { cancel(ErrDraining) })
	return ctx, func() { stopDrain(); stopTimer(); cancel(nil) }
}

// onAnotherStack does what calls deep, for somebody who then waits long: a stack that has grown keeps its size for as
// long as more than a quarter of it is in use, for thousands of waiters.
func onAnotherStack(do func()) {
	var deep sync.WaitGroup
	deep.Go(do)
	deep.Wait()
}

// wait waits in the queue until the claim is granted or the wait ends, and then keeps or leaves the place as the claim
// asks. queue counts the claims on the name when it was queued; 0 if that is not known.
func (a *acquire) wait(ctx context.Context, p *place, queue int64) (Lock, error) {
	defer p.detach()
	waiting, cancel := a.s.waitContext(ctx, a.c.Wait)
	st, sent, err := p.await(waiting)
	cancel()
	if errors.Is(err, errWaitOver) || errors.Is(err, ErrDraining) {
		st, sent, err = a.endWait(p, err)
	}
	switch {
	case err == nil && st.Held:
		return a.held(ctx, st, sent, false)
	case err == nil:
		l := st.lock()
		l.untold = !a.findable
		l.Position, err = a.s.position(ctx, p, queue)
		return l, err
	case errors.Is(err, errWaitOver):
		return Lock{}, a.s.whoHolds(ctx, p.line, a)
	}
	gone := p.now()
	return Lock{}, a.s.toldIfBroken(ctx, gone.id(), err)
}

// endWait ends a wait that has brought no grant so far. A grant under way is seen through: exactly one outcome. It
// returns the claim held after all, or queued if it stands on and is told so; else why it ended.
func (a *acquire) endWait(p *place, why error) (standing, time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), a.s.cfg.RequestBound)
	defer cancel()
	if !a.c.Queue && errors.Is(why, errWaitOver) {
		seen, stop := context.WithTimeout(ctx, a.s.cfg.RequestBound/2) // the rest is for leaving
		p.inView(seen)                                                 // a repeat may be first in line before that is known here
		if a.c.Wait == 0 {
			p.catchUp(seen)
		}
		stop()
	}
	if !p.quiet(ctx) {
		if p.line.r.ctx.Err() != nil {
			return standing{}, time.Time{}, ErrUnavailable
		}
		return standing{}, time.Time{}, ErrUnknown
	}
	defer p.done()
	st, mine, ended, err := p.look()
	switch {
	case ended:
		return st, p.sent, err
	case errors.Is(why, ErrDraining) && a.findable && !a.c.Queue:
		return standing{}, time.Time{}, why
	case a.c.Queue, !mine: // else another request of this client may wait for it, here or elsewhere
		p.tell()
		return st, time.Time{}, nil
	}
	if trouble := p.inTrouble(); trouble != nil && errors.Is(why, errWaitOver) {
		why = trouble
	}
	return p.giveUp(ctx, why)
}

// inTrouble is why the claim, first in line, could not be granted: then that is what its client is told, and not that
// the lock is busy.
func (p *place) inTrouble() error {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	if p.trouble == nil {
		return nil
	}
	return fmt.Errorf("%w: %v", ErrUnavailable, p.trouble) // whatever that was: by now it is certain that it was not done
}

// look tells how the claim stands, whether it is this request's alone to take out, and whether it is held or gone.
func (p *place) look() (st standing, mine, ended bool, err error) {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	return p.st, p.attached == 1 && p.mine() && !p.shared(), p.held || p.over != nil, p.over
}

// tell notes that the claim's id is told to its client, who can ask for it from now on.
func (p *place) tell() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	p.findable = true
}

// giveUp takes the claim out of the queue while its client is there to be told if it is held instead. The place is
// quiet.
func (p *place) giveUp(ctx context.Context, why error) (standing, time.Time, error) {
	for ctx.Err() == nil {
		st, _, _, _ := p.look()
		now, err := p.line.r.takeOut(ctx, st)
		p.line.mu.Lock()
		switch {
		case errors.Is(err, ErrNoLock):
			p.over = ErrPlaceLost
			p.line.mu.Unlock()
			return standing{}, time.Time{}, why
		case err != nil:
			p.line.mu.Unlock()
			return standing{}, time.Time{}, fmt.Errorf("%w: %v", ErrUnavailable, err) // whatever that was: the place is settled in the background
		}
		p.learn(now)
		now = p.st
		p.held = now.Held
		moved := !now.Held && !p.mine()
		if moved && p.attached == 1 {
			p.over = errMoved
		}
		p.line.mu.Unlock()
		if now.Held || moved { // moved: the client waits at another replica, and that place is left alone
			return now, time.Time{}, nil
		}
	}
	return standing{}, time.Time{}, ErrUnavailable
}

// whoHolds describes the queue to a client that has waited in vain.
func (s *Store) whoHolds(ctx context.Context, l *line, a *acquire) error {
	if busy := l.busy(a.wish.key); busy != nil {
		return busy
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestBound)
	defer cancel()
	got, err := s.read(ctx, a.describe()...)
	if err != nil {
		return &HeldError{} // that nothing was granted is certain; the details are not
	}
	busy, err := s.keys.busy(got.ranges[0].Kvs, got.ranges[1].Count)
	if err != nil {
		return err
	}
	return busy
}

// position counts the claims ahead of a queued one.
func (s *Store) position(ctx context.Context, p *place, queue int64) (int, error) {
	if n, ok := p.line.ahead(p); ok {
		return n, nil
	}
	if queue > 0 {
		return int(queue) - 1, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestBound)
	defer cancel()
	p.line.mu.Lock()
	st := p.st
	p.line.mu.Unlock()
	got, err := s.read(ctx, s.aheadOf(st.name, st.created))
	if err != nil {
		return 0, err
	}
	return len(got.ranges[0].Kvs), nil
}

// aheadOf lists the keys of the claims before the one that was created at a revision. It costs the length of the queue:
// only a replica that does not watch the name pays that.
func (s *Store) aheadOf(name string, created int64) clientv3.Op {
	return clientv3.OpGet(s.keys.queue(name), clientv3.WithRange(s.keys.queueEnd(name)),
		clientv3.WithMaxCreateRev(created-1), clientv3.WithKeysOnly())
}
