package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// What a replica may do to a claim that it serves: grant it, adopt it, and take it out of the queue. Each is one
// transaction that compares the claim's mod-revision as last seen: a belief that has grown old must not undo what
// another replica did since.

// grantRetry bounds the pause before a grant that etcd did not answer is tried again.
const grantRetry = time.Second

// grant makes the claim held, trying as long as somebody waits for it here, and between two tries lets go of a place
// whose wait is over.
func (p *place) grant() {
	r := p.line.r
	again := false
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, grantRetry) {
		st, since, wanted := p.wanted(again)
		if !wanted {
			return
		}
		again = true
		ctx, cancel := context.WithTimeout(r.ctx, r.s.cfg.RequestBound)
		got, sent, err := r.grant(ctx, st, since)
		cancel()
		if p.granted(got, sent, err) {
			return
		}
		sleep(r.ctx, pause)
	}
}

// wanted is the claim as last seen, while it is queued and somebody waits for it here, and since when the last of them
// does. One whose wait is over wants the first try, but not another.
func (p *place) wanted(again bool) (st standing, since time.Time, wanted bool) {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	wanted = p.attached > 0 && p.over == nil && !p.st.Held && p.line.r.ctx.Err() == nil
	return p.st, p.since, wanted && !(again && p.ending > 0)
}

// granted notes how a grant went, and reports whether there is nothing more to try.
func (p *place) granted(got standing, sent time.Time, err error) bool {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	switch {
	case err == nil:
		p.st, p.held, p.sent = got, true, sent
		p.line.r.s.metrics.grant(p.queued, p.turn)
		if p.attached == 0 && !p.findable {
			p.line.r.s.takeBack(got)
		}
		return true
	case errors.Is(err, errMoved):
		p.learn(got)
		return true
	case errors.Is(err, ErrNoLock):
		p.over = ErrPlaceLost
		return true
	case errors.Is(err, ErrNoLease), errors.Is(err, ErrMaxHold):
		if p.over = ErrNoLease; errors.Is(err, ErrMaxHold) {
			p.over = ErrMaxHold
		}
		p.line.r.abandon(p.st)
		return true
	}
	p.trouble = err
	p.line.r.s.log.Debug("a grant is to be tried again", "cause", err)
	return p.ending > 0
}

// grant is one transaction: if the claim is as it was last seen, put it held, on an etcd lease that is its own or its
// client's. A second put keeps the create-revision, and with it place and token.
//
// since is when the last of those who wait for it came: the lease must have been started after that. It returns the claim as held and when its lease was last started; zero if that is not proven. Else errMoved with the
// claim as it stands, ErrNoLock if it is gone, ErrNoLease if its client's lease is, or what commit fails with.
func (r *registration) grant(ctx context.Context, st standing, since time.Time) (standing, time.Time, error) {
	for {
		got, sent, err := r.grantOnce(ctx, st, since)
		switch {
		case errors.Is(err, errLeaseMoved) && ctx.Err() == nil:
			r.s.forget(st.leaseID())
			continue
		case errors.Is(err, rpctypes.ErrLeaseNotFound) && st.ClientLease != "":
			err = ErrNoLease
		case errors.Is(err, rpctypes.ErrLeaseNotFound) && ctx.Err() == nil:
			continue // the etcd lease ran out before it was used
		}
		return got, sent, err
	}
}

func (r *registration) grantOnce(ctx context.Context, st standing, since time.Time) (standing, time.Time, error) {
	var f *footing
	var held standing
	a, err := r.s.commit(ctx, r, func(r *registration, again bool) (part, error) {
		if f == nil || f.own && again {
			_, _ = f.abandon()
			var err error
			if f, err = r.standOn(ctx, st, since); err != nil {
				return part{}, err
			}
		}
		held = f.holds(st, r)
		return r.grantPart(st, held, f), nil
	})
	if err != nil {
		f.afterFailure(err)
		return standing{}, time.Time{}, err
	}
	if a.ok {
		held.modified, held.onLease = a.revision, held.Lease
		return held, f.proven(ctx, a.term), nil
	}
	f.unused()
	now, err := r.stands(st, a.ops[0].GetResponseRange())
	switch {
	case err != nil:
		return standing{}, time.Time{}, err
	case now.Held: // an attempt that went unanswered, or another replica's grant: held is held
		return now, time.Time{}, nil
	case now.modified == st.modified && len(a.ops[1].GetResponseRange().Kvs) > 0:
		return now, time.Time{}, errLeaseMoved
	case now.modified == st.modified:
		return now, time.Time{}, ErrNoLease
	}
	return now, time.Time{}, errMoved
}

// standOn makes the footing for a claim that was queued: its client's lease can be on another etcd lease by now.
func (r *registration) standOn(ctx context.Context, st standing, since time.Time) (*footing, error) {
	if st.ClientLease == "" {
		return r.footing(ctx, st, nil, since)
	}
	record, err := r.s.knownLease(ctx, st.leaseID(), st.ClientLease)
	if err != nil {
		return nil, err
	}
	return r.footing(ctx, st, record, since)
}

// errLeaseMoved: the client's lease is on another etcd lease by now.
var errLeaseMoved = fmt.Errorf("%w: the client's lease was moved", ErrUnavailable)

func (r *registration) grantPart(st, held standing, f *footing) part {
	p := part{
		subject: r.s.keys.queue(st.name),
		touches: []string{st.key},
		grants:  st.key,
		urgent:  true,
		cmps:    []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(st.key), "=", st.modified)},
		then:    []clientv3.Op{clientv3.OpPut(st.key, held.encode(), clientv3.WithLease(held.Lease))},
		els:     []clientv3.Op{clientv3.OpGet(st.key)},
	}
	if f.record != nil {
		key := r.s.keys.leaseOf(st.ClientLease)
		p.cmps = append(p.cmps, f.record.stands(key))
		p.els = append(p.els, clientv3.OpGet(key, clientv3.WithKeysOnly()))
	}
	return p
}

func exists(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), ">", 0)
}

// stands reads the claim that a failed compare has found. ErrNoLock if it is gone, or another of the same key.
func (r *registration) stands(st standing, found *pb.RangeResponse) (standing, error) {
	if len(found.Kvs) == 0 || found.Kvs[0].CreateRevision != st.created {
		return standing{}, ErrNoLock
	}
	return r.s.keys.standing(found.Kvs[0])
}

// adopt puts the claim on this replica's waiting lease again, after another replica has adopted it.
func (p *place) adopt() {
	err := p.putOnSlot()
	if err == nil {
		p.line.r.s.metrics.adopted.Inc()
		return
	}
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	p.interrupt(err)
}

// putOnSlot puts the claim on a waiting lease of this replica that can be used, and notes how it then stands.
func (p *place) putOnSlot() error {
	r := p.line.r
	ctx, cancel := context.WithTimeout(r.ctx, r.s.cfg.RequestBound)
	defer cancel()
	for {
		p.line.mu.Lock()
		st, sl, next := p.st, p.slot, p.next
		p.line.mu.Unlock()
		taken := false
		switch {
		case sl == nil:
			return nil
		case r.presence.usable(sl):
		case next != nil && r.presence.usable(next):
			sl = next
		default:
			var err error
			if sl, err = r.presence.take(ctx); err != nil {
				return err
			}
			taken = true
		}
		if !p.aim(sl, taken) {
			continue // another request has put it on another slot meanwhile
		}
		got, err := r.adopt(ctx, st, sl)
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return p.put(got, err)
		}
		r.presence.lost(sl)
	}
}

// put notes how the claim stands after it was to be put on a slot.
func (p *place) put(got standing, err error) error {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	switch {
	case err == nil || errors.Is(err, errMoved):
		p.learn(got)
		p.arrive()
	case errors.Is(err, ErrNoLock):
		p.over = ErrPlaceLost
	default:
		return err
	}
	return nil
}

// adopt is one transaction: if the claim is as it was last seen, put it again on one of this replica's waiting leases.
// It returns the claim as it then stands, which can be held; errMoved if somebody else was faster; ErrNoLock.
func (r *registration) adopt(ctx context.Context, st standing, sl *slot) (standing, error) {
	a, err := r.s.commit(ctx, r, func(*registration, bool) (part, error) {
		return part{
			subject: r.s.keys.queue(st.name),
			touches: []string{st.key},
			cmps:    []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(st.key), "=", st.modified)},
			then:    []clientv3.Op{clientv3.OpPut(st.key, st.encode(), clientv3.WithLease(sl.id))},
			els:     []clientv3.Op{clientv3.OpGet(st.key)},
		}, nil
	})
	if err != nil {
		return standing{}, unavailableUnlessOurs(err)
	}
	if a.ok {
		st.modified, st.onLease = a.revision, sl.id
		return st, nil
	}
	now, err := r.stands(st, a.ops[0].GetResponseRange())
	if err == nil && !now.Held && now.onLease != sl.id {
		err = errMoved
	}
	return now, err
}

// leave takes the claim out of the queue, trying until that is certain, unless somebody asks for it meanwhile, here or
// at another replica: that place is not this one's to take.
func (p *place) leave() {
	r := p.line.r
	for pause := 20 * time.Millisecond; r.ctx.Err() == nil; pause = min(2*pause, grantRetry) {
		p.line.mu.Lock()
		if p.over == nil && !p.mine() && p.attached == 0 {
			p.over = errMoved
		}
		st, wanted := p.st, p.attached > 0 || p.over != nil
		p.line.mu.Unlock()
		if wanted {
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx, r.s.cfg.RequestBound)
		left := p.leaveOnce(ctx, st)
		cancel()
		if left {
			return
		}
		sleep(r.ctx, pause)
	}
}

// leaveOnce tries to take the claim out of the queue and reports whether that is settled: it is gone, or not ours to
// take away.
func (p *place) leaveOnce(ctx context.Context, st standing) bool {
	r := p.line.r
	now, err := r.takeOut(ctx, st)
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	switch {
	case errors.Is(err, ErrNoLock):
		p.over = ErrPlaceLost
		return true
	case err != nil:
		return false
	case now.Held && p.findable:
		p.st, p.held = now, true
		return true
	case now.Held:
		p.st, p.held = now, true
		r.s.takeBack(now) // nobody but this replica can have granted it, and nobody was told
		return true
	}
	p.learn(now)
	if p.mine() {
		return false
	}
	if p.attached == 0 { // whoever asks here meanwhile takes it back, or is told by the other's grant
		p.over = errMoved
	}
	return true
}

// takeOut is one transaction: if the claim is as it was last seen, delete it. ErrNoLock says that it is gone, by this
// or otherwise; else the claim as it stands is returned.
func (r *registration) takeOut(ctx context.Context, st standing) (standing, error) {
	a, err := r.s.commit(ctx, r, func(*registration, bool) (part, error) {
		return part{
			subject: r.s.keys.queue(st.name),
			touches: []string{st.key},
			cmps:    []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(st.key), "=", st.modified)},
			then:    []clientv3.Op{clientv3.OpDelete(st.key)},
			els:     []clientv3.Op{clientv3.OpGet(st.key)},
		}, nil
	})
	if err != nil {
		return standing{}, unavailableUnlessOurs(err)
	}
	if a.ok {
		r.spares.put(st, a.revision)
		return standing{}, ErrNoLock
	}
	return r.stands(st, a.ops[0].GetResponseRange())
}
