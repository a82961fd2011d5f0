package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// presence keeps the etcd leases that this replica's queued claims are on: they stand as long as a replica serves them.
type presence struct {
	r *registration
	// every is how often they are renewed, ttl what is asked for: a waiting TTL after the last renewal that can fail.
	every, ttl time.Duration

	mu    sync.Mutex
	slots []*slot
	// growing holds a token while nobody asks etcd for another lease, moving while nobody moves places.
	growing, moving chan struct{}
}

// slot is one waiting lease.
type slot struct {
	id clientv3.LeaseID
	// ttl is what etcd granted.
	ttl time.Duration
	// The rest is the presence's.
	claims int
	// proven is when the last renewal was sent that is known to have worked.
	proven time.Time
	gone   bool
	late   bool
}

// claimsPerSlot bounds those on one etcd lease: under etcd's authentication a put costs the number of keys on its
// lease (365 ms a batch at 5,000).
const claimsPerSlot = 64

func newPresence(r *registration) presence {
	waiting := r.s.cfg.WaitingTTL
	every := waiting / 3
	return presence{
		r: r, every: every, ttl: max(roundUp(waiting+every+2*time.Second), r.least),
		growing: make(chan struct{}, 1), moving: make(chan struct{}, 1),
	}
}

func roundUp(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// take finds a place for one more queued claim.
func (p *presence) take(ctx context.Context) (*slot, error) {
	for {
		if sl := p.free(); sl != nil {
			return sl, nil
		}
		select {
		case p.growing <- struct{}{}:
		case <-ctx.Done():
			return nil, unavailable(context.Cause(ctx))
		}
		err := p.grow(ctx)
		<-p.growing
		if err != nil {
			return nil, err
		}
	}
}

func (p *presence) free() *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sl := range p.slots {
		if sl.claims < claimsPerSlot && !sl.gone && !sl.late && p.r.s.fresh(sl.id) {
			sl.claims++
			return sl
		}
	}
	return nil
}

// grow asks etcd for another lease, unless somebody has just done it.
func (p *presence) grow(ctx context.Context) error {
	if sl := p.free(); sl != nil {
		p.give(sl)
		return nil
	}
	g, err := p.r.s.beginLease(ctx, waitingLease, p.ttl)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots = append(p.slots, &slot{id: g.id, ttl: g.ttl, proven: g.sent})
	return nil
}

// give takes a claim off the slot. Nil is no slot.
func (p *presence) give(sl *slot) {
	if sl == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sl.claims--
}

// due are the leases to be renewed. One that nobody needs is let go, but for the last.
func (p *presence) due() []*slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keep []*slot
	spare := false
	for _, sl := range p.slots {
		switch {
		case sl.gone && sl.claims == 0:
			continue
		case sl.claims == 0 && (spare || !p.r.s.fresh(sl.id)):
			sl.gone = true
			p.r.s.tidy.revoke(sl.id)
			continue
		case sl.claims == 0:
			spare = true
		}
		keep = append(keep, sl)
	}
	p.slots = keep
	var due []*slot
	for _, sl := range keep {
		if !sl.gone {
			due = append(due, sl)
		}
	}
	return due
}

// renewAtOnce is how many renewals are under way together.
const renewAtOnce = 16

// renewRetry is the pause before a round of renewals is repeated that did not renew all.
const renewRetry = 300 * time.Millisecond

// run renews all waiting leases as long as the registration lasts. Replicas that started together do not stay in step,
// and a round that etcd did not answer, as while it elects a leader, is repeated at once.
func (p *presence) run() {
	pause := rand.N(p.every)
	for {
		sleep(p.r.ctx, pause)
		if p.r.ctx.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(p.r.ctx, p.r.s.cfg.RequestBound)
		pause = p.every - rand.N(p.every/10)
		if !p.renew(ctx) {
			pause = min(renewRetry, p.every)
		}
		cancel()
	}
}

// renew renews the registration's own lease and every waiting lease, and proves them all by one read. It reports whether
// all of them are. The own comes first: a replica that was stopped for so long that it has run out must not give those
// who waited here, and are told to go on elsewhere, another term.
func (p *presence) renew(ctx context.Context) bool {
	own := p.r.renewLease(ctx)
	if errors.Is(own, rpctypes.ErrLeaseNotFound) {
		p.r.over(errFenceGone)
		return false
	}
	due := p.due()
	oks := make([]kept, len(due))
	errs := make([]error, len(due))
	var work sync.WaitGroup
	gate := make(chan struct{}, renewAtOnce)
	for i, sl := range due {
		gate <- struct{}{}
		work.Go(func() {
			defer func() { <-gate }()
			oks[i], errs[i] = p.r.s.keepAlive(ctx, sl.id)
		})
	}
	work.Wait()
	got, err := p.r.s.read(ctx, clientv3.OpGet(p.r.key), p.r.s.allReplicas())
	if err == nil {
		p.r.s.meet(got.ranges[1])
		p.r.saw(got.ranges[0])
		if fence := firstOf(got.ranges[0].Kvs); own == nil && fence != nil && clientv3.LeaseID(fence.Lease) != p.r.onLease() {
			own = p.r.raise(ctx, p.r.behind()) // it was to be moved, and that went unanswered
		}
	}
	all := own == nil && err == nil
	for i, sl := range due {
		switch {
		case errors.Is(errs[i], rpctypes.ErrLeaseNotFound):
			p.lost(sl)
		case errs[i] == nil && err == nil && oks[i].term == got.header.RaftTerm:
			p.mu.Lock()
			sl.proven, sl.late = oks[i].sent, false
			p.mu.Unlock()
		default:
			all = false
		}
	}
	p.moveAll()
	return all
}

// lost gives up a lease that has run out. The claims on it went with it, as their lines will see; those that another
// replica has adopted meanwhile stand.
func (p *presence) lost(sl *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sl.gone = true
}

// usable reports that claims can go on a slot: its lease has not run out, and was begun in this term of etcd's.
func (p *presence) usable(sl *slot) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !sl.gone && p.r.s.fresh(sl.id)
}

// checkLate ends the waits on leases that could not be renewed for a third of their TTL: early enough for their
// clients to go on at another replica.
func (p *presence) checkLate() {
	late := map[*slot]bool{}
	p.mu.Lock()
	for _, sl := range p.slots {
		if !sl.late && !sl.gone && time.Since(sl.proven) > sl.ttl/3 {
			sl.late, late[sl] = true, true
		}
	}
	p.mu.Unlock()
	if len(late) == 0 {
		return
	}
	p.r.s.log.Warn("could not keep places in queues alive", "leases", len(late))
	p.r.eachPlace(func(pl *place) {
		if late[pl.slot] {
			pl.interrupt(ErrUnavailable)
		}
	})
}

// renewOnce is the last thing a closing replica does: what waits here then stands for one waiting TTL more.
func (p *presence) renewOnce(ctx context.Context) {
	for _, sl := range p.due() {
		if sl.claims == 0 {
			p.r.s.tidy.revoke(sl.id)
			continue
		}
		if _, err := p.r.s.keepAlive(ctx, sl.id); err != nil {
			p.r.s.log.Warn("a last renewal failed", "cause", err)
		}
	}
}
