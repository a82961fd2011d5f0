package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store/etcdtest"
)

// An etcd of these tests may hold so much, which is enough for all but the test that fills it, if it keeps history for no longer
// than this.
const (
	opsQuota   = 48 << 20
	opsHistory = 5 * time.Second
)

// TestOperations does to an etcd under load what its operators do, as the README tells them.
func TestOperations(t *testing.T) {
	t.Parallel() // with the other one: both wait most of the time
	etcd := etcdtest.NewCluster(t, 3, etcdtest.Quota(opsQuota), etcdtest.KeepHistory(opsHistory))
	s := newServiceOn(t, etcd, etcd.Endpoints())
	for _, tt := range []struct {
		name string
		test func(*testing.T, *service)
	}{
		{"members and replicas are replaced in turn", membersAndReplicasAreReplacedInTurn},
		{"compaction and defragmentation all the time", upkeepAllTheTime},
		{"the quota is reached", quotaIsReached},
		{"restored as the README says", restoredAsTheReadmeSays},
		{"restored without a bump of revisions", restoredWithoutABump},
		{"restored under running replicas", restoredUnderRunningReplicas},
		{"wiped under running replicas", wipedUnderRunningReplicas},
	} {
		if !t.Run(tt.name, func(t *testing.T) { tt.test(t, s) }) {
			return // what it left behind would fail the next ones too
		}
	}
}

// newServiceOn is three replicas on an etcd of the test's own making.
func newServiceOn(t *testing.T, etcd *etcdtest.Cluster, endpoints []string, args ...string) *service {
	t.Helper()
	s := &service{program: os.Args[0], etcd: etcd, waitingTTL: shortOrLong(leastWaitingTTL, 15*time.Second)}
	for range replicas {
		s.replicas = append(s.replicas, s.start(t, endpoints, args...))
	}
	return s
}

// cyclers are clients that each take a lock of their own and release it, again and again, whatever becomes of the store.
type cyclers struct {
	t      *testing.T
	s      *service
	c      *client
	stop   context.CancelFunc
	all    sync.WaitGroup
	last   []atomic.Int64 // each one's highest token
	grants atomic.Int64
}

const (
	cyclersCount = 8
	cyclersTTL   = 2
)

func newCyclers(t *testing.T, s *service, name string) *cyclers {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	y := &cyclers{t: t, s: s, c: newClient(t), stop: stop, last: make([]atomic.Int64, cyclersCount)}
	t.Cleanup(func() { stop(); y.all.Wait() })
	for i := range cyclersCount {
		y.all.Go(func() {
			for ctx.Err() == nil {
				if err := y.cycle(fmt.Sprintf("%s %d", name, i), &y.last[i]); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return y
}

// cycle is one claim and its release: a grant has a token above all before it.
func (y *cyclers) cycle(name string, last *atomic.Int64) error {
	a := y.c.claim(y.s.any(), "", api.LockRequest{Name: name, TTLSeconds: cyclersTTL})
	switch {
	case a.held():
		y.grants.Add(1)
		if before := last.Swap(a.lock.FencingToken); a.lock.FencingToken <= before {
			return fmt.Errorf("tokens of a name never go back, but %q got %d after %d", name, a.lock.FencingToken, before)
		}
		y.c.release(y.s.any(), a.lock.ID) // what comes of it is for others to judge
	case a.status == http.StatusConflict && a.problem.Code == "lock_held", a.elsewhere(), a.problem.Code == "place_lost":
		// what an unanswered release or a restore left behind runs out; so short a TTL does not outlast an election
		time.Sleep(tryAgain())
	default:
		return fmt.Errorf("a claim of %q answers %v", name, a)
	}
	return nil
}

// moving waits until every cycler has been granted its lock once more.
func (y *cyclers) moving(within time.Duration, promise string) {
	y.t.Helper()
	before := make([]int64, len(y.last))
	for i := range y.last {
		before[i] = y.last[i].Load()
	}
	took := eventually(y.t, within, promise, func() bool {
		for i := range y.last {
			if y.last[i].Load() == before[i] {
				return false
			}
		}
		return true
	})
	y.t.Logf("every client got its lock again within %v (%s)", took.Round(time.Millisecond), promise)
}

func (y *cyclers) end() {
	y.stop()
	y.all.Wait()
	y.t.Logf("%d grants, with tokens that only grew", y.grants.Load())
}
