package store

import "slices"

// What happens to replicas, by the model.

// somewhere is a position that depends on which of several waits ends first.
const somewhere = -1

// drain is a replica that goes away: its waits end in a way that goes on elsewhere. Then it is closed, and nobody serves
// what it has served.
func (w modelWorld) drain(at int) []modelOutcome {
	o := w.but()
	for _, old := range w.all() {
		c, _ := o.world.claim(old.no)
		c.waits = nil
		gone := false
		for _, wait := range old.waits {
			switch {
			case wait.at != at:
				c.waits = append(c.waits, wait)
			case wait.asks:
				o.ends[wait.no] = modelAnswer{what: isQueued, claim: c.no, position: somewhere}
			case wait.queue:
				c.told = true
				o.ends[wait.no] = modelAnswer{what: isQueued, claim: c.no, position: somewhere}
			default:
				o.ends[wait.no] = modelFailed(ErrDraining)
				gone = gone || !c.told && !c.findable()
			}
		}
		if c.at == at {
			c.at = nowhere
		}
		if gone {
			o.remove(c.no)
		}
	}
	return o.answered(modelAnswer{what: isDone})
}

// reregister is a replica that has to begin anew, with all claims standing: its waits end.
func (w modelWorld) reregister(at int) []modelOutcome {
	o := w.but()
	for _, c := range o.world.all() {
		o.endWaitsAt(c, at, ErrUnavailable)
		if c.at == at {
			c.at = nowhere
		}
	}
	return o.answered(modelAnswer{what: isDone})
}

// runOut is a replica that was cut off for so long that all its etcd leases have run out, with the places on them.
func (w modelWorld) runOut(at int) []modelOutcome {
	o := &w.reregister(at)[0]
	for _, c := range w.all() {
		if !c.held && c.at == at {
			o.remove(c.no, ErrPlaceLost)
		}
	}
	o.soon = true
	return o.answered(modelAnswer{what: isDone})
}

func (o *modelOutcome) endWaitsAt(c *modelClaim, at int, why error) {
	c.waits = slices.DeleteFunc(c.waits, func(wait modelWait) bool {
		if wait.at == at {
			o.ends[wait.no] = modelFailed(why)
		}
		return wait.at == at
	})
}
