package server

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/latchkey/latchkey/store"
)

const (
	// worthTelling is the part of its bound from which on a principal is told of, by its inverse. Of whom one replica tells on
	// that ground, the others tell too if there is anything: so up to sixteen replicas can overlook nobody who has all.
	worthTelling = 16
	// maxTold and maxToldBytes bound a word: those who have most of what they may are told of.
	maxTold      = 500
	maxToldBytes = 32 << 10
	// lookAtLeast is how often whoever is told of is looked at, for the others may refuse by that what is over.
	lookAtLeast = 30 * time.Second
	// maxLooked is about how many claims and leases a replica looks at before it tells; more have to wait for the next time.
	maxLooked = 12_000
)

// telling is a principal that may be worth telling of.
type telling struct {
	who            string
	h              *holdings
	claims, leases int
	looked         time.Time
}

// tell is what the other replicas are to know: what those have got through this one who have a good part of what they may.
// What ended elsewhere is found out first, of those who are near their bound with what the others tell, and of those who
// have got much since it was last done; so nobody is kept out for long by what is over, however much comes and goes.
func (t *tally) tell(ctx context.Context) store.Word {
	others := t.store.Others()
	near := t.worth(others)
	t.lookAgain(ctx, near, others)
	near = slices.DeleteFunc(near, func(p *telling) bool {
		p.claims, p.leases = p.h.now()
		return !t.telling(p, others)
	})
	slices.SortFunc(near, func(a, b *telling) int {
		return cmp.Or(-cmp.Compare(t.part(a), t.part(b)), cmp.Compare(a.who, b.who))
	})
	return word(near)
}

// worth are those to tell of.
func (t *tally) worth(others []store.Word) (near []*telling) {
	for who, h := range t.all() {
		p := telling{who: who, h: h}
		if p.claims, p.leases = h.now(); t.telling(&p, others) {
			near = append(near, &p)
		}
	}
	return near
}

func (t *tally) all() map[string]*holdings {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]*holdings, len(t.young)+len(t.old))
	for _, some := range []map[string]*holdings{t.old, t.young} {
		for who, h := range some {
			all[who] = h
		}
	}
	return all
}

// telling reports that somebody is to be told of.
func (t *tally) telling(p *telling, others []store.Word) bool {
	if p.claims == 0 && p.leases == 0 {
		return false
	}
	return t.much(p.claims, p.leases) ||
		slices.ContainsFunc(others, func(w store.Word) bool { return t.much(w[p.who][0], w[p.who][1]) })
}

// much reports that this is a good part of what one may have.
func (t *tally) much(claims, leases int) bool {
	return t.mostClaims > 0 && claims >= least(t.mostClaims) || t.mostLeases > 0 && leases >= least(t.mostLeases)
}

// least is what is worth telling of.
func least(most int) int { return max(1, most/worthTelling) }

// part is how much of what it may have somebody has got here.
func (t *tally) part(p *telling) float64 {
	part := 0.0
	if t.mostClaims > 0 {
		part = float64(p.claims) / float64(t.mostClaims)
	}
	if t.mostLeases > 0 {
		part = max(part, float64(p.leases)/float64(t.mostLeases))
	}
	return part
}

// lookAgain looks at those who need it, those first who have waited longest.
func (t *tally) lookAgain(ctx context.Context, near []*telling, others []store.Word) {
	var due []*telling
	for _, p := range near {
		if t.due(p, others) {
			due = append(due, p)
		}
	}
	slices.SortFunc(due, func(a, b *telling) int { return a.looked.Compare(b.looked) })
	for n := 0; len(due) > 0 && n < maxLooked && ctx.Err() == nil; due = due[1:] {
		p := due[0]
		n += p.claims + p.leases
		_, _ = p.h.look(store.As(ctx, p.who), t.store, lookAgainAfter) // else the next time
	}
}

// due reports that somebody must be looked at before telling.
func (t *tally) due(p *telling, others []store.Word) bool {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	p.looked = p.h.looked
	p.h.claimsThen, p.h.leasesThen = min(p.h.claimsThen, p.claims), min(p.h.leasesThen, p.leases)
	claims, leases := told(others, p.who)
	return time.Since(p.looked) > lookAtLeast || dueOf(p.claims, p.h.claimsThen, claims, t.mostClaims) || dueOf(p.leases, p.h.leasesThen, leases, t.mostLeases)
}

// dueOf: at seven eighths of all, or once as much came as is worth telling of.
func dueOf(now, then, elsewhere, most int) bool {
	return most > 0 && now > 0 && (now+elsewhere >= most-most/8 || now-then >= least(most))
}

// word is about as many as may be told of.
func word(near []*telling) store.Word {
	const overhead = 24 // of a name: quotes, and two numbers
	w, bytes := store.Word{}, 0
	for _, p := range near {
		if bytes += len(p.who) + overhead; len(w) == maxTold || bytes > maxToldBytes {
			break
		}
		w[p.who] = [2]int{p.claims, p.leases}
	}
	return w
}
