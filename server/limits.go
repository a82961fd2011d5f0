package server

import (
	"fmt"
	"sync"

	"github.com/latchkey/latchkey/server/access"
)

// Limits bound what one may have of a replica, so that nobody drowns the rest. 0 is no bound.
type Limits struct {
	// RatePerPrincipal and RatePerAddress are requests a second.
	RatePerPrincipal, RatePerAddress int
	// Of each principal, through all replicas; past that it can get what is taken in the three seconds that it takes the
	// replicas to tell each other. None is for everybody, where nobody is asked who they are.
	ClaimsPerPrincipal, LeasesPerPrincipal int
	// The same, at this replica.
	WaitersPerPrincipal, StreamsPerPrincipal int
	// Streams are all that are open here.
	Streams int
}

// limits are Limits at work.
type limits struct {
	Limits
	principals, addresses *rates
	waiters, streams      counts
	tally                 tally
	dear                  turns
}

func newLimits(l Limits, s standings) *limits {
	return &limits{
		Limits:     l,
		principals: newRates(l.RatePerPrincipal),
		addresses:  newRates(l.RatePerAddress),
		tally:      tally{mostClaims: l.ClaimsPerPrincipal, mostLeases: l.LeasesPerPrincipal, store: s},
		dear:       newTurns(),
	}
}

// limitError reports a bound that was reached. Nothing was done.
type limitError struct{ code, title, detail string }

func (e *limitError) Error() string { return e.detail }

func tooManyRequests(who string, most int) error {
	return &limitError{"too_many_requests", "Too many requests",
		fmt.Sprintf("this %s sends more requests than it may: %d a second", who, most)}
}

func tooMany(code, title, of string, most int) error {
	return &limitError{code, title, fmt.Sprintf("this principal has as many %s as it may: %d", of, most)}
}

// counts are how many each principal has of something just now.
type counts struct {
	mu  sync.Mutex
	of  map[string]int
	all int
}

// take takes one, and reports whether there was one to take; most bounds those of who, mostAll those of all. 0 is no bound.
func (c *counts) take(who string, most, mostAll int) (ok, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case mostAll > 0 && c.all >= mostAll:
		return false, true
	case who != "" && most > 0 && c.of[who] >= most:
		return false, false
	}
	c.all++
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[who]++
	return true, false
}

func (c *counts) give(who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.of[who]--; c.of[who] == 0 {
		delete(c.of, who)
	}
}

// wait counts a request that waits, until done is called.
func (l *limits) wait(who *access.Principal) (done func(), err error) {
	if ok, _ := l.waiters.take(who.Name, l.WaitersPerPrincipal, 0); !ok {
		return nil, tooMany("too_many_waiters", "The queue is full", "requests waiting", l.WaitersPerPrincipal)
	}
	return func() { l.waiters.give(who.Name) }, nil
}

// stream counts a stream, until done is called.
func (l *limits) stream(who *access.Principal) (done func(), err error) {
	switch ok, full := l.streams.take(who.Name, l.StreamsPerPrincipal, l.Streams); {
	case full:
		return nil, errManyStreams
	case !ok:
		return nil, tooMany("too_many_streams", "Too many streams", "streams open", l.StreamsPerPrincipal)
	}
	return func() { l.streams.give(who.Name) }, nil
}

// refuse counts what was refused because of a limit.
func (s *Server) refuse(err error) error {
	s.metrics.refused.WithLabelValues(failureOf(err).code).Inc()
	return err
}
