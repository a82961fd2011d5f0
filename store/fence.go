package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// registration is one life of this replica in etcd. It has a key on a lease of its own, the fence: every transaction
// compares its mod-revision. Putting the key again makes sure that nothing sent before can still apply. When the key
// is gone, or the store or its epoch is another, the registration is over, with its lines and waits.
type registration struct {
	s *Store
	// ctx ends with the registration; its cause says why.
	ctx  context.Context
	over context.CancelCauseFunc
	work sync.WaitGroup

	key     string
	created int64
	epoch   Epoch
	secret  []byte
	least   time.Duration

	// raising holds a token while nobody puts the fence.
	raising   chan struct{}
	presence  presence
	batches   convoy[*passenger]
	repeats   convoy[*passenger] // of what went unanswered
	glances   convoy[*glance]
	pool      pool
	witnesses witnesses
	spares    spares

	mu sync.Mutex
	// lease is what the fence is on, or is to be put on.
	lease  clientv3.LeaseID
	fence  int64
	lastOK time.Time
	// back is when etcd answered again after it had not for too long.
	back  time.Time
	lines map[string]*line
	// serving counts the queued claims that this replica serves.
	serving atomic.Int64

	spawning sync.Mutex
	dropped  bool
}

// register makes a new registration. With old gone first, nothing sent under it can apply any more.
func (s *Store) register(ctx context.Context, old *registration) (*registration, error) {
	r := &registration{
		s: s, key: s.keys.replica(newNonce()), raising: make(chan struct{}, 1),
		lines: make(map[string]*line),
	}
	r.raising <- struct{}{}
	if old != nil {
		s.sight.leave(old.epoch.Base)
		s.terms.forget()
		s.tallies.forget()
		if _, err := s.etcd.Delete(ctx, old.key); err != nil {
			return nil, fmt.Errorf("remove the old fence: %w", err)
		}
	}
	var err error
	if r.epoch, err = s.enterEpoch(ctx, old); err != nil {
		return nil, fmt.Errorf("enter the epoch: %w", err)
	}
	if r.secret, err = s.readSecret(ctx); err != nil {
		return nil, fmt.Errorf("read the secret: %w", err)
	}
	s.keys.ids.use(r.secret)
	if r.least, err = s.leastTTL(ctx); err != nil {
		return nil, fmt.Errorf("ask for the shortest TTL: %w", err)
	}
	s.least.Store(int64(r.least))
	others, err := s.read(ctx, s.allReplicas())
	if err != nil {
		return nil, fmt.Errorf("look at the other replicas: %w", err)
	}
	s.meet(others.ranges[0])
	if err := r.putFence(ctx); err != nil {
		return nil, fmt.Errorf("put the fence: %w", err)
	}
	r.ctx, r.over = context.WithCancelCause(s.life)
	r.presence = newPresence(r)
	r.batches, r.repeats, r.glances, r.pool.r = r.newBatches(), r.newRepeats(), r.newGlances(), r
	return r, nil
}

// enterEpoch reads the epoch, and begins one if the store has none or is another store than it was.
func (s *Store) enterEpoch(ctx context.Context, old *registration) (Epoch, error) {
	for {
		got, err := s.read(ctx, clientv3.OpGet(s.keys.epoch()))
		if errors.Is(err, errReplaced) {
			continue
		}
		if err != nil {
			return Epoch{}, err
		}
		e, err := parseEpoch(got.ranges[0].Kvs, got.header.Revision)
		if err != nil {
			return Epoch{}, err
		}
		stale := old != nil && errors.Is(context.Cause(old.ctx), errReplaced) && e.Mark == old.epoch.Mark
		if e.value != "" && !stale && e.Base+e.Revision >= s.sight.highest() {
			return e, nil
		}
		next, err := e.next(time.Now(), s.sight.highest())
		if err != nil {
			return Epoch{}, unavailable(err)
		}
		won, err := putEpoch(ctx, s.etcd, s.cfg.Prefix, e, next)
		if err != nil {
			return Epoch{}, err
		}
		if won {
			s.log.Info("began an epoch", "base", next.Base, "revision", next.Revision)
		}
	}
}

// readSecret reads the secret that keyed ids are made with. It is written once, by whoever first uses the store.
func (s *Store) readSecret(ctx context.Context) ([]byte, error) {
	key := s.keys.secret()
	first, second := newNonce(), newNonce()
	mine := string(valueVersion) + string(first[:]) + string(second[:])
	resp, err := s.etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, mine)).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return nil, err
	}
	if !resp.Succeeded {
		mine = string(resp.Responses[0].GetResponseRange().Kvs[0].Value)
	}
	if len(mine) < 2 || mine[0] != valueVersion {
		return nil, errForeign
	}
	return []byte(mine[1:]), nil
}

// leastTTL is what etcd makes of the shortest TTL: it raises a shorter one without a word.
func (s *Store) leastTTL(ctx context.Context) (time.Duration, error) {
	resp, err := s.etcd.Grant(ctx, 1)
	if err != nil {
		return 0, err
	}
	s.tidy.revoke(resp.ID)
	return time.Duration(resp.TTL) * time.Second, nil
}

// fenceValue says what this replica knows of, for those of other builds.
//
// moves: claims that are moved. One of a build before that remembers on which etcd lease a lock is, and confirms renewals
// of it: while one is there, nothing is moved. seals: ids of clients' leases that have a seal; while a replica is there
// that takes no such id, none is given.
const (
	fenceValue = string(valueVersion) + knowsMoves + " " + knowsSeals
	knowsMoves = "moves"
	knowsSeals = "seals"
)

// meet notes what other replicas there are.
func (s *Store) meet(replicas *pb.RangeResponse) {
	some := func(without string) bool {
		return slices.ContainsFunc(replicas.Kvs, func(kv *mvccpb.KeyValue) bool {
			return len(kv.Value) == 0 || !slices.Contains(strings.Fields(string(kv.Value[1:])), without)
		})
	}
	s.stays.Store(some(knowsMoves))
	s.unsealed.Store(some(knowsSeals))
}

func (s *Store) allReplicas() clientv3.Op {
	return clientv3.OpGet(s.keys.replicas(), clientv3.WithPrefix())
}

func (r *registration) putFence(ctx context.Context) error {
	if err := r.newLease(ctx); err != nil {
		return err
	}
	resp, err := r.s.send(ctx, nil, []clientv3.Op{clientv3.OpPut(r.key, fenceValue, clientv3.WithLease(r.lease))}, nil)
	if err != nil {
		return err
	}
	r.created, r.fence, r.lastOK = resp.Header.Revision, resp.Header.Revision, time.Now()
	return nil
}

// newLease begins the etcd lease that the fence is put on from then on.
func (r *registration) newLease(ctx context.Context) error {
	g, err := r.s.beginLease(ctx, holdLease, max(r.s.cfg.WaitingTTL, r.least))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lease = g.id
	return nil
}

func (r *registration) onLease() clientv3.LeaseID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lease
}

// renewLease renews the lease of the fence, after moving it to a new one if it was begun in an earlier term: see term.go.
func (r *registration) renewLease(ctx context.Context) error {
	if !r.s.fresh(r.onLease()) {
		err := r.newLease(ctx)
		if err == nil {
			err = r.raise(ctx, r.behind())
		}
		if err != nil && !errors.Is(err, rpctypes.ErrNoSpace) { // then it stays where it is
			return err
		}
	}
	_, err := r.s.keepAlive(ctx, r.onLease())
	return err
}

func (r *registration) behind() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fence
}

// saw notes the fence as etcd has it. If it is gone the registration is over.
func (r *registration) saw(fence *pb.RangeResponse) {
	if len(fence.Kvs) == 0 || fence.Kvs[0].CreateRevision != r.created {
		r.over(errFenceGone)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fence = max(r.fence, fence.Kvs[0].ModRevision)
}

// raise puts the fence above where it was: what was sent behind that can then not apply any more. One put serves all
// that ask meanwhile.
func (r *registration) raise(ctx context.Context, above int64) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		select {
		case <-r.raising:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
		if r.behind() > above {
			r.raising <- struct{}{}
			return nil
		}
		err := r.raiseOnce(ctx)
		r.raising <- struct{}{}
		if err != nil {
			sleep(ctx, pause)
		}
	}
}

func (r *registration) raiseOnce(ctx context.Context) error {
	resp, err := r.s.send(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(r.key), "=", r.created)},
		[]clientv3.Op{clientv3.OpPut(r.key, fenceValue, clientv3.WithLease(r.onLease()))},
		[]clientv3.Op{clientv3.OpGet(r.key)})
	if err != nil {
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			r.over(errFenceGone)
		}
		return err
	}
	if !resp.Succeeded {
		r.over(errFenceGone)
		return errFenceGone
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fence = max(r.fence, resp.Header.Revision)
	return nil
}

// look notes fence and epoch as etcd has them.
func (r *registration) look(ranges []*pb.RangeResponse) {
	r.saw(ranges[0])
	if kvs := ranges[1].Kvs; len(kvs) == 0 || string(kvs[0].Value) != r.epoch.value {
		r.over(errOtherEpoch)
	}
}

// silence is how long etcd may leave the pulse unanswered before it counts as away.
const silence = 2 * pulseEvery

// answeredNow notes that etcd has just answered.
func (r *registration) answeredNow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.lastOK) > silence {
		r.back = now
	}
	r.lastOK = now
}

// heard is for how long etcd has been there to be asked without a break; 0 while it is away.
func (r *registration) heard() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.lastOK) > silence {
		return 0
	}
	return time.Since(r.back)
}

func (r *registration) answered() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastOK
}

// spawn runs do beside the registration. It reports false, and runs nothing, once that is dropped.
func (r *registration) spawn(do func()) bool {
	r.spawning.Lock()
	defer r.spawning.Unlock()
	if r.dropped {
		return false
	}
	r.work.Go(do)
	return true
}

// drop waits for all that ran beside a registration that is over.
func (r *registration) drop() {
	r.spawning.Lock()
	r.dropped = true
	r.spawning.Unlock()
	r.work.Wait()
}

// eachPlace calls do for every place that is served here, with its line's mutex held.
func (r *registration) eachPlace(do func(*place)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines {
		l.mu.Lock()
		for _, p := range l.places {
			do(p)
		}
		l.mu.Unlock()
	}
}
