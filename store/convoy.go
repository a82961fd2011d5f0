package store

import (
	"slices"
	"sync"
)

// convoy carries things in groups: at once while nothing is under way, so that nobody waits for company, and together
// what came while others were. One that is urgent does not wait for those, but takes with it what waits.
type convoy[T comparable] struct {
	// atOnce is how many groups may be under way; one more for what is urgent.
	atOnce int
	// load takes out of what waits, in the order in which it came, what goes together now.
	load func(waiting []T) (group, left []T)
	// carry takes a group to its end.
	carry func(group []T)
	// refuse is told of what can no longer be carried.
	refuse func(T)
	spawn  func(func()) bool

	mu       sync.Mutex
	waiting  []T
	underway int
}

// add takes x in, and carries it at once, in the caller's own goroutine, if it can go and goes alone: that is the way
// of everything while little is asked.
func (c *convoy[T]) add(x T, urgent bool) {
	c.mu.Lock()
	c.waiting = append(c.waiting, x)
	if c.underway > c.atOnce || c.underway == c.atOnce && !urgent {
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
	if len(group) > 0 && !c.spawn(func() { c.run(group) }) {
		c.refuseAll(group)
	}
}

// refuseAll is for the group that can no longer be carried, and what waits behind it.
func (c *convoy[T]) refuseAll(group []T) {
	c.mu.Lock()
	c.underway--
	group, c.waiting = append(group, c.waiting...), nil
	c.mu.Unlock()
	for _, x := range group {
		c.refuse(x)
	}
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
	if c.underway <= c.atOnce {
		group = c.next()
	}
	if len(group) == 0 {
		c.underway--
	}
	return group
}

// next is the group that goes now. c.mu is held.
func (c *convoy[T]) next() (group []T) {
	for len(group) == 0 && len(c.waiting) > 0 {
		group, c.waiting = c.load(c.waiting)
	}
	return group
}

// withdraw takes out what still waits. It reports false if that has gone.
func (c *convoy[T]) withdraw(x T) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.waiting, x)
	if at >= 0 {
		c.waiting = slices.Delete(c.waiting, at, at+1)
	}
	return at >= 0
}
