package store

import (
	"context"
	"errors"
	"time"
)

// place is a queued claim that this replica serves: it is on one of its waiting leases. Requests attach to it and are
// told when it is held, or why it is gone. What is not marked otherwise is guarded by the line's mutex.
type place struct {
	line *line
	key  string
	// st is the claim as last seen: by the view, or by the answer to a transaction of this replica.
	st   standing
	slot *slot
	// next is the slot that it is to be put on instead, until it is seen there; nil without one.
	next *slot
	// findable says that somebody can ask for the claim again: it has a key or a client's lease, or its id was told.
	findable bool
	attached int
	// elsewhere is when another replica was last seen to serve the claim; zero if none was.
	elsewhere time.Time
	// since is when the last request came that is attached.
	since time.Time
	// left is when the last request went that was attached.
	left time.Time
	// busy says that a transaction about this claim is under way: there is only one at a time.
	busy bool
	// ending counts the requests whose wait is over and which wait for that transaction.
	ending int
	// trouble is why the last grant failed that etcd did not do, if it did not.
	trouble error
	// held is how the claim was granted, when it was; sent is zero if another replica granted it.
	held bool
	sent time.Time
	// over is why the claim is gone, if it is.
	over error
	// interrupts counts how often all waits here were ended; why is the last cause.
	interrupts int
	why        error
	// changed is closed at the next change; nil while nobody looks.
	changed chan struct{}
	timer   *time.Timer
	queued  time.Time
	// turn is when it was first in line with somebody attached.
	turn time.Time
}

// join serves a queued claim here, on the slot that is already taken for it, with one request attached.
func (r *registration) join(st standing, sl *slot, findable bool) *place {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lines[st.name]
	if l == nil {
		l = r.newLine(st.name)
		r.lines[st.name] = l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[st.key]
	if p != nil && (p.st.created != st.created || !p.stands()) {
		p.finish(ErrPlaceLost) // its key was used again since
		delete(l.places, st.key)
		p = nil
	}
	switch {
	case p == nil:
		p = &place{line: l, key: st.key, st: st, slot: sl, queued: time.Now()}
		l.places[st.key] = p
		r.serving.Add(1)
	case st.modified > p.st.modified:
		r.presence.give(p.slot)
		r.presence.give(p.next)
		p.st, p.slot, p.next = st, sl, nil
	default: // another request of the same client has put it on another slot since
		r.presence.give(sl)
	}
	p.attach(findable)
	if l.whole {
		l.compare(p)
		l.step()
	}
	return p
}

// attachTo attaches a request to a place that is served here already, if there is one for this very claim.
func (r *registration) attachTo(st standing) *place {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lines[st.name]
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[st.key]
	if p == nil || p.st.created != st.created || !p.stands() {
		return nil
	}
	p.attach(true)
	if !p.mine() && p.open() {
		p.begin(p.adopt)
	}
	l.step()
	return p
}

func (p *place) attach(findable bool) {
	p.attached++
	p.since = time.Now()
	p.findable = p.findable || findable
	if p.timer != nil {
		p.timer.Stop()
	}
}

// stands reports that the claim is queued, as far as is known here, and served.
func (p *place) stands() bool { return p.over == nil && !p.held && p.slot != nil }

// open reports that a transaction about the claim may begin.
func (p *place) open() bool { return !p.busy && !p.held && p.over == nil }

// begin runs a transaction about the claim in the background. l.mu is held.
func (p *place) begin(do func()) {
	p.busy = p.line.r.spawn(func() {
		do()
		p.done()
	})
}

// done ends a transaction about the claim: what had to wait for it goes on.
func (p *place) done() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	p.busy = false
	p.saw(p.st)
	p.wake()
	p.settle()
	p.line.step()
}

func (p *place) wake() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// finish ends the claim: it is gone.
func (p *place) finish(why error) {
	if p.over == nil && !p.held {
		p.over = why
		p.wake()
		p.settle()
	}
}

// interrupt ends all waits on the claim, which itself stands.
func (p *place) interrupt(why error) {
	p.interrupts++
	p.why = why
	p.wake()
}

// learn notes the claim as an answer has it, unless more is known by now: the watch can be ahead of an answer, and must
// not be undone by it, for it tells everything once.
func (p *place) learn(st standing) {
	if st.modified >= p.st.modified {
		p.st = st
	}
}

// saw notes the claim as the view or an answer has it, and what follows from that.
func (p *place) saw(st standing) {
	if st.modified < p.st.modified {
		return
	}
	p.st = st
	switch {
	case p.over != nil:
	case st.Held && p.busy: // perhaps by the transaction under way, which then knows more
	case st.Held && !p.held:
		p.held = true
		p.wake()
		p.settle()
	case !st.Held && p.arrive():
		p.adopted()
	}
}

// aim notes that the claim is to be put on a slot of this replica: the view can tell that it is there before the answer
// does.
// A slot that was taken for it is its own to count; any other must be one of those that it has.
func (p *place) aim(at *slot, taken bool) bool {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	has := at == p.slot || at == p.next
	switch {
	case has && taken:
		p.line.r.presence.give(at)
	case !has && taken:
		p.line.r.presence.give(p.next)
		p.next = at
	}
	return has || taken
}

// arrive takes the claim for where it stands, if that is the slot that it was to be put on, and reports whether it is
// served elsewhere.
func (p *place) arrive() (elsewhere bool) {
	if p.next != nil && p.st.onLease == p.next.id {
		p.line.r.presence.give(p.slot)
		p.slot, p.next = p.next, nil
	}
	return p.slot != nil && !p.mine()
}

// adopted notes that another replica serves the claim now. With somebody attached here it is taken back, but not at
// once: the client may have moved on to the other.
func (p *place) adopted() {
	p.elsewhere = time.Now()
	if p.attached == 0 {
		p.over = errMoved
		p.settle()
		return
	}
	p.after(p.line.r.s.cfg.WaitingTTL/3, func() {
		if p.attached > 0 && p.open() && !p.mine() {
			p.begin(p.adopt)
		}
	})
}

// errMoved: another replica serves the claim now. No request sees it.
var errMoved = errors.New("served by another replica")

// tookOver notes that the claim was another replica's until now.
func (p *place) tookOver() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	p.elsewhere = time.Now()
}

// shared reports that somebody may wait for the claim at another replica too: one that served it within the last waiting
// TTL, and takes it back.
func (p *place) shared() bool {
	return !p.elsewhere.IsZero() && time.Since(p.elsewhere) < p.line.r.s.cfg.WaitingTTL
}

func (p *place) mine() bool {
	return p.slot != nil && (p.st.onLease == p.slot.id || p.next != nil && p.st.onLease == p.next.id)
}

// after does what is due for the place after d, unless something else becomes due before. l.mu is held by do.
func (p *place) after(d time.Duration, do func()) {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(d, func() {
		p.line.mu.Lock()
		defer p.line.mu.Unlock()
		if p.line.ctx.Err() == nil {
			do()
		}
	})
}

// settle decides what becomes of a place that nobody is attached to. l.mu is held.
func (p *place) settle() {
	switch {
	case p.attached > 0 || p.busy || p.line.r.ctx.Err() != nil:
	case p.held || p.over != nil:
		p.forget()
	case !p.findable:
		p.begin(p.leave)
	default:
		p.after(p.line.r.s.cfg.WaitingTTL-time.Since(p.left), p.lapse)
	}
}

// lapse takes out a claim that nobody has asked about for a waiting TTL. Time in which etcd could not be asked does not
// count: whoever asked then, here or at another replica, could not be heard. l.mu is held.
func (p *place) lapse() {
	r := p.line.r
	if p.attached > 0 || !p.open() {
		return
	}
	if left := r.s.cfg.WaitingTTL - r.heard(); left > 0 {
		p.after(left, p.lapse)
		return
	}
	r.s.metrics.lapsed.Inc()
	p.begin(p.leave)
}

// forget ends the place: the claim is held, gone, or served elsewhere. l.mu is held.
func (p *place) forget() {
	l := p.line
	if l.places[p.key] == p {
		delete(l.places, p.key)
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.slot == nil {
		return
	}
	l.r.presence.give(p.slot)
	l.r.presence.give(p.next)
	l.r.serving.Add(-1)
	p.slot, p.next = nil, nil
}

// detach ends one request's part in the place.
func (p *place) detach() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	p.attached--
	p.left = time.Now()
	p.settle()
}

// await returns when the claim is held, with when its grant was sent (zero if that is not known), or fails with why it
// is gone or why the wait ended.
func (p *place) await(ctx context.Context) (standing, time.Time, error) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	for interrupts := p.interrupts; ; p.block(ctx) {
		switch {
		case p.held:
			return p.st, p.sent, nil
		case errors.Is(p.over, errMoved): // it stands, at another replica: asked for again it is found
			return standing{}, time.Time{}, ErrUnavailable
		case p.over != nil:
			return standing{}, time.Time{}, p.over
		case p.interrupts != interrupts:
			return standing{}, time.Time{}, p.why
		case ctx.Err() != nil:
			return standing{}, time.Time{}, context.Cause(ctx)
		case l.r.ctx.Err() != nil:
			return standing{}, time.Time{}, unavailable(context.Cause(l.r.ctx))
		}
	}
}

// quiet waits until no transaction about the claim is under way and then keeps others off until the caller calls done.
// It reports false if that takes longer than ctx.
func (p *place) quiet(ctx context.Context) bool {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	p.ending++
	defer func() {
		p.ending--
		l.step() // nothing was begun meanwhile; if this one gives up, somebody else may wait for it
	}()
	for p.busy {
		if p.block(ctx); ctx.Err() != nil || l.r.ctx.Err() != nil {
			return false
		}
	}
	p.busy = true
	return true
}

// block waits for the next change of the place, or until ctx ends. l.mu is held, but not while it waits.
func (p *place) block(ctx context.Context) {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	changed, l := p.changed, p.line
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-changed:
	case <-ctx.Done():
	case <-l.r.ctx.Done():
	}
}
