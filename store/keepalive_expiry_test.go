package store

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestLeasesThatRunOutTogetherDelayNoneThatStands lets thousands of etcd leases run out at once and renews some of them
// too late, again and again, while others that stand are renewed ten times a second. It takes 0.02 s at most to renew
// those that are known to stand, and 0.6 s the others; were they not kept apart both took 3.6 s.
func TestLeasesThatRunOutTogetherDelayNoneThatStands(t *testing.T) {
	const (
		dying, late = 4_000, 200
		standing    = 40
		ttl         = 10 * time.Second // by then all are begun, on a busy machine too
		bound       = 2500 * time.Millisecond
	)
	s := open(t, etcdtest.New(t).Client(t), func(c *Config) { c.WaitingTTL, c.RequestBound = 30*time.Second, 20*time.Second })
	ctx := ctxFor(t)
	dead := make([]clientv3.LeaseID, dying)
	inParallel(64, dying, func(i int) { dead[i] = grant(t, s, ttl) })
	known, unknown := make([]clientv3.LeaseID, standing), make([]clientv3.LeaseID, standing)
	inParallel(8, standing, func(i int) { known[i], unknown[i] = grant(t, s, time.Minute), grant(t, s, time.Minute) })
	inParallel(64, dying, func(i int) { // so that they run out together
		if _, err := s.keepAlive(ctx, dead[i]); err != nil {
			t.Errorf("a renewal in time: %v", err)
		}
	})
	if t.Failed() {
		return
	}
	runOut := time.Now().Add(ttl)

	renewing, stop := context.WithCancel(ctx)
	defer stop()
	var work sync.WaitGroup
	var ofKnown, ofUnknown, ofLate slowest
	for i := range standing {
		work.Go(func() {
			renewEvery(t, renewing, 100*time.Millisecond, &ofKnown, func() error {
				_, err := s.keepAliveBefore(ctx, known[i], time.Now().Add(30*time.Second))
				return err
			})
		})
		work.Go(func() {
			renewEvery(t, renewing, 100*time.Millisecond, &ofUnknown, func() error {
				_, err := s.keepAlive(ctx, unknown[i])
				return err
			})
		})
	}
	sleep(ctx, time.Until(runOut.Add(200*time.Millisecond)))
	inParallel(late, late, func(i int) {
		for refused := false; !refused && ctx.Err() == nil; {
			asked := time.Now()
			_, err := s.keepAlive(ctx, dead[dying-1-i])
			ofLate.note(time.Since(asked))
			if err == nil {
				t.Error("a lease was renewed that had run out")
			}
			refused = errors.Is(err, rpctypes.ErrLeaseNotFound)
		}
	})
	eventually(t, "all that ran out are gone", func() bool {
		resp, err := s.etcd.Leases(ctx)
		return err == nil && len(resp.Leases) < dying
	})
	stop()
	work.Wait()
	t.Logf("slowest renewal of those that stand %v, not known to %v, of those that do not %v", ofKnown.took, ofUnknown.took, ofLate.took)
	if max(ofKnown.took, ofUnknown.took) > max(bound, ofLate.took*3/4) || ofLate.took > s.perTry()+5*time.Second {
		t.Error("a renewal took too long")
	}
}

// slowest is the longest time that something took.
type slowest struct {
	mu   sync.Mutex
	took time.Duration
}

func (s *slowest) note(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = max(s.took, took)
}

func renewEvery(t testing.TB, ctx context.Context, every time.Duration, slow *slowest, renew func() error) {
	for ctx.Err() == nil {
		asked := time.Now()
		if err := renew(); err != nil {
			t.Errorf("a renewal of a lease that stands: %v", err)
			return
		}
		slow.note(time.Since(asked))
		sleep(ctx, every)
	}
}

func inParallel(workers, n int, do func(i int)) {
	var work sync.WaitGroup
	jobs := make(chan int)
	for range workers {
		work.Go(func() {
			for i := range jobs {
				do(i)
			}
		})
	}
	for i := range n {
		jobs <- i
	}
	close(jobs)
	work.Wait()
}
