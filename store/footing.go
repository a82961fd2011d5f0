package store

import (
	"context"
	"time"

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
	// client is the public id of a client's lease.
	client string
	id     clientv3.LeaseID
	ttl    time.Duration
	// sent is when it was last started for certain; until, up to when it is known to last.
	sent, until time.Time
	// renewed tells of the renewal beside the transaction; nil without one.
	renewed <-chan kept
}

// freshPart is the part of its TTL for which a renewal need not be repeated when the lease goes to another claim: half of
// what may have passed when a client is told that it holds.
const freshPart = 6

// footing makes one for a claim that somebody has been waiting for since then.
func (r *registration) footing(ctx context.Context, c claim, since time.Time) (*footing, error) {
	if c.ClientLease != "" {
		f := &footing{r: r, client: c.ClientLease, id: c.Lease, ttl: c.ttl(), until: r.witnesses.until(c.ClientLease)}
		f.renewed = r.s.renewBeside(ctx, f.id, f.until)
		return f, nil
	}
	if idle, ok := r.pool.take(c.ttl()); ok {
		f := &footing{r: r, own: true, id: idle.id, ttl: c.ttl(), sent: idle.proven, until: idle.until}
		if f.sent.Before(since) || time.Since(f.sent) > f.ttl/freshPart {
			f.renewed = r.s.renewBeside(ctx, f.id, f.until)
		}
		return f, nil
	}
	id := newHoldLease()
	g, err := r.s.grantLease(ctx, id, c.ttl())
	if err != nil {
		return nil, err
	}
	return &footing{r: r, own: true, id: id, ttl: g.ttl, sent: g.sent, until: g.sent.Add(g.ttl)}, nil
}

// holds is the claim as it stands on the footing once it is held, in the epoch of r.
func (f *footing) holds(st standing, r *registration) standing {
	st.Held, st.Lease, st.Base = true, f.id, r.epoch.Base
	st.TTLSeconds = int64(f.ttl / time.Second)
	return st
}

// proven is when the lease was last started, if a transaction of that term which put a claim on it proves that; else
// zero.
func (f *footing) proven(term uint64) time.Time {
	if f.renewed == nil {
		return f.sent
	}
	sent := (<-f.renewed).provenBy(term)
	if !f.own && !sent.IsZero() {
		f.r.witnesses.extend(f.client, sent.Add(f.ttl))
	}
	return sent
}

// unused gives a footing back that certainly nothing is on.
func (f *footing) unused() {
	if f == nil || !f.own {
		return
	}
	select {
	case k := <-f.renewed: // never, without a renewal
		if k.ttl > 0 {
			f.until = k.sent.Add(k.ttl)
		}
	default:
	}
	f.r.pool.put(f.ttl, idleLease{f.id, f.until, f.sent})
}

// renewBeside starts a renewal that goes on beside a transaction. The lease is known to last until then.
func (s *Store) renewBeside(ctx context.Context, id clientv3.LeaseID, until time.Time) <-chan kept {
	done := make(chan kept, 1)
	go func() {
		defer close(done)
		if k, err := s.keepAliveBefore(ctx, id, until); err == nil {
			done <- k
		}
	}()
	return done
}

// provenBy is when the renewal was sent, if a transaction of that term proves it; else zero.
func (k kept) provenBy(term uint64) time.Time {
	if k.term == 0 || k.term != term {
		return time.Time{}
	}
	return k.sent
}
