package store

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// pool keeps the etcd leases of released locks for the next ones: beginning and revoking a lease is by far the dearest
// thing that etcd does for a lock (a revoke forces a disk commit). A lease comes here only from the replica whose
// answered transaction removed what was on it, so it is in one pool at the most and nothing is on it.
type pool struct {
	r *registration

	mu   sync.Mutex
	idle map[time.Duration][]idleLease
	size int
}

// idleLease is one that nothing is on.
type idleLease struct {
	id clientv3.LeaseID
	// until is how long it lasts, by the last renewal that a member answered.
	until time.Time
	// proven is when the last renewal was sent that is known to count; zero if none is.
	proven time.Time
}

const (
	// pooledTTL is the longest TTL that is pooled: what is idle when a replica dies runs out by itself.
	pooledTTL = time.Minute
	// maxIdle bounds the pool. The surplus is revoked, slowly.
	maxIdle = 512
	// leastLeft is what a lease must have left to be taken: it is renewed beside the transaction that uses it.
	leastLeft = 2 * time.Second
)

// take takes the lease that was used last: those that nobody needs run out.
func (p *pool) take(ttl time.Duration) (idleLease, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for leases := p.idle[ttl]; len(leases) > 0; {
		last := leases[len(leases)-1]
		leases = leases[:len(leases)-1]
		p.idle[ttl] = leases
		p.size--
		if p.usable(last) {
			return last, true
		}
	}
	return idleLease{}, false
}

// put takes in a lease that nothing is on, renewed if it has not most of its TTL left.
func (p *pool) put(ttl time.Duration, l idleLease) {
	if ttl > pooledTTL {
		p.r.s.tidy.revoke(l.id)
		return
	}
	switch {
	case !p.r.s.fresh(l.id):
		p.r.s.tidy.revoke(l.id)
		return
	case time.Until(l.until) > ttl/2:
		p.push(ttl, l)
		return
	}
	p.r.spawn(func() {
		ctx, cancel := context.WithTimeout(p.r.ctx, p.r.s.cfg.RequestBound)
		defer cancel()
		if k, err := p.r.s.keepAliveBefore(ctx, l.id, l.until); err == nil {
			p.push(ttl, idleLease{id: l.id, until: k.sent.Add(k.ttl)})
		}
	})
}

func (p *pool) push(ttl time.Duration, l idleLease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size == maxIdle {
		p.r.s.tidy.revoke(l.id)
		return
	}
	if p.idle == nil {
		p.idle = make(map[time.Duration][]idleLease)
	}
	p.idle[ttl] = append(p.idle[ttl], l)
	p.size++
}

// usable reports that a lease lasts, and was begun in this term of etcd's.
func (p *pool) usable(l idleLease) bool {
	return time.Until(l.until) > leastLeft && p.r.s.fresh(l.id)
}

// prune forgets the leases that can be used no more.
func (p *pool) prune() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = 0
	for ttl, leases := range p.idle {
		kept := leases[:0]
		for _, l := range leases {
			if p.usable(l) {
				kept = append(kept, l)
			}
		}
		if p.size += len(kept); len(kept) == 0 {
			delete(p.idle, ttl)
			continue
		}
		p.idle[ttl] = kept
	}
}

// count is how many leases are idle.
func (p *pool) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size
}
