package store

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// grant begins an etcd lease; grantOn begins one whose renewals travel with those of another.
func grant(t testing.TB, s *Store, ttl time.Duration) clientv3.LeaseID {
	t.Helper()
	return grantID(t, s, newLeaseID(holdLease, 1), ttl)
}

func grantOn(t testing.TB, s *Store, other clientv3.LeaseID) clientv3.LeaseID {
	t.Helper()
	for {
		if id := newLeaseID(holdLease, 1); laneOf(id, time.Time{}) == laneOf(other, time.Time{}) {
			return grantID(t, s, id, time.Minute)
		}
	}
}

func grantID(t testing.TB, s *Store, id clientv3.LeaseID, ttl time.Duration) clientv3.LeaseID {
	t.Helper()
	if _, _, err := s.grantLease(ctxFor(t), id, ttl); err != nil {
		t.Fatalf("grant a lease: %v", err)
	}
	return id
}

func requestsFor(id clientv3.LeaseID) etcdtest.Match {
	return etcdtest.KeepAlives(func(r *pb.LeaseKeepAliveRequest) bool { return r.ID == int64(id) })
}

func repliesFor(id clientv3.LeaseID) etcdtest.Match {
	return etcdtest.KeepAliveReplies(func(r *pb.LeaseKeepAliveResponse) bool { return r.ID == int64(id) })
}

type renewal struct {
	kept kept
	err  error
	took time.Duration
}

func renewInBackground(ctx context.Context, s *Store, id clientv3.LeaseID) <-chan renewal {
	done := make(chan renewal, 1)
	go func() {
		asked := time.Now()
		k, err := s.keepAlive(ctx, id)
		done <- renewal{k, err, time.Since(asked)}
	}()
	return done
}

func renewed(t testing.TB, done <-chan renewal) renewal {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(within):
		t.Fatal("the renewal did not return")
		return renewal{}
	}
}

func mustBeRenewed(t testing.TB, what string, done <-chan renewal) kept {
	t.Helper()
	r := renewed(t, done)
	if r.err != nil || r.kept.ttl <= 0 || r.kept.term == 0 || r.kept.sent.IsZero() {
		t.Fatalf("%s: got %+v", what, r)
	}
	return r.kept
}

func mustWait(t testing.TB, done <-chan renewal) {
	t.Helper()
	select {
	case r := <-done:
		t.Fatalf("the renewal returned %+v: want it to wait", r)
	default:
	}
}

// patient gives one renewal far longer than anything here takes but a hang.
func patient(c *Config) { c.RequestBound = 100 * time.Second }

// lane looks at the streams of a lease's lane that have not ended, and at the one that takes new renewals.
func lane(s *Store, id clientv3.LeaseID, look func(all int, current *keepStream)) {
	k, n, all := s.keepers, laneOf(id, time.Time{}), 0
	k.mu.Lock()
	defer k.mu.Unlock()
	for st := range k.streams {
		if st.lane == n {
			all++
		}
	}
	look(all, k.lanes[n])
}

func waitingUnsent(s *Store, id clientv3.LeaseID) (waiting int) {
	lane(s, id, func(_ int, st *keepStream) {
		if st != nil && st.unsent[id] != nil {
			waiting = st.unsent[id].waiting
		}
	})
	return waiting
}

func TestStreamsCutMidFlightAnswerEveryCaller(t *testing.T) {
	etcd := etcdtest.New(t)
	faults := etcdtest.NewFaults(t)
	s := open(t, etcd.Client(t, faults), patient)
	const callers = 200
	leases := make([]clientv3.LeaseID, callers/2)
	for i := range leases {
		leases[i] = grant(t, s, time.Minute)
	}
	dropped := faults.Every(etcdtest.KeepAlives(nil)).Drop()
	var all []<-chan renewal
	for i := range callers {
		all = append(all, renewInBackground(ctxFor(t), s, leases[i%len(leases)]))
	}
	eventually(t, "requests of all leases are under way", func() bool { return dropped.Hits() >= len(leases) })
	etcd.Stop()
	for _, done := range all {
		if r := renewed(t, done); r.err == nil || errors.Is(r.err, errNoAnswer) {
			t.Fatalf("a renewal whose stream was cut: got %+v", r)
		}
	}
	dropped.Remove()
	etcd.Start()
	eventually(t, "renewals work again", func() bool {
		_, err := s.keepAlive(ctxFor(t), leases[0])
		return err == nil
	})
}

func TestBrokenStreamIsReplacedByTheNextRenewal(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	s := open(t, etcdtest.Shared(t).Client(t, faults), patient)
	first := grant(t, s, time.Minute)
	second := grantOn(t, s, first)
	held := faults.Next(requestsFor(first)).Hold()
	one := renewInBackground(ctxFor(t), s, first)
	held.WaitArrived(t)
	faults.Next(requestsFor(second)).Fail(codes.Unavailable)
	two := renewInBackground(ctxFor(t), s, second)
	eventually(t, "the second waits behind the first", func() bool { return waitingUnsent(s, second) == 1 || len(two) == 1 })
	held.Release()
	if r := renewed(t, two); r.err == nil {
		t.Errorf("a renewal whose stream broke: got %+v", r)
	}
	renewed(t, one) // answered or not, as it falls out
	mustBeRenewed(t, "after a stream broke", renewInBackground(ctxFor(t), s, first))
}

// TestAnswerIsOnlyForThoseWhoAskedBefore holds an answer back while the same lease is renewed again: the second caller
// gets the answer to a message of its own, on another stream.
func TestAnswerIsOnlyForThoseWhoAskedBefore(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	s := open(t, etcdtest.Shared(t).Client(t, faults), patient)
	id := grant(t, s, time.Minute)
	answer := faults.Next(repliesFor(id)).HoldReply()
	one := renewInBackground(ctxFor(t), s, id)
	answer.WaitDone(t)
	asked := time.Now()
	two := mustBeRenewed(t, "a renewal after another of the same lease", renewInBackground(ctxFor(t), s, id))
	if two.sent.Before(asked) {
		t.Error("a renewal took the answer to a message that was written before it was asked for")
	}
	mustWait(t, one)
	answer.Release()
	if one := mustBeRenewed(t, "a renewal whose answer was late", one); one.sent.After(asked) {
		t.Error("a renewal took the answer to a later message while its own was under way")
	}
	eventually(t, "the retired stream has ended", func() (ended bool) {
		lane(s, id, func(all int, _ *keepStream) { ended = all <= 1 })
		return ended
	})
}

// TestAnswerToTheMessageBeforeIsNotTaken does the same on one stream, where the second message never arrives.
func TestAnswerToTheMessageBeforeIsNotTaken(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	s := open(t, etcdtest.Shared(t).Client(t, faults), func(c *Config) { c.RequestBound = 5 * time.Second })
	id := grant(t, s, time.Minute)
	answer := faults.Next(repliesFor(id)).HoldReply()
	one := renewInBackground(ctxFor(t), s, id)
	answer.WaitDone(t)
	lost := faults.Every(requestsFor(id)).Drop()
	two := renewInBackground(ctxFor(t), s, id)
	lost.WaitArrived(t)
	answer.Release()
	mustBeRenewed(t, "the first", one)
	if r := renewed(t, two); !errors.Is(r.err, errNoAnswer) || r.took < s.perTry() {
		t.Errorf("a renewal whose message was lost: got %+v", r)
	}
}

func TestCallersBeforeTheWriteShareOneMessage(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	s := open(t, etcdtest.Shared(t).Client(t, faults), patient)
	first := grant(t, s, time.Minute)
	id := grantOn(t, s, first)
	held := faults.Next(requestsFor(first)).Hold()
	one := renewInBackground(ctxFor(t), s, first)
	held.WaitArrived(t)
	messages := faults.Every(requestsFor(id)).Count()
	const callers = 5
	var all []*keepCall
	for range callers {
		c, err := s.keepers.join(id, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	held.Release()
	for _, c := range all {
		select {
		case <-c.done:
			if c.err != nil {
				t.Errorf("a shared renewal: %v", c.err)
			}
		case <-time.After(within):
			t.Fatal("a shared renewal was not answered")
		}
	}
	mustBeRenewed(t, "the first", one)
	if got := messages.Hits(); got != 1 {
		t.Errorf("%d callers sent %d messages, want 1", callers, got)
	}
}

func TestCallerThatLeavesDisturbsNoOther(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	s := open(t, etcdtest.Shared(t).Client(t, faults), patient)
	first := grant(t, s, time.Minute)
	id := grantOn(t, s, first)
	held := faults.Next(requestsFor(first)).Hold()
	leaving, leave := context.WithCancel(ctxFor(t))
	defer leave()
	gone := renewInBackground(leaving, s, first)
	held.WaitArrived(t)
	goneToo := renewInBackground(leaving, s, id)
	stays := renewInBackground(ctxFor(t), s, id)
	leave()
	for _, done := range []<-chan renewal{gone, goneToo} {
		if r := renewed(t, done); !errors.Is(r.err, context.Canceled) {
			t.Errorf("a renewal whose caller left: got %+v", r)
		}
	}
	held.Release()
	mustBeRenewed(t, "of the caller who stayed", stays)
}

func TestLostReplyCostsItsCallerAlone(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	s := open(t, etcdtest.Shared(t).Client(t, faults))
	id := grant(t, s, time.Minute)
	others := []clientv3.LeaseID{grantOn(t, s, id), grantOn(t, s, id), grantOn(t, s, id)}
	lost := faults.Next(repliesFor(id)).LoseReply()
	alone := renewInBackground(ctxFor(t), s, id)
	lost.WaitDone(t)
	for _, other := range others {
		done := renewInBackground(ctxFor(t), s, other)
		mustBeRenewed(t, "behind a lost reply", done)
	}
	if r := renewed(t, alone); !errors.Is(r.err, errNoAnswer) || r.took > s.perTry()+5*time.Second {
		t.Errorf("a renewal whose reply was lost: got %+v", r)
	}
}

func TestRenewalWithoutQuorumFailsInBoundedTime(t *testing.T) {
	cluster := etcdtest.NewCluster(t, 3)
	leader := cluster.Leader()
	for what, member := range map[string]int{"leader": leader, "follower": (leader + 1) % 3} {
		s := open(t, cluster.Client(t, []string{cluster.Endpoint(member)}), func(c *Config) { c.WaitingTTL = time.Minute })
		id := grant(t, s, time.Minute)
		for i := range 3 {
			if i != member {
				cluster.Pause(i)
			}
		}
		eventually(t, "a renewal through a "+what+" without quorum fails", func() bool {
			r := renewed(t, renewInBackground(ctxFor(t), s, id))
			if r.took > s.perTry()+5*time.Second {
				t.Errorf("a renewal through a %s without quorum took %v", what, r.took)
			}
			return r.err != nil
		})
		for i := range 3 {
			if i != member {
				cluster.Resume(i)
			}
		}
		if err := cluster.WaitHealthy(ctxFor(t)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is renewed again", func() bool {
			_, err := s.keepAlive(ctxFor(t), id)
			return err == nil
		})
	}
}

func TestLeasesSpreadOverTheLanes(t *testing.T) {
	const leases = 8_000
	for what, id := range map[string]func(int) clientv3.LeaseID{
		"random":  func(int) clientv3.LeaseID { return newLeaseID(holdLease, 1) },
		"waiting": func(int) clientv3.LeaseID { return newLeaseID(waitingLease, 1) },
		"counted": func(i int) clientv3.LeaseID { return clientv3.LeaseID(i) },
	} {
		var alive, others [2 * lanesPerGroup]int
		for i := range leases {
			alive[laneOf(id(i), time.Now().Add(time.Minute))]++
			others[laneOf(id(i), time.Now().Add(aliveFor/2))]++
		}
		for i := range 2 * lanesPerGroup {
			few, many := others[i], alive[i]
			if i < lanesPerGroup {
				few, many = many, few
			}
			if few != 0 || many < leases/lanesPerGroup/2 || many > leases/lanesPerGroup*2 {
				t.Errorf("%s leases on lane %d: alive %d, others %d", what, i, alive[i], others[i])
			}
		}
	}
}
