package store

import (
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func (s *Store) leases() pb.LeaseClient { return pb.NewLeaseClient(s.etcd.ActiveConnection()) }

// granted is an etcd lease that is known to have begun.
type granted struct {
	id clientv3.LeaseID
	// ttl is what etcd made of the one asked for: it may be longer.
	ttl time.Duration
	// sent is when the request that began it was sent: it lasts at least one ttl from then.
	sent time.Time
}

// beginLease begins an etcd lease, trying until that is answered or ctx ends.
func (s *Store) beginLease(ctx context.Context, kind leaseKind, ttl time.Duration) (granted, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		term := s.terms.last.Load()
		g, h, err := s.grantLease(ctx, newLeaseID(kind, term), ttl)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseExist) && ctx.Err() == nil:
			continue // somebody else's, by an id that happened to be the same
		case err != nil:
			return granted{}, unavailable(err)
		case h != nil && s.terms.covers(h.MemberId, term, g.sent):
			return g, nil
		}
		s.tidy.revoke(g.id) // it may be of an earlier term than it says
		if h != nil {
			s.terms.saw(h)
		}
		if ctx.Err() != nil {
			return granted{}, unavailable(context.Cause(ctx))
		}
		sleep(ctx, pause)
	}
}

// grantLease begins the etcd lease id. The header is nil if an earlier attempt than the one that was answered did it.
func (s *Store) grantLease(ctx context.Context, id clientv3.LeaseID, ttl time.Duration) (granted, *pb.ResponseHeader, error) {
	sent := time.Now()
	again := false
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		try, cancel := context.WithTimeout(ctx, s.perTry())
		resp, err := s.leases().LeaseGrant(try, &pb.LeaseGrantRequest{ID: int64(id), TTL: int64(ttl / time.Second)})
		cancel()
		err = rpctypes.Error(err)
		switch {
		case err == nil:
			return granted{id, time.Duration(resp.TTL) * time.Second, sent}, resp.Header, nil
		case errors.Is(err, rpctypes.ErrLeaseExist) && again:
			return granted{id, ttl, sent}, nil, nil
		case errors.Is(err, rpctypes.ErrLeaseExist):
			return granted{}, nil, err
		}
		s.metrics.failed(err)
		if certain(err) && !again {
			return granted{}, nil, err
		}
		if certain(err) || ctx.Err() != nil {
			s.tidy.revoke(id)
			return granted{}, nil, err
		}
		again = true
		sleep(ctx, pause)
	}
}

// tidy revokes etcd leases that nobody needs any more, slowly and in the background: a revoke forces a disk commit.
// What it cannot do runs out by itself.
type tidy struct {
	s     *Store
	queue chan clientv3.LeaseID
	work  sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

const (
	revokers     = 4
	revokeQueue  = 4096
	revokeTries  = 3
	revokeWithin = 5 * time.Second
)

func newTidy(s *Store) *tidy {
	t := &tidy{s: s, queue: make(chan clientv3.LeaseID, revokeQueue)}
	for range revokers {
		t.work.Go(func() {
			for id := range t.queue {
				t.revokeNow(id)
			}
		})
	}
	return t
}

func (t *tidy) revoke(id clientv3.LeaseID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	select {
	case t.queue <- id:
	default: // it runs out by itself
	}
}

func (t *tidy) revokeNow(id clientv3.LeaseID) {
	for range revokeTries {
		ctx, cancel := context.WithTimeout(context.Background(), revokeWithin/revokeTries)
		_, err := t.s.leases().LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(id)})
		cancel()
		if err = rpctypes.Error(err); err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return
		}
		t.s.metrics.failed(err)
		if t.s.life.Err() != nil {
			return
		}
	}
}

// close revokes what is queued, at the latest until ctx ends.
func (t *tidy) close(ctx context.Context) {
	t.mu.Lock()
	t.closed = true
	close(t.queue)
	t.mu.Unlock()
	done := make(chan struct{})
	go func() { defer close(done); t.work.Wait() }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
