package store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// metrics counts the store's own work. No label comes from a client.
type metrics struct {
	grants, releases, adopted, moved, lapsed, takenBack, refused, watchesBroken prometheus.Counter
	waited                                                                      prometheus.Histogram
	handOff                                                                     prometheus.Histogram
	batches                                                                     prometheus.Histogram
	failures                                                                    *prometheus.CounterVec
	held, queued                                                                atomic.Int64
}

func newMetrics(reg prometheus.Registerer, s *Store) *metrics {
	m := &metrics{}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "latchkey_" + name, Help: help})
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string, f func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "latchkey_" + name, Help: help}, f))
	}
	histogram := func(name, help string, from float64, n int) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "latchkey_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(from, 2, n),
		})
		reg.MustRegister(h)
		return h
	}
	m.grants = counter("grants_total", "Claims that this replica has made held.")
	m.releases = counter("releases_total", "Claims removed at their client's word.")
	m.moved = counter("moves_total", "Held claims moved to another etcd lease because the leader of etcd had changed.")
	m.adopted = counter("adoptions_total", "Queued claims taken over from another replica because their client asked here.")
	m.lapsed = counter("lapsed_total", "Queued claims removed because nobody asked for them for a waiting TTL.")
	m.takenBack = counter("grants_taken_back_total", "Grants released because their client had left and nobody else could know of them.")
	m.refused = counter("renewals_refused_total", "Renewals of leases that no longer stood.")
	m.watchesBroken = counter("watches_broken_total", "Watches on etcd that ended and were opened again.")
	m.waited = histogram("wait_seconds", "Time from queueing at this replica to the grant.", 0.001, 17)
	m.handOff = histogram("hand_off_seconds", "Time from seeing a name free to having granted it to the next in line.", 0.0005, 14)
	m.batches = histogram("batch_transactions", "Transactions that travelled to etcd together as one.", 1, 8)
	m.failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "latchkey_store_errors_total", Help: "Requests to etcd that failed, by kind.",
	}, []string{"kind"})
	reg.MustRegister(m.failures)
	for _, kind := range failureKinds {
		m.failures.WithLabelValues(kind)
	}
	gauge("locks_held", "Claims held, in the whole store, when last counted.", func() float64 { return float64(m.held.Load()) })
	gauge("locks_queued", "Claims queued, in the whole store, when last counted.", func() float64 { return float64(m.queued.Load()) })
	gauge("waiters", "Queued claims that this replica serves.", func() float64 { return float64(s.serving()) })
	gauge("idle_leases", "Etcd leases that this replica keeps for the next locks.", func() float64 { return float64(s.idleLeases()) })
	gauge("store_ready", "1 if etcd has answered this replica lately.", func() float64 {
		if err := s.Ready(); err != nil && !errors.Is(err, ErrDraining) {
			return 0
		}
		return 1
	})
	return m
}

func (s *Store) serving() int64 {
	if r := s.registration(); r != nil {
		return r.serving.Load()
	}
	return 0
}

func (s *Store) idleLeases() int {
	if r := s.registration(); r != nil {
		return r.pool.count()
	}
	return 0
}

// grant counts a claim that was granted after it had been queued here.
func (m *metrics) grant(queued, turn time.Time) {
	m.grants.Inc()
	m.waited.Observe(time.Since(queued).Seconds())
	m.handOff.Observe(time.Since(turn).Seconds())
}

var failureKinds = []string{"timeout", "no_space", "lease_not_found", "denied", "other"}

// failed counts a request to etcd that failed.
func (m *metrics) failed(err error) {
	kind := "other"
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, rpctypes.ErrTimeout):
		kind = "timeout"
	case errors.Is(err, context.Canceled):
		return // the caller's doing
	case errors.Is(err, rpctypes.ErrNoSpace):
		kind = "no_space"
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		kind = "lease_not_found"
	case errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrAuthFailed):
		kind = "denied"
	}
	m.failures.WithLabelValues(kind).Inc()
}

const (
	// countEvery is how often the store's claims are counted, countAtOnce how many in one read.
	countEvery  = 30 * time.Second
	countAtOnce = 10_000
)

// count counts what is held and what is queued in the whole store. It reads keys alone: the etcd lease that a claim is
// on tells which it is.
func (r *registration) count(ctx context.Context) {
	k := r.s.keys
	var held, queued int64
	for from, end := k.locks(), clientv3.GetPrefixRangeEnd(k.locks()); ; {
		got, err := r.s.read(ctx, clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(countAtOnce)))
		if err != nil {
			return
		}
		at := got.ranges[0]
		for _, kv := range at.Kvs {
			if isWaitingLease(clientv3.LeaseID(kv.Lease)) {
				queued++
			} else {
				held++
			}
		}
		if !at.More || len(at.Kvs) == 0 {
			break
		}
		from = string(at.Kvs[len(at.Kvs)-1].Key) + "\x00"
	}
	r.s.metrics.held.Store(held)
	r.s.metrics.queued.Store(queued)
}
