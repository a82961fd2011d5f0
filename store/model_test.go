package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// modelWorld is what the queues of all names are, as plain values: no etcd, no time. Its methods leave it as it is and
// return what it can be afterwards, with the answer that goes with that: mostly one outcome, two where the design lets a
// grant and the end of a wait race.
type modelWorld struct {
	queues map[string][]modelClaim // in queue order
	leases map[int]modelWish       // of clients, those that stand
	made   int                     // counts claims, leases and waits: their numbers
}

// modelWish is what a client asks for.
type modelWish struct {
	name, key, holder string
	ttl               time.Duration
	lease             int // the number of a client's lease, or 0
}

type modelClaim struct {
	no   int
	wish modelWish
	held bool
	told bool // its client knows its id
	at   int  // the replica that serves it while it is queued, or nowhere
	// moved says that another replica has served it: somebody may wait for it there still.
	moved bool
	// waits are the requests that wait for it.
	waits []modelWait
}

const nowhere = -1

// serve is a replica that serves the claim from now on.
func (c *modelClaim) serve(at int) {
	c.moved = c.moved || c.at != at
	c.at = at
}

type modelWait struct {
	no, at      int
	asks, queue bool // it is an Ask; it is a Claim that keeps its place
}

// modelAnswer is what a request is to be answered. Locks are told by their numbers.
type modelAnswer struct {
	what     modelWhat
	claim    int
	position int
	replayed bool
	// of busy: the claim that holds, 0 if none does, and how many wait.
	holder, waiting int
	// of failed: any of these.
	errs []error
}

type modelWhat string

const (
	isHeld    modelWhat = "held"
	isQueued  modelWhat = "queued"
	isBusy    modelWhat = "busy"
	isWaiting modelWhat = "no answer yet"
	isDone    modelWhat = "done"
	isFailed  modelWhat = "failed"
)

type modelOutcome struct {
	world  modelWorld
	answer modelAnswer
	// ends are the answers of requests that waited, by their numbers.
	ends map[int]modelAnswer
	// soon says that etcd need not be there yet when the request is answered.
	soon bool
}

func newModelWorld() modelWorld {
	return modelWorld{queues: map[string][]modelClaim{}, leases: map[int]modelWish{}}
}

// but is a copy to be changed, as an outcome without an answer.
func (w modelWorld) but() *modelOutcome {
	c := modelWorld{map[string][]modelClaim{}, maps.Clone(w.leases), w.made}
	for name, queue := range w.queues {
		queue = slices.Clone(queue)
		for i := range queue {
			queue[i].waits = slices.Clone(queue[i].waits)
		}
		c.queues[name] = queue
	}
	return &modelOutcome{world: c, ends: map[int]modelAnswer{}}
}

func (o *modelOutcome) next() int {
	o.world.made++
	return o.world.made
}

func (o *modelOutcome) answered(a modelAnswer) []modelOutcome {
	o.answer = a
	o.settle()
	return []modelOutcome{*o}
}

func modelFailed(errs ...error) modelAnswer { return modelAnswer{what: isFailed, errs: errs} }

// settle grants the first in line wherever somebody waits for it.
func (o *modelOutcome) settle() {
	for _, queue := range o.world.queues {
		if len(queue) > 0 && !queue[0].held && len(queue[0].waits) > 0 {
			o.grant(&queue[0])
		}
	}
}

// grant makes a claim held, and tells all that wait for it.
func (o *modelOutcome) grant(c *modelClaim) {
	c.held, c.told = true, true
	for _, wait := range c.waits {
		o.ends[wait.no] = modelAnswer{what: isHeld, claim: c.no}
	}
	c.waits = nil
}

// remove takes a claim away; whoever waits for it is told one of these.
func (o *modelOutcome) remove(no int, why ...error) {
	for name, queue := range o.world.queues {
		if i := slices.IndexFunc(queue, func(c modelClaim) bool { return c.no == no }); i >= 0 {
			for _, wait := range queue[i].waits {
				o.ends[wait.no] = modelFailed(why...)
			}
			o.world.queues[name] = slices.Delete(queue, i, i+1)
		}
	}
}

// claim is one claim and its position, or nil if it is gone.
func (w modelWorld) claim(no int) (c *modelClaim, position int) {
	for _, queue := range w.queues {
		for i := range queue {
			if queue[i].no == no {
				return &queue[i], i
			}
		}
	}
	return nil, 0
}

// all are the claims in the order in which they were made.
func (w modelWorld) all() []*modelClaim {
	var list []*modelClaim
	for _, queue := range w.queues {
		for i := range queue {
			list = append(list, &queue[i])
		}
	}
	slices.SortFunc(list, func(a, b *modelClaim) int { return a.no - b.no })
	return list
}

func (w modelWorld) waits() (list []modelWait) {
	for _, c := range w.all() {
		list = append(list, c.waits...)
	}
	return list
}

// busy describes a queue to whoever is not in it, or whose claim there is own.
func (w modelWorld) busy(name string, own int) modelAnswer {
	a := modelAnswer{what: isBusy}
	for i, c := range w.queues[name] {
		switch {
		case c.no == own:
		case i == 0 && c.held:
			a.holder = c.no
		default:
			a.waiting++
		}
	}
	return a
}

func (c modelClaim) findable() bool { return c.wish.key != "" || c.wish.lease != 0 }

func (c modelClaim) waitedAt(at int) bool {
	return slices.ContainsFunc(c.waits, func(w modelWait) bool { return w.at == at })
}

// release removes the claim that an id names, and only that.
func (w modelWorld) release(no int) []modelOutcome {
	o := w.but()
	if c, _ := w.claim(no); c == nil {
		return o.answered(modelFailed(ErrNoLock))
	}
	o.remove(no, ErrPlaceLost)
	return o.answered(modelAnswer{what: isDone})
}

// unwritten is an answer that could not be written: what nobody else can know of is taken back.
func (w modelWorld) unwritten(no int) []modelOutcome {
	o := w.but()
	if c, _ := w.claim(no); c != nil && !c.findable() {
		o.remove(no)
		o.soon = true
	}
	return o.answered(modelAnswer{what: isDone})
}

// leave is a client that leaves while it waits. Its claim goes with it if nobody else can know of it.
func (w modelWorld) leave(wait int) []modelOutcome {
	o := w.but()
	for _, c := range o.world.all() {
		i := slices.IndexFunc(c.waits, func(w modelWait) bool { return w.no == wait })
		if i < 0 {
			continue
		}
		c.waits = slices.Delete(c.waits, i, i+1)
		o.ends[wait] = modelFailed(context.Canceled)
		if !c.told && !c.findable() {
			o.remove(c.no)
			o.soon = true
		}
	}
	return o.answered(modelAnswer{what: isDone})
}

// renew is for the id of a claim; a lease's is renewLease.
func (w modelWorld) renew(no int) modelAnswer {
	switch c, _ := w.claim(no); {
	case c == nil:
		return modelFailed(ErrNoLease)
	case !c.held:
		return modelFailed(ErrLockQueued)
	case c.wish.lease != 0:
		return modelFailed(ErrNoLease) // it has none of its own
	}
	return modelAnswer{what: isHeld, claim: no}
}

// leaseOf is renew, but a queued claim is no lease at all.
func (w modelWorld) leaseOf(no int) modelAnswer {
	if a := w.renew(no); a.what == isHeld {
		return a
	}
	return modelFailed(ErrNoLease)
}

// endLease ends a client's lease: what is held on it is free at once, who waits on it is told soon.
func (w modelWorld) endLease(lease int) []modelOutcome {
	o := w.but()
	if _, ok := w.leases[lease]; !ok {
		return o.answered(modelFailed(ErrNoLease))
	}
	delete(o.world.leases, lease)
	for _, c := range w.all() {
		if c.wish.lease == lease {
			o.soon = o.soon || !c.held
			o.remove(c.no, ErrNoLease, ErrPlaceLost)
		}
	}
	return o.answered(modelAnswer{what: isDone})
}

// unserved says that a claim waits on this lease which no replica would notice the end of.
func (w modelWorld) unserved(lease int) bool {
	return slices.ContainsFunc(w.all(), func(c *modelClaim) bool {
		return c.wish.lease == lease && !c.held && c.at == nowhere && len(c.waits) == 0
	})
}

func (a modelAnswer) failsWith(err error) bool {
	return slices.ContainsFunc(a.errs, func(want error) bool { return errors.Is(err, want) })
}
