package store

import (
	"context"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// heir is the place that is granted by the very transaction that releases the claim before it: one quorum write a
// hand-off, where the event of the release and a second write would be needed. If any compare of the grant fails, the
// transaction just releases, and the line grants as ever.
type heir struct {
	p     *place
	st    standing
	since time.Time
	f     *footing
	held  standing
	// tried says that the transaction last sent was to grant it.
	tried bool
}

// heirOf is the place behind a claim, if it is this replica's to grant, and kept for that until the release is over.
func (s *Store) heirOf(want lockID) *heir {
	r := s.registration()
	if r == nil {
		return nil
	}
	r.mu.Lock()
	l := r.lines[want.name]
	r.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.behind(want)
	if next == nil {
		return nil
	}
	p := l.places[next.key]
	if p == nil || !p.due(next) {
		return nil
	}
	p.busy, p.turn = true, time.Now()
	return &heir{p: p, st: p.st, since: p.since}
}

// behind is the second claim of a queue whose first one is the one named; nil if the view does not show that. l.mu is
// held.
func (l *line) behind(first lockID) *standing {
	if !l.whole || len(l.view.order) < 2 {
		return nil
	}
	if head := l.view.order[0]; head.nonce != first.nonce || head.created != first.revision {
		return nil
	}
	return l.view.order[1]
}

// commit releases the claim and grants the heir with it, if there is one. Only the first attempt does both: a repeat
// must not grant what may be granted already.
func (h *heir) commit(ctx context.Context, s *Store, want lockID, besides []clientv3.Op) (answer, error) {
	if h == nil {
		return s.commit(ctx, nil, func(r *registration, _ bool) (part, error) { return r.releasePart(want, besides...), nil })
	}
	defer h.p.done()
	a, err := s.commit(ctx, nil, func(r *registration, again bool) (part, error) {
		h.tried = !again && r == h.p.line.r && h.prepare(ctx, r)
		if !h.tried {
			_, _ = h.f.abandon()
			return r.releasePart(want, besides...), nil
		}
		return h.part(r, want, besides), nil
	})
	if ofOne(err) && h.tried && !a.again {
		h.f.afterFailure(err)
		return s.commit(ctx, nil, func(r *registration, _ bool) (part, error) { return r.releasePart(want, besides...), nil })
	}
	if err == nil && h.tried {
		h.take(ctx, &a)
	}
	return a, err
}

// prepare gets the heir an etcd lease to stand on.
func (h *heir) prepare(ctx context.Context, r *registration) bool {
	if h.f == nil {
		var err error
		if h.f, err = r.standOn(ctx, h.st, h.since); err != nil {
			return false
		}
	}
	h.held = h.f.holds(h.st, r)
	return true
}

// part is the release, with the grant nested in it.
func (h *heir) part(r *registration, want lockID, besides []clientv3.Op) part {
	release, grant := r.releasePart(want), r.grantPart(h.st, h.held, h.f)
	both := slices.Concat(release.then, grant.then, besides)
	alone := slices.Concat(release.then, grant.els, besides)
	return part{
		subject: release.subject,
		touches: append(release.touches, grant.touches...),
		grants:  grant.grants,
		urgent:  grant.urgent,
		cmps:    release.cmps,
		then:    []clientv3.Op{clientv3.OpTxn(grant.cmps, both, alone)},
	}
}

// take takes the answer apart: what is left of it is that of the release.
func (h *heir) take(ctx context.Context, a *answer) {
	if !a.ok {
		h.f.unused()
		return
	}
	inner := a.ops[0].GetResponseTxn()
	a.ops = inner.Responses
	if !inner.Succeeded {
		h.f.unused()
		h.refused(inner.Responses[1].GetResponseRange())
		return
	}
	h.held.modified, h.held.onLease = a.revision, h.held.Lease
	h.p.granted(h.held, h.f.proven(ctx, a.term), nil)
}

// refused notes how the heir stands that could not be granted.
func (h *heir) refused(found *pb.RangeResponse) {
	r := h.p.line.r
	if now, err := r.stands(h.st, found); err == nil {
		h.p.line.mu.Lock()
		defer h.p.line.mu.Unlock()
		h.p.saw(now)
	}
}

// goneFrom takes a claim out of the view that this replica has removed. That does not bring the view forward; but what
// is gone stays gone, and is ahead of nobody.
func (r *registration) goneFrom(want lockID) {
	r.mu.Lock()
	l := r.lines[want.name]
	r.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := r.s.keys.claim(want.name, want.nonce)
	if st := l.view.byKey[key]; l.whole && st != nil && st.created == want.revision {
		l.view.remove(key)
		l.step()
	}
}
