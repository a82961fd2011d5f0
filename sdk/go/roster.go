package latchkey

import (
	"context"
	"maps"
	"slices"
	"sync"
)

const (
	fewLocks   = 100 // on a lease: they are looked at after each renewal
	seldomLook = 10  // after each of so many renewals, where there are more
)

// roster is the locks that are held on a lease. It may be used by several goroutines.
type roster struct {
	mu       sync.Mutex
	all      map[*Lock]struct{}
	renewals int
}

func (r *roster) add(l *Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[*Lock]struct{}{}
	}
	r.all[l] = struct{}{}
}

func (r *roster) remove(l *Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, l)
}

// due are the locks to be looked at after a renewal.
func (r *roster) due() []*Lock {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.renewals++; len(r.all) > fewLocks && r.renewals%seldomLook != 0 {
		return nil
	}
	return slices.Collect(maps.Keys(r.all))
}

// lookAfterRenewals finds the locks that were broken or released elsewhere while the lease goes on: no renewal tells of them.
func (l *Lease) lookAfterRenewals() {
	for {
		select {
		case <-l.heart.told:
			l.look(l.heart.ctx)
		case <-l.heart.ctx.Done():
			return
		}
	}
}

// look ends the locks that stand no more. Those that are looked for were granted before the look was sent; and one that the
// lease does not have is lost only when the service says so of the lock itself.
func (l *Lease) look(ctx context.Context) {
	due := l.locks.due()
	if len(due) == 0 {
		return
	}
	status, err := l.c.LeaseStatus(ctx, l.heart.id)
	if err != nil {
		return // if the lease is over a renewal tells that
	}
	standing := map[string]bool{}
	for _, claim := range status.Locks {
		standing[claim.ID] = true
	}
	for _, lock := range due {
		if standing[lock.claim.ID] {
			continue
		}
		if _, err := l.c.Get(ctx, lock.claim.ID); isOver(err) {
			lock.end(&LostError{Name: lock.claim.Name, Cause: err})
		}
	}
}
