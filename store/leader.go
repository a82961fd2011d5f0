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

// leader lets the client ask the leader of etcd alone, as everybody else would only pass on to it what is asked. It is
// a choice of whom to ask and nothing else: on any doubt all endpoints are back, and that is always right.
type leader struct {
	etcd *clientv3.Client
	log  *slog.Logger
	// moved is called when other members are asked than before.
	moved func()

	mu sync.Mutex
	// leave ends the asking of the leader alone; nil while all are asked.
	leave context.CancelCauseFunc
}

// run looks for the leader again and again until ctx ends. Then the client has the endpoints that its owner gave it.
func (l *leader) run(ctx context.Context) {
	for pause := time.Duration(0); ; {
		sleep(ctx, pause-rand.N(pause/4+1))
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

// follow finds the leader and has it asked alone for as long as there is no doubt about it. It returns what ended that,
// or why it never began.
func (l *leader) follow(ctx context.Context) error {
	all := l.etcd.Endpoints()
	if len(all) < 2 {
		return nil
	}
	at, found, err := l.look(ctx, all)
	if err != nil {
		return err
	}
	alone := []string{at}
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	if !l.swap(all, alone) {
		return errOtherPlaces
	}
	defer l.moved()
	defer l.swap(alone, all)
	if err := l.leads(ctx, found); err != nil {
		return err
	}
	l.watchFor(leave)
	defer l.watchFor(nil)
	l.moved()
	l.log.Info("asking the leader of etcd alone", "endpoint", at)
	err = l.stay(ctx, alone, found)
	l.log.Info("asking every member of etcd again", "cause", err)
	return err
}

// swap gives the client other endpoints, unless it has been given some by its owner meanwhile.
func (l *leader) swap(from, to []string) bool {
	if !slices.Equal(l.etcd.Endpoints(), from) {
		return false
	}
	l.etcd.SetEndpoints(to...)
	return true
}

// look asks every endpoint for itself, and returns the one where the leader of the highest term is.
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
		return "", nil, errNotLeader
	}
	return all[best], (*pb.StatusResponse)(answers[best]), nil
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
func (l *leader) stay(ctx context.Context, alone []string, found *pb.StatusResponse) error {
	for {
		wait, cancel := context.WithTimeout(ctx, leaderEvery)
		broken := l.etcd.ActiveConnection().WaitForStateChange(wait, connectivity.Ready)
		cancel()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case broken:
			return errBroken
		case !slices.Equal(l.etcd.Endpoints(), alone):
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
	}
}
