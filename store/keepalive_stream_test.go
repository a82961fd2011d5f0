package store

import (
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestSilentStreamIsLeft stops all answers of a stream for good: those behind its head are asked again elsewhere.
func TestSilentStreamIsLeft(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	s := open(t, etcdtest.Shared(t).Client(t, faults), patient)
	id := grant(t, s, time.Minute)
	behind := []clientv3.LeaseID{grantOn(t, s, id), grantOn(t, s, id), grantOn(t, s, id)}
	silent := faults.Next(repliesFor(id)).HoldReply()
	head := renewInBackground(ctxFor(t), s, id)
	silent.WaitDone(t)
	var all []<-chan renewal
	for _, other := range behind {
		all = append(all, renewInBackground(ctxFor(t), s, other))
	}
	var slowest time.Duration
	for _, done := range all {
		r := renewed(t, done)
		if r.err != nil {
			t.Errorf("behind a silent head: %v", r.err)
		}
		slowest = max(slowest, r.took)
	}
	t.Logf("the slowest renewal behind a silent head took %v", slowest)
	if slowest > 5*time.Second {
		t.Errorf("a renewal behind a silent head took %v", slowest)
	}
	mustWait(t, head)
	silent.Release()
	mustBeRenewed(t, "the head", head)
}

// TestMoreThanFitsOnAStreamIsAnswered asks for more than is written to a silent stream, of leases that etcd does not know.
func TestMoreThanFitsOnAStreamIsAnswered(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	s := open(t, etcdtest.Shared(t).Client(t, faults), patient)
	id := grant(t, s, time.Minute)
	silent := faults.Next(repliesFor(id)).HoldReply()
	head := renewInBackground(ctxFor(t), s, id)
	silent.WaitDone(t)
	const callers = 2 * unansweredAtOnce
	inParallel(callers, callers, func(int) {
		other := newLeaseID(holdLease, 1)
		for laneOf(other, time.Time{}) != laneOf(id, time.Time{}) {
			other = newLeaseID(holdLease, 1)
		}
		if r := renewed(t, renewInBackground(ctxFor(t), s, other)); !errors.Is(r.err, rpctypes.ErrLeaseNotFound) {
			t.Errorf("a renewal of no lease: got %+v", r)
		}
	})
	mustWait(t, head)
	silent.Release()
	mustBeRenewed(t, "the head", head)
}

func TestRenewedLanesOpenFreshStreams(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	s := open(t, etcdtest.Shared(t).Client(t, faults), patient)
	id := grant(t, s, time.Minute)
	answer := faults.Next(repliesFor(id)).HoldReply()
	one := renewInBackground(ctxFor(t), s, id)
	answer.WaitDone(t)
	s.keepers.renew()
	lane(s, id, func(all int, current *keepStream) {
		if all < 1 || current != nil {
			t.Errorf("got %d streams, current %v, want the old one alone, retired", all, current)
		}
	})
	mustBeRenewed(t, "on a fresh stream", renewInBackground(ctxFor(t), s, id))
	mustWait(t, one)
	answer.Release()
	mustBeRenewed(t, "on the old stream", one)
	eventually(t, "the old stream has ended", func() (ended bool) {
		lane(s, id, func(all int, _ *keepStream) { ended = all == 1 })
		return ended
	})
}

func TestUnusedLanesEnd(t *testing.T) {
	s := open(t, shared(t))
	id := grant(t, s, time.Minute)
	mustBeRenewed(t, "at first", renewInBackground(ctxFor(t), s, id))
	eventually(t, "no stream is left", func() bool {
		s.keepers.look(time.Now().Add(2 * laneIdle)) // as if nobody had used them for so long
		s.keepers.mu.Lock()
		defer s.keepers.mu.Unlock()
		return len(s.keepers.streams) == 0
	})
	mustBeRenewed(t, "on a new stream", renewInBackground(ctxFor(t), s, id))
}

func TestClosingEndsRenewals(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	s := open(t, etcdtest.Shared(t).Client(t, faults), patient)
	lost := faults.Every(etcdtest.KeepAlives(nil)).Drop()
	var all []<-chan renewal
	const callers = 20
	for range callers {
		all = append(all, renewInBackground(ctxFor(t), s, newLeaseID(holdLease, 1)))
	}
	eventually(t, "all are under way", func() bool { return lost.Hits() >= callers })
	s.keepers.close()
	for _, done := range append(all, renewInBackground(ctxFor(t), s, newLeaseID(holdLease, 1))) {
		if r := renewed(t, done); !errors.Is(r.err, errClosed) {
			t.Errorf("a renewal when the store closes: got %+v", r)
		}
	}
}
