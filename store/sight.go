package store

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// leastBump is how far revisions must go on between two answers for nothing but a restore to have done it: operators are
// told to bump them by twice as much, and writes alone take half a day.
const leastBump = 500_000_000

// sight is what this replica has seen of etcd itself. By it a wiped, restored or replaced store is told: another
// cluster id, or a linearizable answer with a revision below one that was seen before its request was sent, or far
// above it.
type sight struct {
	mu       sync.Mutex
	cluster  uint64
	revision int64
	// left is the highest revision seen of a store that was replaced since.
	left int64
	// ceiling is at least as high as any token of the epochs that this replica has left behind.
	ceiling int64
}

type seen struct {
	cluster  uint64
	revision int64
}

func (g *sight) now() seen {
	g.mu.Lock()
	defer g.mu.Unlock()
	return seen{g.cluster, g.revision}
}

// check notes the header of a linearizable answer to what was sent when before had been seen. It reports false if
// the store is not the one of before.
func (g *sight) check(before seen, h *pb.ResponseHeader) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if before.cluster != 0 && h.ClusterId != before.cluster || h.Revision < before.revision ||
		before.cluster != 0 && h.Revision-before.revision >= leastBump {
		g.left = max(g.left, before.revision)
		g.cluster, g.revision = h.ClusterId, h.Revision
		return false
	}
	if g.cluster == 0 {
		g.cluster = h.ClusterId
	}
	g.revision = max(g.revision, h.Revision)
	return true
}

// leave notes the epoch that is left behind, so that the next one begins above every token of it.
func (g *sight) leave(base int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ceiling = max(g.ceiling, base+max(g.left, g.revision))
}

func (g *sight) highest() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ceiling
}

// perTry bounds one attempt, so that a request has time for its fence and a repeat at another member.
func (s *Store) perTry() time.Duration { return s.cfg.RequestBound * 3 / 10 }

// once is a context for one attempt. It has no deadline that etcd's client could see, but is cancelled: an attempt that
// the server ends a moment before the client's own deadline would be repeated by the client itself, writes too.
func (s *Store) once(ctx context.Context) (context.Context, context.CancelFunc) {
	once, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	limit := time.AfterFunc(s.perTry(), cancel)
	return once, func() { stop(); limit.Stop(); cancel() }
}

// send sends one transaction to etcd, once.
func (s *Store) send(ctx context.Context, cmps []clientv3.Cmp, then, els []clientv3.Op) (*clientv3.TxnResponse, error) {
	before := s.sight.now()
	once, cancel := s.once(ctx)
	defer cancel()
	resp, err := s.etcd.Txn(once).If(cmps...).Then(then...).Else(els...).Commit()
	if err != nil {
		if ctx.Err() == nil && once.Err() != nil {
			err = context.DeadlineExceeded
		}
		s.metrics.failed(err)
		if ctx.Err() == nil && !certain(err) {
			s.leader.doubt(err)
		}
		return nil, err
	}
	s.terms.saw(resp.Header)
	if !s.sight.check(before, resp.Header) {
		s.terms.beginAgain(resp.Header)
		s.replaced()
		return resp, errReplaced
	}
	return resp, nil
}

// reading is what one linearizable look at several ranges has found.
type reading struct {
	header *pb.ResponseHeader
	ranges []*pb.RangeResponse
}

// read looks at the ranges that ops name, all at one revision, and repeats it until it is answered or ctx ends.
func (s *Store) read(ctx context.Context, ops ...clientv3.Op) (reading, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		resp, err := s.send(ctx, nil, ops, nil)
		switch {
		case err == nil:
			return reading{resp.Header, rangesOf(resp.Responses)}, nil
		case certain(err) || ctx.Err() != nil:
			return reading{}, unavailable(err)
		}
		sleep(ctx, pause)
	}
}

// rangesOf are the answers of the gets among a transaction's, each at its place.
func rangesOf(responses []*pb.ResponseOp) []*pb.RangeResponse {
	ranges := make([]*pb.RangeResponse, len(responses))
	for i, r := range responses {
		ranges[i] = r.GetResponseRange()
	}
	return ranges
}

// replaced ends the registration that was made in the store as it was.
func (s *Store) replaced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.current.over(errReplaced)
	}
}
