package server

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/latchkey/latchkey/store"
)

// tally is what each principal has got through this replica, its claims and its own leases, and what the other replicas say
// that it has got through them. A claim counts where it was made and nowhere else: a repeat that finds it elsewhere uses up
// nothing there. What ends elsewhere, or runs out, is not heard of here; so whoever seems to have too much is looked at in
// the store before being refused, at most once in lookAgainAfter.
//
// The others say (tell.go) what they knew at most three seconds ago, while etcd answers: two until a replica tells, and one
// until the others hear it. What a principal takes in that time through the other replicas is by how much it can get past the
// bound, up to the bound at each of them; and as long it can be refused for what ended since, or for lookAtLeast if that is too
// little to be looked at before. The part of a replica that is gone is not counted any more. In the way of an ordinary claim the store is asked for nothing, and in that of one with a key
// or a lease that is about to be refused for one key.
type tally struct {
	mostClaims, mostLeases int
	store                  standings

	mu         sync.Mutex
	young, old map[string]*holdings
}

// standings is what a tally asks of the store.
type standings interface {
	Gone(ctx context.Context, ids []string) ([]string, error)
	Find(ctx context.Context, claims []store.Claim) ([]store.Found, error)
	Others() []store.Word
}

const (
	lookAgainAfter = time.Second
	// lookBound is how long a look may take.
	lookBound = 2 * time.Second
	// maxTallied is how many principals are known, at the least once there are so many, and half of what they are at the most.
	maxTallied = 16_384
)

// handle is what a repeat of a claim is known by: its name with its key, or else with its lease. "" if there is neither.
func handle(c store.Claim) string {
	by := "k" + c.Key
	switch {
	case c.Key == "" && c.LeaseID == "":
		return ""
	case c.Key == "":
		by = "l" + c.LeaseID
	}
	sum := sha256.Sum256([]byte(c.Name + "\x00" + by)) // no name has a NUL
	return string(sum[:16])
}

// claim makes room for a claim, until settle is called with what came of it.
func (t *tally) claim(ctx context.Context, who string, c store.Claim) (settle func(store.Lock, error), err error) {
	if who == "" || t.mostClaims == 0 {
		return func(store.Lock, error) {}, nil
	}
	h, by := t.holdings(who), handle(c)
	elsewhere, _ := told(t.store.Others(), who)
	d, ok := h.beginClaim(by, c, t.mostClaims-elsewhere)
	if !ok {
		looked, err := h.look(ctx, t.store, lookAgainAfter)
		if err != nil {
			return nil, err
		}
		if looked {
			d, ok = h.beginClaim(by, c, t.mostClaims-elsewhere)
		}
	}
	if !ok {
		if d, ok, err = h.beginRepeat(ctx, t.store, by, c); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, tooMany("too_many_claims", "Too many claims", "claims", t.mostClaims)
	}
	return func(l store.Lock, err error) { h.settleClaim(by, d, l, err, ctx.Err() != nil) }, nil
}

// lease makes room for a lease, until settle is called.
func (t *tally) lease(ctx context.Context, who string) (settle func(store.Lease, error), err error) {
	if who == "" || t.mostLeases == 0 {
		return func(store.Lease, error) {}, nil
	}
	h := t.holdings(who)
	_, elsewhere := told(t.store.Others(), who)
	most := t.mostLeases - elsewhere
	if h.beginLease(most) {
		return h.settleLease, nil
	}
	looked, err := h.look(ctx, t.store, lookAgainAfter)
	switch {
	case err != nil:
		return nil, err
	case looked && h.beginLease(most):
		return h.settleLease, nil
	}
	return nil, tooMany("too_many_leases", "Too many leases", "leases", t.mostLeases)
}

// told is what the words of other replicas say that a principal has got through them.
func told(others []store.Word, who string) (claims, leases int) {
	for _, w := range others {
		n := w[who]
		claims, leases = claims+n[0], leases+n[1]
	}
	return claims, leases
}

// ended notes that a claim or a lease is gone. What was on a lease is found gone by the next look.
func (t *tally) ended(who, id string) {
	if who == "" || t.mostClaims == 0 && t.mostLeases == 0 {
		return
	}
	h := t.holdings(who)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(id)
}

func (t *tally) holdings(who string) *holdings {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.young[who]
	if h != nil {
		return h
	}
	if h = t.old[who]; h == nil {
		h = newHoldings()
	}
	if len(t.young) >= maxTallied || t.young == nil {
		t.old, t.young = t.young, map[string]*holdings{}
	}
	t.young[who] = h
	return h
}
