package server

import (
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/latchkey/latchkey/store"
)

// tally is what each principal has through this replica: its claims and its own leases. What was last heard of longer
// than its TTL ago counts no more; so this is a bound for each replica, as nothing is asked of the store for it.
type tally struct {
	mostClaims, mostLeases int

	mu sync.Mutex
	of map[string]*holdings
}

type holdings struct {
	// claims has the lease that each claim is on, by the claim's id.
	claims map[string]string
	// known are the claims that a repeat of its request finds again, and so needs no room: see handle.
	known map[string]string
	// leases are the client's own.
	leases map[string]bool
	// until is how long what is on a lease counts, next when the first of them stops to.
	until map[string]time.Time
	next  time.Time
	// under way are those not answered yet.
	claimsUnderWay, leasesUnderWay int
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
func (t *tally) claim(who string, c store.Claim) error {
	if who == "" || t.mostClaims == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holdings(who)
	if h.claimsUnderWay+len(h.claims) >= t.mostClaims {
		h.sweepIfDue(time.Now())
	}
	if _, repeat := h.known[handle(c)]; repeat {
		h.claimsUnderWay++
		return nil
	}
	if h.claimsUnderWay+len(h.claims) >= t.mostClaims {
		return tooMany("too_many_claims", "Too many claims", "claims", t.mostClaims)
	}
	h.claimsUnderWay++
	return nil
}

// settle notes what came of a claim that room was made for.
func (t *tally) settle(who string, c store.Claim, l store.Lock, err error) {
	if who == "" || t.mostClaims == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holdings(who)
	h.claimsUnderWay--
	by := handle(c)
	switch {
	case err == nil:
		delete(h.claims, by)
		h.claims[l.ID] = l.LeaseID
		h.keep(l.LeaseID, l.TTL)
		if by != "" {
			h.known[by] = l.ID
		}
	case errors.Is(err, store.ErrUnknown) && by != "": // it may stand, and its repeat must find it
		if _, had := h.known[by]; !had {
			h.known[by], h.claims[by] = by, by
			h.keep(by, max(c.TTL, defaultTTL))
		}
	}
	t.tidy(who, h)
}

// lease makes room for a lease, until settleLease is called.
func (t *tally) lease(who string) error {
	if who == "" || t.mostLeases == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holdings(who)
	if h.leasesUnderWay+len(h.leases) >= t.mostLeases {
		h.sweepIfDue(time.Now())
	}
	if h.leasesUnderWay+len(h.leases) >= t.mostLeases {
		return tooMany("too_many_leases", "Too many leases", "leases", t.mostLeases)
	}
	h.leasesUnderWay++
	return nil
}

func (t *tally) settleLease(who string, l store.Lease, err error) {
	if who == "" || t.mostLeases == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holdings(who)
	h.leasesUnderWay--
	if err == nil {
		h.leases[l.ID] = true
		h.keep(l.ID, l.TTL)
	}
	t.tidy(who, h)
}

// kept notes that a lease, or a claim with one of its own, goes on.
func (t *tally) kept(who, id string, ttl time.Duration) {
	if who == "" || t.mostClaims == 0 && t.mostLeases == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.of[who]; h != nil && !h.until[id].IsZero() {
		h.keep(id, ttl)
	}
}

// ended notes that a claim, or a lease with all that is on it, is gone.
func (t *tally) ended(who, id string) {
	if who == "" || t.mostClaims == 0 && t.mostLeases == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.of[who]
	if h == nil {
		return
	}
	if h.leases[id] {
		delete(h.until, id)
		h.sweep(time.Now())
	} else {
		delete(h.claims, id)
		delete(h.until, id)
	}
	t.tidy(who, h)
}

func (t *tally) holdings(who string) *holdings {
	if t.of == nil {
		t.of = map[string]*holdings{}
	}
	h := t.of[who]
	if h == nil {
		h = &holdings{
			claims: map[string]string{}, known: map[string]string{}, leases: map[string]bool{}, until: map[string]time.Time{},
		}
		t.of[who] = h
	}
	return h
}

// spareLeases is how many leases may be known that nothing known is on.
const spareLeases = 64

// tidy forgets a principal that has nothing, and leases that nothing is on.
func (t *tally) tidy(who string, h *holdings) {
	if most := 2*(len(h.claims)+len(h.leases)) + spareLeases; len(h.until) > most || len(h.known) > most {
		h.drop()
	}
	if len(h.claims)+len(h.leases)+h.claimsUnderWay+h.leasesUnderWay == 0 {
		delete(t.of, who)
	}
}

func (h *holdings) keep(lease string, ttl time.Duration) {
	until := time.Now().Add(ttl)
	h.until[lease] = until
	if h.next.IsZero() || until.Before(h.next) {
		h.next = until
	}
}

// drop forgets the leases that nothing is on, and how claims that are gone were known.
func (h *holdings) drop() {
	for by, id := range h.known {
		if _, there := h.claims[id]; !there {
			delete(h.known, by)
		}
	}
	used := make(map[string]time.Time, len(h.claims)+len(h.leases))
	for _, lease := range h.claims {
		used[lease] = h.until[lease]
	}
	for lease := range h.leases {
		used[lease] = h.until[lease]
	}
	h.until = used
}

// sweepIfDue sweeps when there can be something to drop: whoever is refused again and again must not cost a sweep each time.
func (h *holdings) sweepIfDue(now time.Time) {
	if !now.Before(h.next) {
		h.sweep(now)
	}
}

// sweep drops what counts no more. It is dear, and comes only when a bound is reached or a lease ends.
func (h *holdings) sweep(now time.Time) {
	h.next = time.Time{}
	for lease, until := range h.until {
		if now.After(until) {
			delete(h.until, lease)
		} else if h.next.IsZero() || until.Before(h.next) {
			h.next = until
		}
	}
	for id, lease := range h.claims {
		if h.until[lease].IsZero() {
			delete(h.claims, id)
		}
	}
	for id := range h.leases {
		if h.until[id].IsZero() {
			delete(h.leases, id)
		}
	}
	h.drop()
}
