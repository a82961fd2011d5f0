package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcd's own leases. Their ids are ours to choose: a repeat of a grant whose answer was lost then makes no second one.
// Etcd would count them up, so that one tells the next. By the lowest bit a count of the keys alone can tell what is
// queued from what is held.

func newHoldLease() clientv3.LeaseID    { return randomLease() &^ 1 }
func newWaitingLease() clientv3.LeaseID { return randomLease() | 1 }

func isWaitingLease(id clientv3.LeaseID) bool { return id&1 == 1 }

func randomLease() clientv3.LeaseID {
	var raw [8]byte
	for {
		rand.Read(raw[:])
		if id := clientv3.LeaseID(binary.BigEndian.Uint64(raw[:]) >> 1); id > 1 {
			return id
		}
	}
}

func (s *Store) leases() pb.LeaseClient { return pb.NewLeaseClient(s.etcd.ActiveConnection()) }

// granted is an etcd lease that is known to have begun.
type granted struct {
	// ttl is what etcd made of the one asked for: it may be longer.
	ttl time.Duration
	// sent is when the request that began it was sent: it lasts at least one ttl from then.
	sent time.Time
}

// grantLease begins the etcd lease id, trying until it is answered or ctx ends.
func (s *Store) grantLease(ctx context.Context, id clientv3.LeaseID, ttl time.Duration) (granted, error) {
	sent := time.Now()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		try, cancel := context.WithTimeout(ctx, s.perTry())
		resp, err := s.leases().LeaseGrant(try, &pb.LeaseGrantRequest{ID: int64(id), TTL: int64(ttl / time.Second)})
		cancel()
		err = rpctypes.Error(err)
		switch {
		case err == nil:
			return granted{time.Duration(resp.TTL) * time.Second, sent}, nil
		case errors.Is(err, rpctypes.ErrLeaseExist):
			return granted{ttl, sent}, nil // an earlier attempt was answered too late
		}
		s.metrics.failed(err)
		if certain(err) || ctx.Err() != nil {
			s.tidy.revoke(id)
			return granted{}, unavailable(err)
		}
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
