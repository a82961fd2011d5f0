package store

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// footing is the etcd lease that a claim is to be put on when it is held: one of its own, out of the pool or new, or its
// client's. One that was not begun for this is renewed beside the transaction: whoever holds anew has a whole TTL.
//
// An own one is for one attempt. An attempt that went unanswered may have been applied, the claim been found by its key
// and released through another replica, and the lease be in the pool there: then it is neither used again nor given back.
type footing struct {
	r   *registration
	own bool
	// client is the public id of a client's lease, record what it then was.
	client string
	record *leaseRecord
	id     clientv3.LeaseID
	ttl    time.Duration
	// sent is when it was last started for certain; until, up to when it is known to last.
	sent, until time.Time
	// renewal is the one that goes on beside the transaction; nil without one.
	renewal *keepCall
}

// freshPart is the part of its TTL for which a renewal need not be repeated when the lease goes to another claim: half of
// what may have passed when a client is told that it holds.
const freshPart = 6

// footing makes one for a claim that somebody has been waiting for since then. record is that of its client's lease, if it
// is on one.
func (r *registration) footing(ctx context.Context, st standing, record *leaseRecord, since time.Time) (*footing, error) {
	if record != nil && record.over() {
		return nil, ErrMaxHold
	}
	if record != nil {
		f := &footing{r: r, client: st.leaseID(), record: record, id: record.Lease, ttl: st.ttl()}
		f.until = r.witnesses.until(f.client)
		f.renew()
		return f, nil
	}
	if idle, ok := r.pool.take(st.ttl()); ok {
		f := &footing{r: r, own: true, id: idle.id, ttl: st.ttl(), sent: idle.proven, until: idle.until}
		if f.sent.Before(since) || time.Since(f.sent) > f.ttl/freshPart {
			f.renew()
		}
		return f, nil
	}
	g, err := r.s.beginLease(ctx, holdLease, st.ttl())
	if err != nil {
		return nil, err
	}
	return &footing{r: r, own: true, id: g.id, ttl: g.ttl, sent: g.sent, until: g.sent.Add(g.ttl)}, nil
}

// holds is the claim as it stands on the footing once it is held, in the epoch of r.
func (f *footing) holds(st standing, r *registration) standing {
	st.Held, st.Lease, st.Base = true, f.id, r.epoch.Base
	st.TTLSeconds = int64(f.ttl / time.Second)
	if st.holdEnd = r.s.cfg.newHold(); f.record != nil {
		st.holdEnd = f.record.holdEnd // it is renewed with its client's lease
	}
	return st
}

// renew begins the renewal beside the transaction.
func (f *footing) renew() {
	f.sent = time.Time{}
	f.renewal, _ = f.r.s.keepers.join(f.id, f.until) // if it cannot begin, nothing is proven
}

// proven is when the lease was last started, if a transaction of that term which put a claim on it proves that; else
// zero. The lease must have been begun in that term, too.
func (f *footing) proven(ctx context.Context, term uint64) time.Time {
	sent := f.sent
	if f.renewal != nil {
		k, err := f.r.s.keepers.wait(ctx, f.renewal)
		if err != nil {
			return time.Time{}
		}
		sent = k.provenBy(term)
	}
	switch {
	case !begunIn(f.id, term), f.record != nil && f.record.Was != 0: // then it is not all of the lease that was renewed
		return time.Time{}
	case f.renewal != nil && !f.own && !sent.IsZero():
		f.r.witnesses.extend(f.client, sent.Add(f.ttl))
	}
	return sent
}

// unused gives a footing back that certainly nothing is on.
func (f *footing) unused() {
	if k, err := f.abandon(); err == nil && k.ttl > 0 {
		f.until = k.sent.Add(k.ttl)
	}
	if f != nil && f.own {
		f.r.pool.put(f.ttl, idleLease{f.id, f.until, f.sent})
	}
}

// abandon is for a footing that is dead, or of which nobody knows what is on it: it is left to run out. It waits for
// nothing.
func (f *footing) abandon() (kept, error) {
	if f == nil || f.renewal == nil {
		return kept{}, nil
	}
	renewal := f.renewal
	f.renewal = nil
	return f.r.s.keepers.leave(renewal, errNoAnswer)
}

// afterFailure gives the footing of a transaction that failed back, if certainly nothing is on it and it stands.
func (f *footing) afterFailure(err error) {
	if errors.Is(err, ErrUnknown) || errors.Is(err, rpctypes.ErrLeaseNotFound) {
		_, _ = f.abandon()
		return
	}
	f.unused()
}

// provenBy is when the renewal was sent, if a transaction of that term proves it; else zero.
func (k kept) provenBy(term uint64) time.Time {
	if k.term == 0 || k.term != term {
		return time.Time{}
	}
	return k.sent
}
