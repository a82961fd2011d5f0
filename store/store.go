package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Config is what a Store is opened with. Zero values mean the defaults.
type Config struct {
	// Prefix begins every key in etcd. Default "/latchkey/".
	Prefix string
	// MaxTTL is the longest that a client may ask for. Default 86,400 s.
	MaxTTL time.Duration
	// WaitingTTL is how long a place in a queue stands without anybody asking for it. Default 15 s.
	WaitingTTL time.Duration
	// RequestBound is how long after a request arrived etcd may still be asked for it. Default 5 s.
	RequestBound time.Duration
	// MaxWaiters bounds the queued claims that this replica serves. Default 20,000.
	MaxWaiters int
	// MaxQueue bounds those that wait for one name. Default 5,000.
	MaxQueue int
	// MaxClaims bounds the claims that are on their way to etcd at one time, waiters not among them. Default 8,192.
	MaxClaims int
	// MaxHold is how long after its grant a lock is renewed, or after its beginning a client's lease. 0: for ever.
	MaxHold time.Duration
	Logger  *slog.Logger
	// Registerer takes the store's metrics.
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	setDefault(&c.Prefix, "/latchkey/")
	setDefault(&c.MaxTTL, 86_400*time.Second)
	setDefault(&c.WaitingTTL, 15*time.Second)
	setDefault(&c.RequestBound, 5*time.Second)
	setDefault(&c.MaxWaiters, 20_000)
	setDefault(&c.MaxQueue, 5_000)
	setDefault(&c.MaxClaims, 8_192)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// Store keeps locks in etcd. Any number of Stores, in any number of processes, may share one etcd and prefix.
type Store struct {
	etcd    *clientv3.Client
	cfg     Config
	keys    keys
	log     *slog.Logger
	metrics *metrics
	sight   sight
	terms   terms
	tidy    *tidy
	keepers *keepers
	leader  *leader
	hot     hot
	// stays says that nothing is moved, as a replica of an earlier build is there.
	stays atomic.Bool
	// unsealed says that ids of leases get no seal, for the same reason.
	unsealed atomic.Bool
	words    words
	tallies  tallies
	// claiming counts the claims that are on their way to etcd.
	claiming atomic.Int64
	// least is the shortest TTL that etcd can keep, in nanoseconds.
	least atomic.Int64

	relistEvery time.Duration
	// watchRound counts how often watches had to begin on new streams.
	watchRound atomic.Int64

	// life ends when Close is called, draining when Drain is.
	life     context.Context
	end      context.CancelCauseFunc
	draining context.Context
	drain    context.CancelCauseFunc
	work     sync.WaitGroup

	mu sync.Mutex
	// current is the replica's registration; nil while it has none. changed is closed when that changes.
	current *registration
	changed chan struct{}
}

// Open registers this replica with etcd and waits for that until ctx ends. The client stays the caller's to close,
// after the Store. If it has several endpoints, the Store lets it have the leader's alone while there is no doubt who
// that is, and gives it back all of them at the latest on Close: two Stores should not share such a client.
func Open(ctx context.Context, etcd *clientv3.Client, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	s := &Store{
		etcd: etcd, cfg: cfg, keys: keys{cfg.Prefix, &sealer{}, newNonce().text()[:viaLength]}, log: cfg.Logger, changed: make(chan struct{}),
		relistEvery: relistEvery, tallies: tallies{sure: true}, // there is none of a replica that is new
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	s.draining, s.drain = context.WithCancelCause(context.Background())
	s.metrics = newMetrics(cfg.Registerer, s)
	s.tidy = newTidy(s)
	s.keepers = newKeepers(s)
	s.leader = newLeader(etcd, cfg.Logger, s.keepers.renew)
	r, err := s.register(ctx, nil)
	if err != nil {
		s.end(errClosed)
		s.tidy.close(ctx)
		s.keepers.close()
		return nil, fmt.Errorf("register this replica: %w", err)
	}
	s.publish(r)
	s.work.Go(func() { s.steward(r) })
	s.work.Go(func() { s.leader.run(s.life) })
	return s, nil
}

// steward keeps this replica registered: when a registration is over, all that was built on it goes, and then a new
// one is made.
func (s *Store) steward(r *registration) {
	for {
		r.run()
		s.publish(nil)
		r.drop()
		if s.life.Err() != nil {
			return
		}
		s.log.Warn("registering anew", "cause", context.Cause(r.ctx))
		r = s.reregister(r)
		if r == nil {
			return
		}
		s.publish(r)
	}
}

// reregister tries until it succeeds or the store is closed; then it returns nil.
func (s *Store) reregister(old *registration) *registration {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(s.life, s.cfg.RequestBound)
		r, err := s.register(ctx, old)
		cancel()
		if err == nil {
			s.log.Info("registered anew")
			return r
		}
		if s.life.Err() != nil {
			return nil
		}
		s.log.Debug("not registered yet", "cause", err)
		sleep(s.life, pause)
	}
}

func (s *Store) publish(r *registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = r
	close(s.changed)
	s.changed = make(chan struct{})
}

// registered is this replica's registration, or the next one if it has none just now.
func (s *Store) registered(ctx context.Context) (*registration, error) {
	for {
		s.mu.Lock()
		r, changed := s.current, s.changed
		s.mu.Unlock()
		if r != nil && r.ctx.Err() == nil {
			return r, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, unavailable(context.Cause(ctx))
		case <-s.life.Done():
			return nil, errClosed
		}
	}
}

// registration is this replica's, or nil while it has none.
func (s *Store) registration() *registration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// bounded is a context for what a request asks of etcd: it ends with the request's bound, and not with the client's
// line, since a write once sent must be seen through.
func (s *Store) bounded(ctx context.Context, arrived time.Time) (context.Context, context.CancelFunc) {
	if arrived.IsZero() {
		arrived = time.Now()
	}
	return context.WithDeadline(context.WithoutCancel(ctx), arrived.Add(s.cfg.RequestBound))
}

// Drain ends every wait, in a way that its client can resume at another replica. Other calls go on.
func (s *Store) Drain() { s.drain(ErrDraining) }

// Close ends all that the store does, at the latest with ctx. What its waiters have queued stands for one waiting TTL.
func (s *Store) Close(ctx context.Context) error {
	s.Drain()
	s.end(errClosed)
	defer s.keepers.close() // after the last renewals
	done := make(chan struct{})
	go func() { defer close(done); s.work.Wait() }()
	select {
	case <-done:
	case <-ctx.Done():
		return errors.Join(errors.New("the store did not close in time"), ctx.Err())
	}
	if r := s.registration(); r != nil {
		r.leave(ctx)
	}
	s.tidy.close(ctx)
	return nil
}

// Ready says whether this replica can serve: it is not draining and etcd has answered a linearizable read lately.
func (s *Store) Ready() error {
	if s.draining.Err() != nil {
		return ErrDraining
	}
	r := s.registration()
	if r == nil || r.ctx.Err() != nil || time.Since(r.answered()) > readyFor {
		return ErrUnavailable
	}
	return nil
}

// readyFor is how long an answered read stands for the next one.
const readyFor = 5 * time.Second

// TTLBounds are the shortest TTL that this etcd can keep and the longest that a client may ask for.
func (s *Store) TTLBounds() (least, most time.Duration) {
	return time.Duration(s.least.Load()), s.cfg.MaxTTL
}

func (s *Store) checkTTL(ttl time.Duration) error {
	least, most := s.TTLBounds()
	if ttl < least || ttl > most || ttl%time.Second != 0 {
		return badTTL(least, most)
	}
	return nil
}

// sleep waits for d, or less if ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
