package main

import (
	"testing"
	"time"
)

// stallPatience is how long clients wait for an overdue answer before they turn to another replica: soon enough to keep
// the place that they have.
const (
	stallPatience = time.Second
	stallPoll     = 1
	stallLasts    = 17 * time.Second // longer than a replica's registration
	stalls        = 4
)

var impatient = []way{
	{wait: stallPoll, poll: stallPoll, keyed: true, queue: true},
	{poll: stallPoll, queue: true, keyed: true},
	{wait: stallPoll, poll: stallPoll, leased: true, queue: true},
}

// clientsTakeOneLockInTurnWhileAllStalls: what a replica does as it wakes, on what it knew before, and what a change of
// etcd's leader interrupts, gives the lock to nobody out of turn.
func clientsTakeOneLockInTurnWhileAllStalls(t *testing.T, s *service) {
	if !*long {
		t.Skip("the waiting TTL of the short form is no longer than etcd may take to hear of one who asks")
	}
	c := newClient(t)
	c.patience = stallPatience
	takeInTurnWhile(t, s, c, "in turn, at times", impatient, func() {
		for i := range stalls {
			r := s.replicas[i%len(s.replicas)]
			r.pause()
			away := time.NewTimer(stallLasts)
			<-away.C
			r.resume()
			leader := s.etcd.Leader()
			s.etcd.Pause(leader)
			away.Reset(stallLasts / 4)
			<-away.C
			s.etcd.Resume(leader)
			s.healthy(t)
		}
	})
}
