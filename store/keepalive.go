package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// kept is a member's word that it has started a lease's TTL again. It counts only with a linearizable read that was
// made after it, shows the witness standing, and bears the same raft term: a leader that was paused and deposed goes
// on saying "ok" for leases that its successor has ended.
type kept struct {
	sent time.Time
	term uint64
	ttl  time.Duration
}

// keepAlive asks etcd once to start the lease's TTL again. Its "ok" is no proof: see prove. It fails with etcd's
// ErrLeaseNotFound, or with whatever kept the answer away, after one try's bound at the latest.
func (s *Store) keepAlive(ctx context.Context, id clientv3.LeaseID) (kept, error) {
	return s.keepAliveBefore(ctx, id, time.Time{})
}

// keepAliveBefore is keepAlive for a lease that is known to last until then: with a second left, no lease that has run
// out can delay it. A zero time is not known.
func (s *Store) keepAliveBefore(ctx context.Context, id clientv3.LeaseID, until time.Time) (kept, error) {
	k, err := s.keepers.ask(ctx, id, until)
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.metrics.failed(err)
	}
	return k, err
}

// errNoAnswer: etcd has not answered a renewal within the bound of one try.
var errNoAnswer = fmt.Errorf("no answer to a renewal: %w", context.DeadlineExceeded)

const (
	// lanesPerGroup is on how many streams the renewals of a group travel.
	lanesPerGroup = 8
	// aliveFor is what a lease must have left to travel where none that has run out does.
	aliveFor = time.Second
	// laneSilence is how long a stream on which something is unanswered may say nothing before it gets nothing new. Etcd
	// serves a stream in order, and a renewal of a lease that has run out blocks it until etcd has revoked that.
	laneSilence = 500 * time.Millisecond
	// laneIdle is how long a stream stays open that nobody uses.
	laneIdle = time.Minute
)

// keepers are the lasting streams that renewals of etcd leases travel on: a new stream for each would cost thrice as
// much, and under etcd's authentication a check of the password. A lease has its lane by its id, in one of two groups: of
// the leases that are known to stand, and of all others.
type keepers struct {
	s    *Store
	life context.Context
	end  context.CancelCauseFunc
	work sync.WaitGroup

	mu sync.Mutex
	// lanes are the streams that take new renewals, nil where none is open; streams are all that have not ended.
	lanes   [2 * lanesPerGroup]*keepStream
	streams map[*keepStream]struct{}
	// lookAt is when timer makes watch look at the streams next.
	lookAt time.Time
	timer  *time.Timer
}

func newKeepers(s *Store) *keepers {
	k := &keepers{s: s, streams: map[*keepStream]struct{}{}, lookAt: time.Now().Add(laneIdle), timer: time.NewTimer(laneIdle)}
	k.life, k.end = context.WithCancelCause(context.Background())
	k.work.Go(k.watch)
	return k
}

// keepCall is one message to etcd: a renewal asked for by all who wanted it before it was written.
type keepCall struct {
	id   clientv3.LeaseID
	done chan struct{}
	// got and err are the outcome, once done is closed.
	got kept
	err error
	// The rest is guarded by the keepers' mu, or while it is on no stream, tellApart's.
	until   time.Time
	runOut  bool
	waiting int
	on      *keepStream
	sent    time.Time
}

func (c *keepCall) finish(got kept, err error) {
	c.got, c.err = got, err
	close(c.done)
}

// ask renews a lease once.
func (k *keepers) ask(ctx context.Context, id clientv3.LeaseID, until time.Time) (kept, error) {
	if err := ctx.Err(); err != nil {
		return kept{}, err
	}
	c, err := k.join(id, until)
	if err != nil {
		return kept{}, err
	}
	return k.wait(ctx, c)
}

// wait waits for the answer to a message that one has joined.
func (k *keepers) wait(ctx context.Context, c *keepCall) (kept, error) {
	limit := time.NewTimer(k.s.perTry())
	defer limit.Stop()
	select {
	case <-c.done:
		return c.got, c.err
	case <-ctx.Done():
		return k.leave(c, ctx.Err())
	case <-limit.C:
		return k.leave(c, errNoAnswer)
	}
}

// join finds the message for a lease that is not written yet, or makes one.
func (k *keepers) join(id clientv3.LeaseID, until time.Time) (*keepCall, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.life.Err() != nil {
		return nil, context.Cause(k.life)
	}
	if s := k.lanes[laneOf(id, until)]; s != nil {
		if c := s.unsent[id]; c != nil {
			c.waiting++
			if c.until.Before(until) {
				c.until = until
			}
			return c, nil
		}
	}
	c := &keepCall{id: id, done: make(chan struct{}), until: until, waiting: 1}
	k.put(c)
	return c, nil
}

// put hands a message to the stream of its lane, which is opened if there is none.
func (k *keepers) put(c *keepCall) {
	lane := laneOf(c.id, c.until)
	s := k.lanes[lane]
	if s == nil {
		s = k.open(lane)
	}
	s.put(c)
}

// leave is for a caller who waits no longer.
func (k *keepers) leave(c *keepCall, why error) (kept, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-c.done:
		return c.got, c.err
	default:
	}
	c.waiting--
	c.on.endIfLeft()
	return kept{}, why
}

// laneOf spreads leases over the lanes of their group.
func laneOf(id clientv3.LeaseID, until time.Time) int {
	const golden = 0x9E3779B97F4A7C15 // 2^64 over the golden ratio: neighbours fall far apart
	lane := int(uint64(id) * golden >> 32 % lanesPerGroup)
	if time.Until(until) >= aliveFor {
		lane += lanesPerGroup
	}
	return lane
}

// renew gives every lane a fresh stream when it is needed next, on the connection that is then preferred. What is
// written is still answered on the old ones.
func (k *keepers) renew() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.lanes {
		if s != nil {
			for _, c := range s.retire(len(s.written)) {
				k.putAgain(c)
			}
		}
	}
}

// watch looks after the streams until the keepers close.
func (k *keepers) watch() {
	for {
		select {
		case <-k.timer.C:
			k.look(time.Now())
		case <-k.life.Done():
			k.timer.Stop()
			return
		}
	}
}

func (k *keepers) look(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lookAt = now.Add(laneIdle)
	k.timer.Reset(laneIdle)
	for s := range k.streams {
		s.look(now)
	}
}

// lookBy makes watch look by then.
func (k *keepers) lookBy(at time.Time) {
	if at.Before(k.lookAt) {
		k.lookAt = at
		k.timer.Reset(time.Until(at))
	}
}

// close ends all streams; who still waits fails at once.
func (k *keepers) close() {
	k.mu.Lock()
	k.end(errClosed)
	for s := range k.streams {
		s.over(errClosed)
	}
	k.mu.Unlock()
	k.work.Wait()
}
