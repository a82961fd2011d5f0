package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/latchkey/latchkey/store"
)

// holdings are what one principal has got through this replica.
type holdings struct {
	mu sync.Mutex
	// claims has what each claim's repeat is known by, by its id; known has the reverse.
	claims, known map[string]string
	leases        map[string]bool
	// nameless are the claims under way that no repeat can find, leasesUnderWay the leases.
	nameless, leasesUnderWay int
	// doubts are the other claims that are under way, and those that ended so that nobody knows, by what repeats are known by.
	// doubted counts those that may have been made here.
	doubts  map[string]*doubt
	doubted int
	// looked is when it was last looked at in the store, claimsThen and leasesThen what there was.
	looked                 time.Time
	claimsThen, leasesThen int
}

// doubt is a claim that may stand.
type doubt struct {
	claim store.Claim
	since time.Time
	// requests are those for it that are under way. lost says that one ended so that nobody knows.
	requests int
	lost     bool
	// elsewhere says that it stands and was made through another replica, which counts it.
	elsewhere bool
}

func newHoldings() *holdings {
	return &holdings{claims: map[string]string{}, known: map[string]string{}, leases: map[string]bool{}, doubts: map[string]*doubt{}}
}

// beginClaim reports whether there is room. A repeat needs none. The claim counts until settleClaim.
func (h *holdings) beginClaim(by string, c store.Claim, room int) (*doubt, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d, repeat := h.join(by); repeat {
		return d, true
	}
	switch {
	case h.claimsNow() >= room:
		return nil, false
	case by == "":
		h.nameless++
		return nil, true
	}
	return h.doubt(by, c, false), true
}

// beginRepeat lets a claim pass for which there is no room, if it stands already: it was made through another replica.
func (h *holdings) beginRepeat(ctx context.Context, s standings, by string, c store.Claim) (*doubt, bool) {
	if by == "" {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	found, err := s.Find(ctx, []store.Claim{c})
	if err != nil || len(found) != 1 || found[0].ID == "" {
		return nil, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if d, repeat := h.join(by); repeat {
		return d, true
	}
	return h.doubt(by, c, !found[0].Here), true
}

// join reports whether a claim is a repeat of one that is known here, and goes on with that. h.mu is held.
func (h *holdings) join(by string) (d *doubt, repeat bool) {
	if _, repeat = h.known[by]; repeat {
		return nil, true
	}
	if d, repeat = h.doubts[by]; repeat {
		d.requests++
	}
	return d, repeat
}

// doubt begins one with one request. h.mu is held.
func (h *holdings) doubt(by string, c store.Claim, elsewhere bool) *doubt {
	c.Holder, c.Metadata = "", nil // it is kept only to be found by
	d := &doubt{claim: c, since: time.Now(), requests: 1, elsewhere: true}
	h.doubts[by] = d
	h.place(d, elsewhere)
	return d
}

// place says where a claim was made that may stand. h.mu is held.
func (h *holdings) place(d *doubt, elsewhere bool) {
	switch {
	case d.elsewhere && !elsewhere:
		h.doubted++
	case !d.elsewhere && elsewhere:
		h.doubted--
	}
	d.elsewhere = elsewhere
}

// clear ends a doubt, if there is one. h.mu is held.
func (h *holdings) clear(by string) {
	if d := h.doubts[by]; d != nil {
		h.place(d, true)
		delete(h.doubts, by)
	}
}

// settleClaim notes what came of a claim; left says that its client has, so that a claim which it can find again may stand.
func (h *holdings) settleClaim(by string, d *doubt, l store.Lock, err error, left bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if by == "" {
		h.nameless--
	}
	if d != nil {
		d.requests--
		var busy *store.HeldError // then nothing stands, whoever has left
		d.lost = d.lost || errors.Is(err, store.ErrUnknown) || left && !errors.As(err, &busy)
	}
	switch {
	case err == nil && l.ID != "":
		h.settled(by, l)
	case d != nil && h.doubts[by] == d && d.requests == 0 && !d.lost:
		h.clear(by)
	}
}

// settled notes a claim that stands, if it was made here. h.mu is held.
func (h *holdings) settled(by string, l store.Lock) {
	h.clear(by)
	if had := h.known[by]; had != l.ID {
		h.forget(had)
		if l.Replayed && !l.Here {
			return
		}
	}
	h.claims[l.ID] = by
	if by != "" {
		h.known[by] = l.ID
	}
}

// claimsNow are those that count. h.mu is held.
func (h *holdings) claimsNow() int { return len(h.claims) + h.doubted + h.nameless }

// leasesNow are those that count. h.mu is held.
func (h *holdings) leasesNow() int { return len(h.leases) + h.leasesUnderWay }

// now are the claims and the leases that count.
func (h *holdings) now() (claims, leases int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.claimsNow(), h.leasesNow()
}

func (h *holdings) beginLease(room int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leasesNow() >= room {
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

// forget drops a claim or a lease. h.mu is held.
func (h *holdings) forget(id string) {
	if by, is := h.claims[id]; is && h.known[by] == id {
		delete(h.known, by)
	}
	delete(h.claims, id)
	delete(h.leases, id)
}

// look asks the store what of it all stands, and drops what does not. It reports false if that was done a moment ago.
func (h *holdings) look(ctx context.Context, s standings, again time.Duration) bool {
	q := h.questions(again)
	if q == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	over, err := s.Gone(ctx, q.ids)
	if err != nil {
		return false
	}
	var found []store.Found
	if len(q.doubts) > 0 {
		if found, err = s.Find(ctx, q.claims); err != nil {
			return false
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range over {
		h.forget(id)
	}
	for i, f := range found {
		h.answer(q.handles[i], q.doubts[i], f)
	}
	h.claimsThen, h.leasesThen = h.claimsNow(), h.leasesNow()
	return true
}

// questions is what a look asks: which of the ids are gone, and what of the claims stands.
type questions struct {
	ids     []string
	handles []string
	doubts  []*doubt
	claims  []store.Claim
}

// underWayAfter is how long a claim is under way without any doubt about it: one that does not wait is answered by then.
const underWayAfter = time.Second

// questions are nil if it was asked a moment ago.
func (h *holdings) questions(again time.Duration) *questions {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.looked) < again {
		return nil
	}
	h.looked = time.Now()
	q := &questions{ids: make([]string, 0, len(h.claims)+len(h.leases))}
	for id := range h.claims {
		q.ids = append(q.ids, id)
	}
	for id := range h.leases {
		q.ids = append(q.ids, id)
	}
	for by, d := range h.doubts {
		if d.requests == 0 || time.Since(d.since) > underWayAfter {
			q.handles, q.doubts, q.claims = append(q.handles, by), append(q.doubts, d), append(q.claims, d.claim)
		}
	}
	return q
}

// answer notes what was found of a doubt. h.mu is held.
func (h *holdings) answer(by string, d *doubt, f store.Found) {
	switch {
	case h.doubts[by] != d:
	case d.requests == 0 && f.ID != "" && f.Here:
		h.clear(by)
		h.claims[f.ID], h.known[by] = by, f.ID
	case d.requests == 0:
		h.clear(by)
	case f.ID != "":
		h.place(d, !f.Here)
	}
}
