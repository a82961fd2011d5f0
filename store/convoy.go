package store

import (
	"slices"
	"sync"
	"time"
)

// convoy carries things in groups: at once while nothing is under way, so that nobody waits for company, and together
// what came while others were. One that is urgent does not wait for those, but takes with it what waits. One that is
// patient waits a little for others to go with.
type convoy[T comparable] struct {
	// atOnce is how many groups may be under way; one more for what is urgent, and inCrowd more while a crowd waits its
	// turn, which goes one by one.
	atOnce, inCrowd int
	// load takes out of what waits, in the order in which it came, what goes together now.
	load func(waiting []T) (group, left []T)
	// carry takes a group to its end.
	carry func(group []T)
	// refuse is told of what can no longer be carried.
	refuse func(T)
	spawn  func(func()) bool
	// patience tells until when one that waits would rather go with others; the zero time, if it would not. Nil: none
	// would.
	patience func(T) time.Time
	// turn tells what x waits its turn about: only the first of those is looked at, the others wait behind it, so that
	// thousands of them cost no more than one. "": nothing. Nil: none does.
	turn func(x T) (about string)
	// first tells what goes before all else that waits. Nil: nothing does.
	first func(x T) bool

	mu       sync.Mutex
	waiting  []T
	behind   map[string][]T
	crowd    int // how many there are in behind
	underway int
	// timer is set while something patient waits.
	timer *time.Timer
}

// leastCrowd is how many must wait behind others for more groups to go.
const leastCrowd = 32

// add takes x in, and carries it at once, in the caller's own goroutine, if it can go and goes alone: that is the way
// of everything while little is asked.
func (c *convoy[T]) add(x T, urgent bool) {
	c.mu.Lock()
	c.enter(x)
	most := c.most()
	if urgent {
		most++
	}
	if c.underway >= most {
		c.mu.Unlock()
		return
	}
	group := c.next()
	if len(group) == 0 {
		c.mu.Unlock()
		return
	}
	c.underway++
	c.mu.Unlock()
	if len(group) == 1 && group[0] == x {
		c.carry(group)
		group = c.arrived()
	}
	c.depart(group)
}

// depart carries a group, which counts as under way, beside its caller.
func (c *convoy[T]) depart(group []T) {
	if len(group) > 0 && !c.spawn(func() { c.run(group) }) {
		c.refuseAll(group)
	}
}

// refuseAll is for the group that can no longer be carried, and what waits behind it.
func (c *convoy[T]) refuseAll(group []T) {
	c.mu.Lock()
	c.underway--
	group, c.waiting = append(group, c.waiting...), nil
	for _, behind := range c.behind {
		group = append(group, behind...)
	}
	c.behind, c.crowd = nil, 0
	c.mu.Unlock()
	for _, x := range group {
		c.refuse(x)
	}
}

// enter lets x wait. c.mu is held.
func (c *convoy[T]) enter(x T) {
	if about := c.turnOf(x); about != "" {
		if behind, taken := c.behind[about]; taken {
			c.behind[about] = append(behind, x)
			c.crowd++
			return
		}
		if c.behind == nil {
			c.behind = make(map[string][]T)
		}
		c.behind[about] = nil
	}
	if c.first == nil || !c.first(x) {
		c.waiting = append(c.waiting, x)
		return
	}
	at := slices.IndexFunc(c.waiting, func(other T) bool { return !c.first(other) })
	if at < 0 {
		at = len(c.waiting)
	}
	c.waiting = slices.Insert(c.waiting, at, x)
}

// gone lets wait in its place, now that x is not among the waiting any more, who comes after it. c.mu is held.
func (c *convoy[T]) gone(x T) {
	about := c.turnOf(x)
	if about == "" {
		return
	}
	behind := c.behind[about]
	if len(behind) == 0 {
		delete(c.behind, about)
		return
	}
	c.waiting, c.behind[about] = append(c.waiting, behind[0]), behind[1:]
	c.crowd--
}

// most is how many groups may be under way now. c.mu is held.
func (c *convoy[T]) most() int {
	if c.crowd < leastCrowd {
		return c.atOnce
	}
	return c.atOnce + c.inCrowd
}

func (c *convoy[T]) turnOf(x T) string {
	if c.turn == nil {
		return ""
	}
	return c.turn(x)
}

// run carries group after group.
func (c *convoy[T]) run(group []T) {
	for len(group) > 0 {
		c.carry(group)
		group = c.arrived()
	}
}

// arrived ends a group's way, and is the group that goes next in its place: none if nothing waits, or as many as may be
// are under way besides.
func (c *convoy[T]) arrived() (group []T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.underway <= c.most() {
		group = c.next()
	}
	if len(group) == 0 {
		c.underway--
	}
	return group
}

// next is the group that goes now, if there is one. c.mu is held.
func (c *convoy[T]) next() (group []T) {
	for len(group) == 0 && c.pressed() {
		group, c.waiting = c.load(c.waiting)
		for _, x := range group {
			c.gone(x)
		}
	}
	return group
}

// pressed reports that something waits which waits for no others to go with. If there are only patient ones, they will
// be looked at when the patience of the first is over. c.mu is held.
func (c *convoy[T]) pressed() bool {
	if len(c.waiting) == 0 || c.patience == nil {
		return len(c.waiting) > 0
	}
	now := time.Now()
	var first time.Time
	for _, x := range c.waiting {
		until := c.patience(x)
		if !until.After(now) {
			return true
		}
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	if c.timer == nil {
		c.timer = time.AfterFunc(first.Sub(now), c.press)
	}
	return false
}

// press sends off those whose patience is over, if nothing is under way that they can follow.
func (c *convoy[T]) press() {
	c.mu.Lock()
	c.timer = nil
	var group []T
	if c.underway < c.most() {
		if group = c.next(); len(group) > 0 {
			c.underway++
		}
	}
	c.mu.Unlock()
	c.depart(group)
}

// withdraw takes out what still waits. It reports false if that has gone.
func (c *convoy[T]) withdraw(x T) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := slices.Index(c.waiting, x); at >= 0 {
		c.waiting = slices.Delete(c.waiting, at, at+1)
		c.gone(x)
		return true
	}
	about := c.turnOf(x)
	behind := c.behind[about]
	at := slices.Index(behind, x)
	if at >= 0 {
		c.behind[about] = slices.Delete(behind, at, at+1)
		c.crowd--
	}
	return at >= 0
}
