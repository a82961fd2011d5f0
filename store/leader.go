package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"
)

const (
	// lookWithin bounds the question to every endpoint whether it is the leader, connections included.
	lookWithin = 2 * time.Second
	// lookAtOnce is how many endpoints are asked together.
	lookAtOnce = 8
	// lookPause is how long after a look in vain, or a leader soon lost, the next look is made: the double each time
	// up to lookPauseMost, with as much as a quarter less.
	lookPause     = time.Second
	lookPauseMost = 30 * time.Second
	// leaderFirm is how long a leader must have been asked alone for its loss to be looked into without a pause.
	leaderFirm = time.Minute
	// leaderEvery is how often the leader is asked whether it leads, leaderWithin how long it has for the answer: both
	// together are less than one attempt of a request has.
	leaderEvery  = 500 * time.Millisecond
	leaderWithin = 500 * time.Millisecond
)

var (
	errNotLeader   = errors.New("it is not the leader")
	errBroken      = errors.New("the connection to it broke")
	errOtherPlaces = errors.New("the client has other endpoints now")
	errManyBehind  = errors.New("several members answer at one endpoint")
)

// leader lets the client ask the leader of etcd alone, as everybody else would only pass on to it what is asked; and
// while no leader answers, the members that do. It is a choice of whom to ask and nothing else: asking all is always
// right.
type leader struct {
	etcd *clientv3.Client
	log  *slog.Logger
	// moved is called when other members are asked than before.
	moved func()
	// doubts has an element when a request met doubt while no leader was asked alone.
	doubts chan struct{}

	// owners are the endpoints that the client's owner gave it, asked those that it was given here: run's own.
	owners, asked []string

	mu sync.Mutex
	// leave ends the asking of the leader alone; nil while others are asked.
	leave context.CancelCauseFunc
}

func newLeader(etcd *clientv3.Client, log *slog.Logger, moved func()) *leader {
	return &leader{etcd: etcd, log: log, moved: moved, doubts: make(chan struct{}, 1)}
}

// run looks for the leader again and again until ctx ends. Then the client has the endpoints that its owner gave it.
func (l *leader) run(ctx context.Context) {
	defer func() { l.ask(l.all()) }()
	for pause := time.Duration(0); ; {
		l.rest(ctx, pause-rand.N(pause/4+1))
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		err := l.follow(ctx)
		switch {
		case errors.Is(err, errManyBehind):
			pause = lookPauseMost
		case time.Since(began) >= leaderFirm:
			pause = 0
		default:
			pause = min(max(2*pause, lookPause), lookPauseMost)
		}
	}
}

// rest lets the pause before the next look pass. After the first of it, doubt ends it: whoever is asked now may be out
// of reach too.
func (l *leader) rest(ctx context.Context, pause time.Duration) {
	sleep(ctx, min(pause, lookPause))
	if pause <= lookPause {
		return
	}
	late := time.NewTimer(pause - lookPause)
	defer late.Stop()
	select {
	case <-l.doubts:
	case <-late.C:
	case <-ctx.Done():
	}
}

// follow finds the leader and has it asked alone for as long as there is no doubt about it. It returns what ended that,
// or why it never began.
func (l *leader) follow(ctx context.Context) error {
	all := l.all()
	if len(all) < 2 {
		return nil
	}
	at, found, err := l.look(ctx, all)
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	if !l.ask([]string{at}) {
		return errOtherPlaces
	}
	if err = l.leads(ctx, found); err == nil {
		l.watchFor(leave)
		l.moved()
		l.log.Info("asking the leader of etcd alone", "endpoint", at)
		err = l.stay(ctx, found)
		l.watchFor(nil)
		l.log.Info("asking other members of etcd again", "cause", err)
	}
	defer l.moved()
	if errors.Is(err, errNotLeader) || errors.Is(err, errManyBehind) {
		l.ask(all)
	} else {
		l.ask(without(all, at)) // it is not, or badly, in reach: the next look tells
	}
	return err
}

// all are the endpoints that the client's owner gave it.
func (l *leader) all() []string {
	if now := l.etcd.Endpoints(); !slices.Equal(now, l.asked) {
		l.owners, l.asked = now, now
	}
	return l.owners
}

// ask gives the client other endpoints, unless it has been given some by its owner meanwhile.
func (l *leader) ask(to []string) bool {
	if !slices.Equal(l.etcd.Endpoints(), l.asked) {
		return false
	}
	if !slices.Equal(to, l.asked) {
		l.asked = to
		l.etcd.SetEndpoints(to...)
	}
	return true
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(at string) bool { return at == one })
}

// look asks every endpoint for itself, and returns the one where the leader of the highest term is. If there is none,
// those that answered are asked from now on, or all if none did.
func (l *leader) look(ctx context.Context, all []string) (string, *pb.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	answers := make([]*clientv3.StatusResponse, len(all))
	gate := make(chan struct{}, lookAtOnce)
	var asking sync.WaitGroup
	for i, at := range all {
		gate <- struct{}{}
		asking.Go(func() {
			defer func() { <-gate }()
			if resp, err := l.etcd.Status(ctx, at); err == nil {
				answers[i] = resp
			}
		})
	}
	asking.Wait()
	best := -1
	members := map[uint64]bool{}
	for i, a := range answers {
		if a == nil {
			continue
		}
		if members[a.Header.MemberId] {
			return "", nil, errManyBehind
		}
		members[a.Header.MemberId] = true
		if best < 0 || a.RaftTerm > answers[best].RaftTerm || a.RaftTerm == answers[best].RaftTerm && isLeader(a) {
			best = i
		}
	}
	if best < 0 || !isLeader(answers[best]) {
		l.askThose(all, answers)
		return "", nil, errNotLeader
	}
	return all[best], (*pb.StatusResponse)(answers[best]), nil
}

// askThose has those asked that answered, if only some did.
func (l *leader) askThose(all []string, answers []*clientv3.StatusResponse) {
	var in []string
	for i, a := range answers {
		if a != nil && a.Leader != 0 {
			in = append(in, all[i])
		}
	}
	if len(in) == 0 {
		in = all
	}
	if !slices.Equal(in, l.asked) && l.ask(in) {
		l.moved()
	}
}

func isLeader(a *clientv3.StatusResponse) bool { return a.Leader != 0 && a.Leader == a.Header.MemberId }

// leads asks, on the connection that requests travel on, whether it ends at the leader that was found.
func (l *leader) leads(ctx context.Context, found *pb.StatusResponse) error {
	ctx, cancel := context.WithTimeout(ctx, leaderWithin)
	defer cancel()
	now, err := pb.NewMaintenanceClient(l.etcd.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	switch {
	case err != nil:
		return fmt.Errorf("ask whether it leads: %w", err)
	case now.Leader == found.Leader && now.Header.MemberId == found.Leader:
		return nil
	case now.Leader == found.Leader && now.RaftTerm == found.RaftTerm:
		return errManyBehind // a balancer
	}
	return errNotLeader
}

// stay returns when there is doubt about the leader.
func (l *leader) stay(ctx context.Context, found *pb.StatusResponse) error {
	for {
		wait, cancel := context.WithTimeout(ctx, leaderEvery)
		broken := l.etcd.ActiveConnection().WaitForStateChange(wait, connectivity.Ready)
		cancel()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case broken:
			return errBroken
		case !slices.Equal(l.etcd.Endpoints(), l.asked):
			return errOtherPlaces
		}
		if err := l.leads(ctx, found); err != nil {
			return err
		}
	}
}

func (l *leader) watchFor(leave context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave = leave
}

// doubt is told of a request that etcd has not answered, or not with an outcome.
func (l *leader) doubt(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leave != nil {
		l.leave(err)
		return
	}
	select {
	case l.doubts <- struct{}{}:
	default:
	}
}
