package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// BenchmarkCycle takes and gives back locks on names of their own, by many clients at once, on a member that is another
// process. It tells how many transactions travelled in a batch.
func BenchmarkCycle(b *testing.B) {
	for _, clients := range []int{1, 64, 256} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			s := open(b, oneMember(b), func(c *Config) { c.WaitingTTL = 30 * time.Second })
			ctx := context.Background()
			var left atomic.Int64
			left.Store(int64(b.N))
			var work sync.WaitGroup
			b.ResetTimer()
			for i := range clients {
				work.Go(func() {
					for left.Add(-1) >= 0 {
						l, err := s.Claim(ctx, Claim{Name: fmt.Sprint("n", i), TTL: 30 * time.Second})
						if err == nil {
							err = s.Release(ctx, l.ID)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			work.Wait()
			b.StopTimer()
			reportBatches(b, s)
		})
	}
}

// BenchmarkHandOff passes one lock round among clients that all wait for it.
func BenchmarkHandOff(b *testing.B) {
	for _, clients := range []int{2, 16, 128} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			s := open(b, oneMember(b), func(c *Config) { c.WaitingTTL = 30 * time.Second })
			ctx := context.Background()
			var left atomic.Int64
			left.Store(int64(b.N))
			var work sync.WaitGroup
			b.ResetTimer()
			for range clients {
				work.Go(func() {
					for left.Add(-1) >= 0 {
						l, err := s.Claim(ctx, Claim{Name: "x", TTL: 30 * time.Second, Wait: time.Minute})
						if err == nil {
							err = s.Release(ctx, l.ID)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			work.Wait()
			b.StopTimer()
			reportBatches(b, s)
		})
	}
}

func reportBatches(b *testing.B, s *Store) {
	var m dto.Metric
	if err := s.metrics.batches.Write(&m); err != nil {
		b.Fatal(err)
	}
	h := m.GetHistogram()
	b.ReportMetric(h.GetSampleSum()/float64(h.GetSampleCount()), "transactions/batch")
	b.ReportMetric(float64(h.GetSampleCount())/float64(b.N), "batches/op")
}

func oneMember(b *testing.B) *clientv3.Client {
	etcd := etcdtest.NewCluster(b, 1)
	return etcd.Client(b, etcd.Endpoints())
}
