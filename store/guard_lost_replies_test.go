package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// A lease whose end went unanswered and was asked for again has been ended by this very call, not by nobody.
func TestLostReplyOfTheEndOfALeaseIsItsEnd(t *testing.T) {
	for name, lose := range map[string]func(*etcdtest.Fault) *etcdtest.Fault{
		"broken": func(x *etcdtest.Fault) *etcdtest.Fault { return x.BreakReply(codes.Unavailable) },
		"lost":   (*etcdtest.Fault).LoseReply,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, faults := faulty(t)
			lease := mustLease(t, s, 60*time.Second)
			mustHold(t, s, Claim{Name: "x", LeaseID: lease.ID})
			record, err := s.readLease(ctxFor(t), calledOf(t, lease.ID))
			if err != nil {
				t.Fatal(err)
			}
			lost := lose(faults.Next(func(c etcdtest.Call) bool {
				r, is := c.Request.(*pb.LeaseRevokeRequest)
				return is && r.ID == int64(record.Lease)
			}))
			if err := s.EndLease(ctxFor(t), lease.ID); err != nil {
				t.Errorf("end: %v", err)
			}
			lost.WaitDone(t)
			wantErr(t, "the client's own repeat", s.EndLease(ctxFor(t), lease.ID), ErrNoLease)
			mustHold(t, s, Claim{Name: "x"})
		})
	}
}

// Every other reply is torn off, while many claims and releases are under way together: each is done once, its answer
// says so, and none waits behind its own ghost.
func TestClaimsWhoseRepliesAreTornOffAreMadeOnce(t *testing.T) {
	t.Parallel()
	const clients, each = 8, 10
	s, faults := faulty(t)
	var sent atomic.Int64
	torn := faults.Every(etcdtest.Txns(nil).And(etcdtest.Writes).And(etcdtest.Touches(s.keys.locks())).And(func(etcdtest.Call) bool {
		return sent.Add(1)%2 == 1
	})).BreakReply(codes.Unavailable)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for range each {
				name := fmt.Sprint("torn ", c)
				l, err := s.Claim(ctxFor(t), Claim{Name: name, TTL: 30 * time.Second})
				if err != nil || l.State != Held || l.Replayed {
					t.Errorf("a claim on a free name: got %+v, %v", l, err)
					return
				}
				got, err := s.List(ctxFor(t), Filter{Name: name, Limit: MaxLimit})
				if err != nil || len(got.Locks) != 1 || got.Locks[0].ID != l.ID || got.Locks[0].Token != l.Token {
					t.Errorf("got %+v, %v on the name, want %+v alone", got, err, l)
				}
				if err := s.Release(ctxFor(t), l.ID); err != nil {
					t.Errorf("release: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := torn.Hits(); n < each {
		t.Errorf("only %d replies were torn off", n)
	}
}

// A line that carries only what is small, as some do, costs the large their answer, in time, and the small nothing.
func TestLargeRequestsThatNeverArriveHarmNoSmallOnes(t *testing.T) {
	t.Parallel()
	const small, tries, packet, requestBound = 4, 1, 1500, 6 * time.Second
	s, faults := faulty(t, func(c *Config) { c.RequestBound = requestBound })
	swallowed := faults.Every(etcdtest.Txns(func(txn *pb.TxnRequest) bool {
		return putBytes(txn) > packet
	})).Drop()
	large := map[string]string{}
	for i := range MaxPairs {
		large[fmt.Sprint("k", i)] = strings.Repeat("v", MaxMetadataBytes/MaxPairs-8)
	}
	done := make(chan struct{})
	var all sync.WaitGroup
	for c := range small {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				l, err := s.Claim(ctxFor(t), Claim{Name: fmt.Sprint("small ", c), TTL: 30 * time.Second})
				if err == nil {
					err = s.Release(ctxFor(t), l.ID)
				}
				if err != nil {
					t.Errorf("a small claim beside large ones: %v", err)
					return
				}
			}
		})
	}
	for range tries {
		begun := time.Now()
		_, err := s.Claim(ctxFor(t), Claim{Name: "large", TTL: 30 * time.Second, Metadata: large})
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
			t.Errorf("a claim that never arrives: got %v", err)
		}
		if took := time.Since(begun); took > requestBound+within/4 {
			t.Errorf("a claim that never arrives was answered after %v", took)
		}
	}
	close(done)
	all.Wait()
	if swallowed.Hits() < tries {
		t.Error("nothing was swallowed: this asks for nothing")
	}
	swallowed.Remove()
	mustHold(t, s, Claim{Name: "large", Metadata: large})
}

// putBytes is how much a transaction puts, in any of its branches.
func putBytes(txn *pb.TxnRequest) int {
	bytes := 0
	for _, op := range append(append([]*pb.RequestOp(nil), txn.Success...), txn.Failure...) {
		if p := op.GetRequestPut(); p != nil {
			bytes += len(p.Key) + len(p.Value)
		}
		if inner := op.GetRequestTxn(); inner != nil {
			bytes += putBytes(inner)
		}
	}
	return bytes
}

// What went unanswered goes again alone, and is in nobody's way: not even of each other.
func TestWhatWentUnansweredTravelsAlone(t *testing.T) {
	t.Parallel()
	s, faults := faulty(t)
	first := faults.Every(etcdtest.Touches(s.keys.prefix + "lost/")).Drop()
	ctx := ctxFor(t)
	lost := []<-chan result{travel(ctx, s, "lost/a"), travel(ctx, s, "lost/b")}
	first.WaitArrived(t)
	first.Remove()
	again := faults.Every(etcdtest.Touches(s.keys.prefix + "lost/")).Hold()
	eventually(t, "each is on its way alone", func() bool { return again.Hits() == len(lost) })
	if _, err := get(t, travel(ctx, s, "other")); err != nil {
		t.Errorf("another, meanwhile: %v", err)
	}
	again.Remove()
	again.Release()
	for _, l := range lost {
		if _, err := get(t, l); err != nil {
			t.Errorf("what goes again: %v", err)
		}
	}
}
