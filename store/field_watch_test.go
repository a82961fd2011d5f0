package store

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestWaitsOutliveACompactionBehindABrokenWatch breaks the lines on which a replica watches while etcd compacts all that
// the watches could go on from. A waiter behind that is granted in its turn, and one that leaves leaves nothing.
func TestWaitsOutliveACompactionBehindABrokenWatch(t *testing.T) {
	etcd := etcdtest.New(t)
	proxy := etcdtest.NewProxy(t, etcd.Endpoint())
	a, b := open(t, proxy.Client(t), farWaiting), open(t, etcd.Client(t))
	held, other := mustHold(t, b, Claim{Name: "x", TTL: time.Minute}), mustHold(t, b, Claim{Name: "y", TTL: time.Minute})
	stays := claimInBackground(t, a, Claim{Name: "x", Wait: 2 * within})
	ctx, leave := context.WithCancel(ctxFor(t))
	defer leave()
	leaves := inBackground(func() (Lock, error) {
		return a.Claim(ctx, Claim{Name: "y", TTL: time.Minute, Wait: 2 * within})
	})
	eventually(t, "a watches both names", func() bool {
		return current(t, a).waiting("x") == 2 && current(t, a).waiting("y") == 2
	})

	compacting, stop := context.WithCancel(ctxFor(t))
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() {
		for compacting.Err() == nil {
			if resp, err := b.etcd.Put(compacting, "/junk", "x"); err == nil {
				_, _ = b.etcd.Compact(compacting, resp.Header.Revision) // refused when nothing is new
			}
			sleep(compacting, 5*time.Millisecond)
		}
	})
	eventually(t, "a watch has ended because what it would go on from is compacted", func() bool {
		proxy.Reset()
		sleep(ctxFor(t), 200*time.Millisecond)
		return testutil.ToFloat64(a.metrics.watchesBroken) > 0
	})
	stillWaiting(t, stays)
	stillWaiting(t, leaves)

	leave()
	if _, err := get(t, leaves); err == nil {
		t.Error("the wait that was left succeeded")
	}
	queuedUp(t, b, "y", 1)
	released := time.Now()
	mustRelease(t, b, held)
	getHeld(t, stays)
	if took := time.Since(released); took > 5*time.Second {
		t.Errorf("granted %v after the release", took)
	}
	mustRelease(t, b, other)
}

// TestReleasesAreNoticedThoughTheWatchWasStarved lets far more events come than a line takes, while it takes none: etcd
// then serves the watches when and as it can.
func TestReleasesAreNoticedThoughTheWatchWasStarved(t *testing.T) {
	const names, workers = 120, 16
	etcd := etcdtest.New(t)
	proxy := etcdtest.NewProxy(t, etcd.Endpoint())
	a, b := open(t, proxy.Client(t), farWaiting), open(t, etcd.Client(t), patient)
	large := map[string]string{"large": strings.Repeat("x", 2000)}
	held, waits := make([]Lock, names), make([]<-chan result, names)
	for i := range names {
		held[i] = mustHold(t, b, Claim{Name: fmt.Sprint(i), TTL: time.Minute})
		waits[i] = claimInBackground(t, a, Claim{Name: fmt.Sprint(i), Wait: 2 * within})
	}
	eventually(t, "a watches all names", func() bool {
		for i := range names {
			if current(t, a).waiting(fmt.Sprint(i)) != 2 {
				return false
			}
		}
		return true
	})

	proxy.Blackhole(etcdtest.ToClient)
	starved := time.Now()
	ctx := ctxFor(t)
	inParallel(workers, names, func(i int) {
		passing, err := b.Claim(ctx, Claim{Name: fmt.Sprint(i), TTL: time.Minute, Queue: true, Metadata: large})
		if err == nil {
			err = b.Release(ctx, passing.ID)
		}
		if err == nil {
			err = b.Release(ctx, held[i].ID)
		}
		if err != nil {
			t.Error(err)
		}
	})
	eventually(t, "etcd has more to tell than the line takes", func() bool { return starvedWatches(t) > 0 })
	proxy.Heal()
	t.Logf("nothing arrived for %v", time.Since(starved))
	for i, wait := range waits {
		if won := getHeld(t, wait); won.Token <= held[i].Token {
			t.Errorf("token %d after %d", won.Token, held[i].Token)
		}
	}
}

// starvedWatches is how many watches the etcd servers of this process are behind with.
func starvedWatches(t testing.TB) (n float64) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "etcd_debugging_mvcc_slow_watcher_total" {
			for _, m := range f.GetMetric() {
				n += m.GetGauge().GetValue()
			}
		}
	}
	return n
}
