package store

// How a claim and an ask go by the model.

// modelPatience is how long a request waits: not at all, for a moment in which nothing comes, or until something does.
type modelPatience int

const (
	noWait modelPatience = iota
	briefWait
	longWait
)

// place is a claim made at a replica.
func (w modelWorld) place(at int, wish modelWish, wait modelPatience, keep bool) []modelOutcome {
	o := w.but()
	if wish.lease != 0 {
		if _, ok := w.leases[wish.lease]; !ok {
			return o.answered(modelFailed(ErrNoLease))
		}
	}
	queue := o.world.queues[wish.name]
	for i := range queue {
		if queue[i].wish.same(wish) {
			return w.replay(at, queue[i].no, wish, wait, keep)
		}
	}
	c := modelClaim{no: o.next(), wish: wish, at: at}
	switch {
	case len(queue) == 0:
		c.held, c.told = true, true
		o.world.queues[wish.name] = append(queue, c)
		return o.answered(modelAnswer{what: isHeld, claim: c.no})
	case !keep && wait != longWait:
		return o.answered(w.busy(wish.name, 0))
	case wait == longWait:
		c.waits = []modelWait{{no: o.next(), at: at, queue: keep}}
		o.world.queues[wish.name] = append(queue, c)
		return o.answered(modelAnswer{what: isWaiting, claim: c.no})
	}
	c.told = true
	o.world.queues[wish.name] = append(queue, c)
	return o.answered(modelAnswer{what: isQueued, claim: c.no, position: len(queue)})
}

// same says that two wishes on one name are of the same client.
func (a modelWish) same(b modelWish) bool {
	if a.key != "" || b.key != "" {
		return a.key == b.key
	}
	return a.lease != 0 && a.lease == b.lease
}

// replay is a claim that meets its own, made earlier.
func (w modelWorld) replay(at, no int, wish modelWish, wait modelPatience, keep bool) []modelOutcome {
	o := w.but()
	own, position := o.world.claim(no)
	switch {
	case wish.key != "" && own.wish != wish:
		return o.answered(modelFailed(ErrKeyReused))
	case own.held:
		own.told = true
		return o.answered(modelAnswer{what: isHeld, claim: no, replayed: true})
	}
	own.serve(at)
	switch {
	case position == 0:
		o.grant(own)
		granted := o.answered(modelAnswer{what: isHeld, claim: no, replayed: true})
		if wait != noWait {
			return granted
		}
		return append(granted, w.replayInVain(at, no, keep)...) // the wait can be over before the grant has begun
	case wait == longWait:
		own.waits = append(own.waits, modelWait{no: o.next(), at: at, queue: keep})
		return o.answered(modelAnswer{what: isWaiting, claim: no, replayed: true})
	}
	return w.replayInVain(at, no, keep)
}

// replayInVain is one whose wait brings nothing. Not to keep the place is to leave it, if nobody else can wait for it.
func (w modelWorld) replayInVain(at, no int, keep bool) []modelOutcome {
	o := w.but()
	own, position := o.world.claim(no)
	own.serve(at)
	name := own.wish.name
	switch {
	case keep, own.moved, own.waitedAt(at):
		own.told = true
		return o.answered(modelAnswer{what: isQueued, claim: no, position: position, replayed: true})
	}
	o.remove(no, ErrPlaceLost)
	before := o.world.busy(name, no)
	outcomes := o.answered(before)
	if after := o.world.busy(name, no); after.holder != before.holder { // the next one has been granted meanwhile, or not yet
		o.answer = after
		outcomes = append(outcomes, *o)
	}
	return outcomes
}

// ask is an ask at a replica by the id that was told.
func (w modelWorld) ask(at, no int, wait modelPatience) []modelOutcome {
	o := w.but()
	c, position := o.world.claim(no)
	switch {
	case c == nil:
		return o.answered(modelFailed(ErrNoLock))
	case c.held:
		return o.answered(modelAnswer{what: isHeld, claim: no})
	}
	c.serve(at)
	switch {
	case position == 0:
		o.grant(c)
		return o.answered(modelAnswer{what: isHeld, claim: no})
	case wait == longWait:
		c.waits = append(c.waits, modelWait{no: o.next(), at: at, asks: true})
		return o.answered(modelAnswer{what: isWaiting, claim: no})
	}
	return o.answered(modelAnswer{what: isQueued, claim: no, position: position})
}

// look shows a claim as it is.
func (w modelWorld) look(no int) modelAnswer {
	switch c, position := w.claim(no); {
	case c == nil:
		return modelFailed(ErrNoLock)
	case c.held:
		return modelAnswer{what: isHeld, claim: no}
	default:
		return modelAnswer{what: isQueued, claim: no, position: position}
	}
}
