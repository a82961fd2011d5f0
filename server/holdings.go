package server

import (
	"context"
	"errors"
	"slices"
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
	// away are claims that were found to be made through other replicas, by what repeats are known by: the next repeat of one uses
	// up nothing from its beginning.
	away map[string]bool
	// looking holds a token while it is looked at.
	looking chan struct{}
	// looked is when it was last looked at in the store, claimsThen and leasesThen what there was.
	looked                 time.Time
	claimsThen, leasesThen int
}

// doubt is a claim that may stand.
type doubt struct {
	claim store.Claim
	// requests are those for it that are under way. lost says that one ended so that nobody knows.
	requests int
	lost     bool
	// elsewhere says that it stands and was made through another replica, which counts it.
	elsewhere bool
}

// maxAway bounds the claims of one principal that are remembered to be made elsewhere.
const maxAway = 4096

func newHoldings() *holdings {
	return &holdings{
		claims: map[string]string{}, known: map[string]string{}, leases: map[string]bool{}, doubts: map[string]*doubt{},
		away: map[string]bool{}, looking: make(chan struct{}, 1),
	}
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
	_, away := h.away[by]
	return h.doubt(by, c, away), true
}

// beginRepeat lets a claim pass for which there is no room, if it stands already: it was made through another replica.
func (h *holdings) beginRepeat(ctx context.Context, s standings, by string, c store.Claim) (d *doubt, ok bool, err error) {
	if by == "" {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	found, err := s.Find(ctx, []store.Claim{c})
	if err != nil || found[0].ID == "" {
		return nil, false, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if d, ok = h.join(by); !ok {
		d = h.doubt(by, c, !found[0].Here)
	}
	return d, true, nil
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
	d := &doubt{claim: c, requests: 1, elsewhere: true}
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
		d.lost = d.lost || mayStand(err, left)
	}
	switch {
	case err == nil && l.ID != "":
		h.settled(by, l)
	case d != nil && h.doubts[by] == d && d.requests == 0 && !d.lost:
		h.clear(by)
	}
}

// mayStand reports that a claim which ended so, and which a repeat can find, may stand all the same: while it waited etcd or this
// replica went away, or nobody knows.
func mayStand(err error, left bool) bool {
	var busy *store.HeldError // then nothing stands, whoever has left
	return errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrDraining) ||
		left && !errors.As(err, &busy)
}

// isAway remembers that the claim which by finds was made through another replica, or that it was not. h.mu is held.
func (h *holdings) isAway(by string, away bool) {
	switch {
	case !away:
		delete(h.away, by)
	case len(h.away) < maxAway || h.away[by]:
		h.away[by] = true
	default:
		h.away = map[string]bool{by: true}
	}
}

// settled notes a claim that stands, if it was made here. h.mu is held.
func (h *holdings) settled(by string, l store.Lock) {
	h.clear(by)
	if had := h.known[by]; had != l.ID {
		h.forget(had)
		away := l.Replayed && !l.Here
		if h.isAway(by, away); away {
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

// lookedAtOnce is how much is asked for together in a look: what is answered counts though the rest is not.
const lookedAtOnce = 480

// look asks the store what of it all stands, and drops what does not. One look goes on at a time, and is that of all who came
// meanwhile. It reports false if the last was a moment ago, and fails if the store cannot tell.
func (h *holdings) look(ctx context.Context, s standings, again time.Duration) (looked bool, err error) {
	came := time.Now()
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	select {
	case h.looking <- struct{}{}:
		defer func() { <-h.looking }()
	case <-ctx.Done():
		return false, nil
	}
	q, looked := h.questions(came, again)
	if q == nil {
		return looked, nil
	}
	parts := 0
	defer h.hasLooked()
	for part := range slices.Chunk(q.ids, lookedAtOnce) {
		over, err := s.Gone(ctx, part)
		if err != nil {
			return parts > 0, failed(err, parts)
		}
		h.drop(over)
		parts++
	}
	for part := range slices.Chunk(q.doubts, lookedAtOnce) {
		if err := h.clarify(ctx, s, part); err != nil {
			return parts > 0, failed(err, parts)
		}
		parts++
	}
	return true, nil
}

func (h *holdings) hasLooked() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looked, h.claimsThen, h.leasesThen = time.Now(), h.claimsNow(), h.leasesNow()
}

// failed is why a look came to nothing, which it did not if some parts of it were answered: the next one begins with others.
func failed(err error, parts int) error {
	if parts > 0 {
		return nil
	}
	return err
}

func (h *holdings) drop(ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		h.forget(id)
	}
}

// question is what of a claim stands that is in doubt.
type question struct {
	by string
	d  *doubt
}

func (h *holdings) clarify(ctx context.Context, s standings, about []question) error {
	claims := make([]store.Claim, len(about))
	for i, q := range about {
		claims[i] = q.d.claim
	}
	found, err := s.Find(ctx, claims)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, f := range found {
		h.answer(about[i].by, about[i].d, f)
	}
	return nil
}

// questions is what a look asks: which of the ids are gone, and what of the claims stands. In no order, which a map has none of:
// a look that does not get through has asked for others than the one before.
type questions struct {
	ids    []string
	doubts []question
}

// questions are nil if a look has ended since somebody came, which looked tells, or a moment before.
func (h *holdings) questions(came time.Time, again time.Duration) (q *questions, looked bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.looked.After(came) {
		return nil, true
	}
	if time.Since(h.looked) < again {
		return nil, false
	}
	q = &questions{ids: make([]string, 0, len(h.claims)+len(h.leases))}
	for id := range h.claims {
		q.ids = append(q.ids, id)
	}
	for id := range h.leases {
		q.ids = append(q.ids, id)
	}
	for by, d := range h.doubts {
		q.doubts = append(q.doubts, question{by, d})
	}
	return q, true
}

// answer notes what was found of a doubt. h.mu is held.
func (h *holdings) answer(by string, d *doubt, f store.Found) {
	if h.doubts[by] != d {
		return
	}
	if f.ID != "" {
		h.isAway(by, !f.Here)
	}
	switch {
	case d.requests == 0 && f.ID != "" && f.Here:
		h.clear(by)
		h.claims[f.ID], h.known[by] = by, f.ID
	case d.requests == 0:
		h.clear(by)
	case f.ID != "":
		h.place(d, !f.Here)
	}
}
