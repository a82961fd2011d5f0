package store

import (
	"context"
	"errors"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// claimed is what the transaction of a claim has come to: one of busy, found, held or queued, or in the way of itself.
type claimed struct {
	st    standing
	found bool // it stood already
	// left says that the claim found under its key is one that was gone before.
	left bool
	// sent is when its lease was last started, zero if that is not proven.
	sent time.Time
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
	defer a.s.claiming.Add(-1)
	if a.s.claiming.Add(1) > int64(a.s.cfg.MaxClaims) {
		return claimed{}, ErrOverloaded
	}
	waiting := 0
	if r != nil {
		waiting = r.waiting(a.c.Name)
	}
	if waiting > a.s.cfg.MaxQueue {
		return claimed{}, ErrTooManyWaiters
	}
	taken := waiting > 0
	a.mark()
	a.counts = 2*waiting >= a.s.cfg.MaxQueue // the view can be behind: near the bound the transaction itself counts
	for {
		got, err := a.send(ctx, r, sl, taken)
		switch {
		case taken && err != nil && !errors.Is(err, errLeaseMoved):
		case err == nil && got.left:
			if err := a.removeLeft(ctx, got.st); err != nil {
				return claimed{}, err
			}
			continue
		case errors.Is(err, errLeaseMoved):
			a.s.forget(a.c.LeaseID)
			if err := a.describeLease(ctx); err != nil {
				return claimed{}, err
			}
			continue
		case errors.Is(err, rpctypes.ErrLeaseNotFound) && a.c.LeaseID != "":
			return claimed{}, ErrNoLease
		case errors.Is(err, rpctypes.ErrLeaseNotFound) && ctx.Err() == nil:
			continue // the etcd lease ran out before it was used
		}
		return a.inBounds(ctx, r, got, err)
	}
}

// mark says in the claim of a principal through which replica it is made, so that only that one counts it.
func (a *acquire) mark() {
	a.wish.here = true
	if a.wish.Owner != "" && a.s.shares() {
		a.wish.Via = a.s.keys.via
	}
}

// removeLeft removes a claim that was gone, and stands again as etcd was set back: whoever made it was told that it is
// gone, and it has a token of before. The name is claimed anew, under another key.
func (a *acquire) removeLeft(ctx context.Context, st standing) error {
	_, err := a.s.commit(ctx, nil, func(r *registration, _ bool) (part, error) { return r.releasePart(st.lockID()), nil })
	if err != nil {
		return unavailable(err)
	}
	a.spare = spare{nonce: newNonce()}
	a.wish.nonce = a.spare.nonce
	a.wish.key = a.s.keys.claim(a.wish.name, a.wish.nonce)
	return nil
}

// inBounds sorts how a claim's transaction went, and refuses the claim that made the queue longer than it may be.
func (a *acquire) inBounds(ctx context.Context, r *registration, got claimed, err error) (claimed, error) {
	if err != nil {
		return claimed{}, unavailableUnlessOurs(err)
	}
	if int(got.queue)-1 > a.s.cfg.MaxQueue {
		return claimed{}, a.tooMany(ctx, r, got.st)
	}
	return got, nil
}

// tooMany takes back a claim that made the queue longer than it may be.
func (a *acquire) tooMany(ctx context.Context, r *registration, st standing) error {
	if _, err := r.takeOut(ctx, st); err != nil && !errors.Is(err, ErrNoLock) {
		r.abandon(st)
	}
	return ErrTooManyWaiters
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

// send sends the claim's transaction and takes the answer apart. With taken it does not ask whether the name is free,
// and needs no footing.
func (a *acquire) send(ctx context.Context, bound *registration, sl *slot, taken bool) (claimed, error) {
	var f *footing
	var held standing
	var tried []clientv3.LeaseID
	ans, err := a.s.commit(ctx, bound, func(r *registration, again bool) (part, error) {
		if !taken && (f == nil || f.own && again) {
			var err error
			_, _ = f.abandon()
			if f, err = r.footing(ctx, a.wish, a.record, a.c.Arrived); err != nil {
				return part{}, err
			}
			tried = append(tried, f.id)
		}
		if f != nil {
			held = f.holds(a.wish, r)
		}
		return a.part(held, sl, taken, again), nil
	})
	if err != nil {
		f.afterFailure(err)
		return claimed{}, err
	}
	got, err := a.take(ans, held, sl, taken)
	if err == nil && f != nil && !got.left && got.st.Held && got.st.Lease == f.id {
		got.sent = f.proven(ctx, ans.term)
	} else {
		f.unused()
	}
	if err == nil && got.busy != nil && !ans.again {
		ans.reg.spares.put(a.wish, ans.revision) // nothing of it is there, and nothing can come
	}
	if a.c.LeaseID == "" && got.st.Held && slices.Contains(tried, got.st.Lease) {
		got.found = false // if it stood already, by an attempt of this call that went unanswered
	}
	return got, err
}

// asks reports that the transaction must ask whether the claim stands already. Nobody else makes the nonce of a claim
// that nobody can find again; but one that was used before can stand again when etcd was set back.
func (a *acquire) asks(again bool) bool { return a.findable || again || a.spare.gone > 0 }

// part is the claim's transaction. That the name is free comes first: then the claim does not stand either, and it is
// one compare and one put.
func (a *acquire) part(held standing, sl *slot, taken, again bool) part {
	k, w := a.s.keys, a.wish
	p := part{subject: k.queue(w.name), creates: w.key, grants: w.key}
	otherwise := a.otherwise(sl, taken)
	if a.asks(again) {
		p.cmps, p.then, p.els = []clientv3.Cmp{exists(w.key)}, []clientv3.Op{clientv3.OpGet(w.key)}, otherwise
	} else {
		p.then = otherwise
	}
	var onLease []clientv3.Cmp
	if a.record != nil { // a claim on a lease that has ended is refused, not queued
		key := k.leaseOf(w.ClientLease)
		onLease = []clientv3.Cmp{a.record.stands(key)}
		p.cmps, p.then, p.els = onLease, []clientv3.Op{clientv3.OpTxn(p.cmps, p.then, p.els)}, []clientv3.Op{clientv3.OpGet(key, clientv3.WithKeysOnly())}
	}
	if taken {
		if a.c.Wait > 0 {
			p.patient = time.Now().Add(queueingPatience)
		}
		return p
	}
	if len(p.cmps) > 0 {
		p.then = []clientv3.Op{clientv3.OpTxn(p.cmps, p.then, p.els)}
	}
	free := clientv3.Compare(clientv3.CreateRevision(k.queue(w.name)), "=", 0).WithRange(k.queueEnd(w.name))
	p.cmps, p.els = append([]clientv3.Cmp{free}, onLease...), p.then
	p.then = []clientv3.Op{clientv3.OpPut(held.key, held.encode(), clientv3.WithLease(held.Lease))}
	return p
}

// otherwise is what is done when the name is not free and the claim does not stand: it is queued, or the queue described.
func (a *acquire) otherwise(sl *slot, taken bool) []clientv3.Op {
	if sl == nil {
		return a.describe()
	}
	ops := []clientv3.Op{clientv3.OpPut(a.wish.key, a.wish.encode(), clientv3.WithLease(sl.id))}
	if !taken || a.counts {
		k, name := a.s.keys, a.c.Name
		ops = append(ops, clientv3.OpGet(k.queue(name), clientv3.WithRange(k.queueEnd(name)), clientv3.WithCountOnly()))
	}
	return ops
}

// take takes the answer to the claim's transaction apart.
func (a *acquire) take(ans answer, held standing, sl *slot, taken bool) (claimed, error) {
	if !taken && ans.ok {
		a.s.metrics.grants.Inc()
		held.created, held.modified, held.onLease = ans.revision, ans.revision, held.Lease
		return claimed{st: held}, nil
	}
	ok, ops := ans.ok, ans.ops
	asks := a.asks(ans.again)
	if !taken && (asks || a.c.LeaseID != "") {
		ok, ops = inner(ops)
	}
	if a.c.LeaseID != "" {
		switch {
		case !ok && len(ops[0].GetResponseRange().Kvs) > 0:
			return claimed{}, errLeaseMoved
		case !ok:
			return claimed{}, ErrNoLease
		}
		ok, ops = inner(ops)
	}
	switch {
	case asks && ok:
		st, err := a.s.keys.standing(ops[0].GetResponseRange().Kvs[0])
		// A random nonce is nobody else's: then it was an attempt of this call that went unanswered.
		return claimed{st: st, found: a.findable, left: st.created <= a.spare.gone}, err
	case sl != nil:
		st := a.wish
		st.created, st.modified, st.onLease = ans.revision, ans.revision, sl.id
		got := claimed{st: st}
		if len(ops) > 1 {
			got.queue = ops[1].GetResponseRange().Count
		}
		return got, nil
	}
	found := rangesOf(ops)
	busy, err := a.s.keys.busy(found[0].Kvs, found[1].Count)
	return claimed{busy: busy}, err
}

// inner is the answer to the one transaction nested in another.
func inner(ops []*pb.ResponseOp) (ok bool, answers []*pb.ResponseOp) {
	nested := ops[0].GetResponseTxn()
	return nested.Succeeded, nested.Responses
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
