package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// world is the service with all that can be done to it.
type world struct {
	*service
	t *testing.T
	// rng makes the choices of this run. It is the test's own goroutine's.
	rng      *rand.Rand
	seed     uint64
	lines    [][]*etcdtest.Proxy // from each replica to each member
	members  []*clientv3.Client  // one of each member, straight
	balancer *balancer
	etcdSaid *etcdHistory
	report   *report
	secrets  *secrets
	tries    int
	alone    bool // there is one fault in this trial
	ending   []ending
	trial    *trial // the present one
	atRest   atRest

	mu sync.Mutex
	// absent are the times in which a replica could not answer whatever it did.
	absent [replicas][]absence
}

// absence is a time from one moment to another; it lasts still while until is zero.
type absence struct{ from, until time.Time }

func (s absence) meets(from, until time.Time) bool {
	return !s.from.After(until) && (s.until.IsZero() || from.Before(s.until))
}

func newWorld(t *testing.T, seed uint64, program string) *world {
	t.Helper()
	w := &world{
		service: &service{etcd: etcdtest.NewCluster(t, members), program: program, waitingTTL: leastWaitingTTL},
		t:       t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), report: newReport(), secrets: newSecrets(),
	}
	w.etcdSaid = watchEtcd(t, w.etcd)
	for m := range members {
		w.members = append(w.members, w.etcd.Client(t, []string{w.etcd.Endpoint(m)}))
	}
	for range replicas {
		var to []*etcdtest.Proxy
		var endpoints []string
		for m := range members {
			p := etcdtest.NewProxy(t, w.etcd.Endpoint(m))
			to, endpoints = append(to, p), append(endpoints, p.Addr())
		}
		w.lines = append(w.lines, to)
		w.replicas = append(w.replicas, w.start(t, endpoints))
	}
	w.balancer = newBalancer(t, w)
	w.healthy(t)
	w.warm()
	w.atRest = w.rest()
	return w
}

const members = 3

// leave notes that a replica is away from now on, comeBack that it is there again.
func (w *world) leave(r int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.absent[r] = append(w.absent[r], absence{from: time.Now()})
}

func (w *world) comeBack(r int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.absent[r][len(w.absent[r])-1].until = time.Now()
}

// isAway says whether a replica is away now.
func (w *world) isAway(r int) bool { return !w.wasThere(r, time.Now(), time.Now()) }

// wasThere says whether a replica ran all the time.
func (w *world) wasThere(r int, from, until time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, away := range w.absent[r] {
		if away.meets(from, until) {
			return false
		}
	}
	return true
}

// eachLine does something to the lines of one replica.
func (w *world) eachLine(r int, do func(*etcdtest.Proxy)) {
	for _, p := range w.lines[r] {
		do(p)
	}
}

// choose returns what this run chooses of the possibilities.
func choose[T any](w *world, of ...T) T { return of[w.rng.IntN(len(of))] }

// settled waits until etcd is healthy, which is when the last fault is healed, and returns that moment.
func (w *world) settled() time.Time {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*bound)
	defer cancel()
	if err := w.etcd.WaitHealthy(ctx); err != nil {
		w.t.Fatalf("etcd did not heal: %v", err)
	}
	return time.Now()
}

// ready asks a replica whether it can serve.
func (w *world) ready(c *client, r int) bool {
	return c.get(w.replicas[r].url()+"/readyz").status == http.StatusOK
}

// every repeats something until it is told to end, or the test ends, and waits for its end.
func (w *world) every(pause time.Duration, do func()) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			do()
			select {
			case <-stop:
				return
			case <-w.t.Context().Done():
				return
			case <-time.After(pause):
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}
