package store

import "sync"

// placesMovedAtOnce is how many places are moved together: each takes its name's turn in a batch, and hand-offs go first.
const placesMovedAtOnce = 4

// moveAll moves what waits on leases that were begun in an earlier term of etcd's to new ones, in the background: see
// term.go.
func (p *presence) moveAll() {
	select {
	case p.moving <- struct{}{}:
	default:
		return
	}
	done := func() { <-p.moving }
	stale := p.stale()
	if len(stale) == 0 || !p.r.spawn(func() { defer done(); p.moveThese(stale) }) {
		done()
	}
}

// stale are the places that are to be moved.
func (p *presence) stale() (places []*place) {
	old := map[*slot]bool{}
	p.mu.Lock()
	for _, sl := range p.slots {
		if !sl.gone && sl.claims > 0 && !p.r.s.fresh(sl.id) {
			old[sl] = true
		}
	}
	p.mu.Unlock()
	if len(old) == 0 {
		return nil
	}
	p.r.eachPlace(func(pl *place) {
		if old[pl.slot] {
			places = append(places, pl)
		}
	})
	return places
}

func (p *presence) moveThese(places []*place) {
	gate := make(chan struct{}, placesMovedAtOnce)
	var work sync.WaitGroup
	for _, pl := range places {
		if p.r.ctx.Err() != nil {
			break
		}
		gate <- struct{}{}
		work.Go(func() {
			defer func() { <-gate }()
			pl.move()
		})
	}
	work.Wait()
}

// move puts the claim on another waiting lease of this replica, unless something else is done about it: then the next
// round of renewals comes back to it.
func (p *place) move() {
	p.line.mu.Lock()
	open := p.open() && p.mine()
	if open {
		p.busy = true
	}
	p.line.mu.Unlock()
	if !open {
		return
	}
	if err := p.putOnSlot(); err != nil {
		p.line.r.s.log.Debug("a place could not be moved yet", "cause", err)
	}
	p.done()
}
