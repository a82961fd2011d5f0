package main

import (
	"context"
	"flag"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

var long = flag.Bool("latchkey.long", false, "run the tests on a cluster for as long as the promises are told for, and on the real binary")

// shortOrLong is what the form of the tests asks for.
func shortOrLong[T any](short, whole T) T {
	if *long {
		return whole
	}
	return short
}

// slack is how much later than promised a test lets things happen: its machine may be busy.
const slack = 10 * time.Second

// TestOnACluster is all that is promised of three replicas on an etcd of three members, all of them processes.
func TestOnACluster(t *testing.T) {
	s := newService(t)
	t.Run("quiet", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *service){
			"a lock that is not renewed goes to the next":   lockThatIsNotRenewedGoesToTheNext,
			"a claim repeated elsewhere is one claim":       claimRepeatedElsewhereIsOneClaim,
			"clients that vanish are no hindrance":          clientsThatVanishAreNoHindrance,
			"a waiter that never comes back gives way":      waiterThatNeverComesBackGivesWay,
			"a replica with many waiters":                   manyWaiters,
			"renewals through another replica meet a claim": renewalsThroughAnotherReplicaMeetAClaim,
		} {
			t.Run(name, func(t *testing.T) {
				if !*long {
					t.Parallel()
				}
				test(t, s)
			})
		}
	})
	for _, tt := range []struct {
		name string
		test func(*testing.T, *service)
	}{
		{"clients take one lock in turn", clientsTakeOneLockInTurn},
		{"clients take one lock in turn while replicas die", clientsTakeOneLockInTurnWhileReplicasDie},
		{"clients take one lock in turn while replicas and etcd stall", clientsTakeOneLockInTurnWhileAllStalls},
		{"histories are linearizable", historiesAreLinearizable},
		{"a place outlives its replica", placeOutlivesItsReplica},
		{"holds outlive the etcd leader", holdsOutliveTheLeader},
		{"holds outlive a rolling restart", holdsOutliveARollingRestart},
		{"holds outlive the loss of the quorum", holdsOutliveTheLossOfTheQuorum},
		{"places outlive the loss of the quorum", placesOutliveTheLossOfTheQuorum},
		{"a leader that wakes confirms nothing that is gone", leaderThatWakesConfirmsNothingThatIsGone},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, s) })
	}
	t.Run("nothing is left", func(t *testing.T) { nothingIsLeft(t, s) })
}

// service is three replicas on an etcd of three members.
type service struct {
	etcd       *etcdtest.Cluster
	program    string // what a replica is
	replicas   []*replica
	waitingTTL time.Duration
}

const replicas = 3

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{etcd: etcdtest.NewCluster(t, 3), program: os.Args[0], waitingTTL: shortOrLong(leastWaitingTTL, 15*time.Second)}
	for range replicas {
		s.replicas = append(s.replicas, s.start(t, s.etcd.Endpoints()))
	}
	return s
}

// start starts one more replica, which sees only the members named.
func (s *service) start(t *testing.T, endpoints []string, args ...string) *replica {
	t.Helper()
	return startProgram(t, s.program, append([]string{
		"--etcd-endpoints=" + strings.Join(endpoints, ","), "--waiting-ttl=" + s.waitingTTL.String(),
	}, args...)...)
}

// any is the address of a replica, as a balancer without health checks would choose it.
func (s *service) any() string { return s.replicas[rand.IntN(len(s.replicas))].url() }

// but is the address of any other replica than the one that failed to answer.
func (s *service) but(failed string) string {
	for {
		if url := s.any(); url != failed {
			return url
		}
	}
}

// replica is one process of the service.
type replica struct {
	t       *testing.T
	program string
	args    []string
	life    atomic.Pointer[life]
}

// life is one run of a replica.
type life struct {
	cmd   *exec.Cmd
	log   *output
	url   string
	ended chan struct{}
}

// startReplica runs this test binary as a replica, and returns when it serves.
func startReplica(t *testing.T, args ...string) *replica {
	t.Helper()
	return startProgram(t, os.Args[0], args...)
}

func startProgram(t *testing.T, program string, args ...string) *replica {
	t.Helper()
	r := &replica{t: t, program: program, args: append([]string{"serve", "--listen=127.0.0.1:0"}, args...)}
	t.Cleanup(func() {
		if r.life.Load() != nil {
			r.kill()
		}
	})
	r.start()
	return r
}

// url is where the replica serves, or served before it was killed.
func (r *replica) url() string { return r.life.Load().url }

func (r *replica) start() {
	r.t.Helper()
	l := &life{cmd: exec.Command(r.program, r.args...), log: newOutput(), ended: make(chan struct{})}
	l.cmd.Env = append(os.Environ(), asProgram+"=1")
	l.cmd.Stderr = l.log
	l.cmd.SysProcAttr = tied()
	if err := l.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		defer close(l.ended)
		l.cmd.Wait() // killed by us, or seen in its log
	}()
	r.t.Cleanup(func() {
		l.cmd.Process.Kill()
		<-l.ended
	})
	l.url = l.log.await(r.t, listens)
	r.life.Store(l)
}

// pause stops the replica: its lines and its clocks go on, it does nothing until it is resumed.
func (r *replica) pause() { r.signal(syscall.SIGSTOP) }

func (r *replica) resume() { r.signal(syscall.SIGCONT) }

func (r *replica) signal(s os.Signal) {
	r.t.Helper()
	if err := r.life.Load().cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// kill ends the replica as a power cut would, and waits until it is gone.
func (r *replica) kill() {
	r.t.Helper()
	l := r.life.Load()
	l.cmd.Process.Kill()
	<-l.ended
	r.judge(l)
}

// stop ends the replica softly.
func (r *replica) stop() {
	r.t.Helper()
	l := r.life.Load()
	r.signal(syscall.SIGTERM)
	select {
	case <-l.ended:
	case <-time.After(bound):
		r.t.Errorf("a replica promises to end within its drain timeout after SIGTERM, and did not within %v", bound)
		l.cmd.Process.Kill()
		<-l.ended
	}
	if code := l.cmd.ProcessState.ExitCode(); code != 0 {
		r.t.Errorf("a replica promises to exit with 0 after SIGTERM, and exited with %d", code)
	}
	r.judge(l)
}

// loggedAtFailure is how much of a replica's log a failed test shows.
const loggedAtFailure = 6 << 10

func (r *replica) judge(l *life) {
	r.t.Helper()
	log := l.log.String()
	for _, never := range []string{"DATA RACE", "panic:", "level=ERROR"} {
		if at := strings.Index(log, never); at >= 0 {
			r.t.Errorf("a replica logged %s:\n%s", never, log[at:min(len(log), at+loggedAtFailure)])
			return
		}
	}
	if r.t.Failed() {
		var said strings.Builder
		for line := range strings.Lines(log) {
			if !strings.Contains(line, "level=INFO msg=request") {
				said.WriteString(line)
			}
		}
		told := said.String()
		r.t.Logf("a replica logged last, besides requests:\n%s", told[max(0, len(told)-loggedAtFailure):])
	}
}

// healthy waits until all members and all replicas can be used.
func (s *service) healthy(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*bound)
	defer cancel()
	if err := s.etcd.WaitHealthy(ctx); err != nil {
		t.Fatalf("etcd did not heal: %v", err)
	}
	c := newClient(t)
	for _, r := range s.replicas {
		eventually(t, bound, "a replica is ready again after etcd has healed", func() bool {
			return c.get(r.url()+"/readyz").status == http.StatusOK
		})
	}
}

// lookAgain is the pause between two looks at what comes about by itself.
const lookAgain = 50 * time.Millisecond

// eventually waits until what is promised is so, and returns how long that took.
func eventually(t *testing.T, within time.Duration, promise string, so func() bool) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(lookAgain) {
		if so() {
			return time.Since(began)
		}
		if time.Since(began) > within {
			t.Fatalf("not within %v: %s", within, promise)
		}
	}
}

// nothingIsLeft is the last: of all that the clients did nothing may remain but what each replica keeps for itself.
func nothingIsLeft(t *testing.T, s *service) {
	s.healthy(t)
	etcd := s.etcd.Client(t, nil)
	for _, kind := range []string{"/latchkey/locks/", "/latchkey/leases/"} {
		eventually(t, 2*s.waitingTTL+slack, "no claim or lease outlives its client by more than its TTL", func() bool {
			return len(keysUnder(t, etcd, kind)) == 0
		})
	}
	if *long { // what a killed replica did not revoke runs out
		noEtcdLeaseIsLeft(t, s, seconds(longestTTL)+slack)
	}
}

// longestTTL is that of the locks that clients take here.
const longestTTL = 60

// noEtcdLeaseIsLeft waits until there are no more than a replica keeps for itself: its own, and a waiting one in reserve.
func noEtcdLeaseIsLeft(t *testing.T, s *service, within time.Duration) {
	t.Helper()
	etcd := s.etcd.Client(t, nil)
	took := eventually(t, within, "no etcd lease outlives what it was for", func() bool {
		leases, err := etcd.Leases(t.Context())
		return err == nil && len(leases.Leases) <= 2*len(s.replicas)
	})
	t.Logf("no etcd lease was left after %v", took.Round(time.Millisecond))
}
