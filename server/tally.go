package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/latchkey/latchkey/store"
)

// tally is what each principal has got through this replica: its claims and its own leases. What ends elsewhere, or runs out,
// is not heard of here; so whoever seems to have too much is looked at in the store before being refused, at most once in
// lookAgainAfter. It is a bound for each replica: in the way of an ordinary claim the store is asked for nothing.
type tally struct {
	mostClaims, mostLeases int
	// gone tells which of a principal's claims and leases stand no more.
	gone func(ctx context.Context, ids []string) ([]string, error)

	mu         sync.Mutex
	young, old map[string]*holdings
}

const (
	lookAgainAfter = time.Second
	// lookBound is how long a look may take.
	lookBound = 2 * time.Second
	// maxTallied is how many principals are known, at the least once there are so many, and half of what they are at the most.
	maxTallied = 16_384
)

// holdings are those of one principal.
type holdings struct {
	mu sync.Mutex
	// claims has what each claim's repeat is known by, by its id; known has the reverse.
	claims, known map[string]string
	leases        map[string]bool
	// under way are those not answered yet.
	claimsUnderWay, leasesUnderWay int
	looked                         time.Time
}

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
	if !h.beginClaim(by, t.mostClaims) && !(h.look(ctx, t.gone) && h.beginClaim(by, t.mostClaims)) {
		return nil, tooMany("too_many_claims", "Too many claims", "claims", t.mostClaims)
	}
	return func(l store.Lock, err error) { h.settleClaim(by, l, err) }, nil
}

// beginClaim reports whether there is room. A repeat needs none.
func (h *holdings) beginClaim(by string, most int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, repeat := h.known[by]; !repeat && h.claimsUnderWay+len(h.claims) >= most {
		return false
	}
	h.claimsUnderWay++
	return true
}

func (h *holdings) settleClaim(by string, l store.Lock, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claimsUnderWay--
	switch {
	case err == nil && l.ID != "":
		h.forget(h.known[by])
		h.claims[l.ID] = by
		if by != "" {
			h.known[by] = l.ID
		}
	case errors.Is(err, store.ErrUnknown) && by != "": // it may stand, and its repeat must find it
		if _, had := h.known[by]; !had {
			h.known[by], h.claims[by] = by, by
		}
	}
}

// lease makes room for a lease, until settle is called.
func (t *tally) lease(ctx context.Context, who string) (settle func(store.Lease, error), err error) {
	if who == "" || t.mostLeases == 0 {
		return func(store.Lease, error) {}, nil
	}
	h := t.holdings(who)
	if !h.beginLease(t.mostLeases) && !(h.look(ctx, t.gone) && h.beginLease(t.mostLeases)) {
		return nil, tooMany("too_many_leases", "Too many leases", "leases", t.mostLeases)
	}
	return h.settleLease, nil
}

func (h *holdings) beginLease(most int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leasesUnderWay+len(h.leases) >= most {
		return false
	}
	h.leasesUnderWay++
	return true
}

func (h *holdings) settleLease(l store.Lease, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leasesUnderWay--; err == nil && l.ID != "" {
		h.leases[l.ID] = true
	}
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

// forget drops a claim or a lease. h.mu is held.
func (h *holdings) forget(id string) {
	if by, is := h.claims[id]; is && h.known[by] == id {
		delete(h.known, by)
	}
	delete(h.claims, id)
	delete(h.leases, id)
}

// look asks the store what of it all stands, and drops what does not. It reports false if it was done a moment ago.
func (h *holdings) look(ctx context.Context, gone func(context.Context, []string) ([]string, error)) bool {
	h.mu.Lock()
	if time.Since(h.looked) < lookAgainAfter {
		h.mu.Unlock()
		return false
	}
	h.looked = time.Now()
	ids := make([]string, 0, len(h.claims)+len(h.leases))
	for id := range h.claims {
		ids = append(ids, id)
	}
	for id := range h.leases {
		ids = append(ids, id)
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	over, err := gone(ctx, ids)
	if err != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range over {
		h.forget(id)
	}
	return true
}

func (t *tally) holdings(who string) *holdings {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.young[who]
	if h != nil {
		return h
	}
	if h = t.old[who]; h == nil {
		h = &holdings{claims: map[string]string{}, known: map[string]string{}, leases: map[string]bool{}}
	}
	if len(t.young) >= maxTallied || t.young == nil {
		t.old, t.young = t.young, map[string]*holdings{}
	}
	t.young[who] = h
	return h
}
