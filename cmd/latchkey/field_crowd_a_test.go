package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

const (
	crowdEach  = 9 // waiters behind each holder
	crowdTTL   = 5
	crowdPause = 20 * time.Millisecond // between two claims of one who has nothing to do with it
)

// manyThatDieAtOnceAreNoHindrance: holders, waiters and leases all lose their clients together. Others are served as
// ever meanwhile, no lease has less than nothing left, and of the dead nothing is left soon after their TTL.
func manyThatDieAtOnceAreNoHindrance(t *testing.T, s *service) {
	names := shortOrLong(40, 300)
	c := newClient(t)
	etcd := s.etcd.Client(t, nil)
	lines := make([]*net.TCPConn, names*crowdEach)
	for n := range names {
		if a := c.claim(s.any(), "", api.LockRequest{Name: crowdName(n), TTLSeconds: crowdTTL}); !a.held() {
			t.Fatalf("a free lock: %v", a)
		}
		for w := range crowdEach {
			line, err := send(s.any(), api.LockRequest{Name: crowdName(n), TTLSeconds: crowdTTL, WaitSeconds: 55})
			if err != nil {
				t.Fatal(err)
			}
			defer line.Close()
			lines[n*crowdEach+w] = line
		}
	}
	eventually(t, 2*bound, "most of them hold or wait", func() bool { // the first may have run out
		return len(keysUnder(t, etcd, "/latchkey/locks/crowd ")) >= names*crowdEach/2
	})
	leases := make([]string, names)
	for n := range leases {
		var err error
		if leases[n], err = c.lease(s, crowdTTL); err != nil {
			t.Fatal(err)
		}
	}

	for _, line := range lines {
		vanish(line, true)
	}
	died := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	var took []time.Duration
	others.Go(func() { took = claimMeanwhile(ctx, t, s, c) })
	others.Go(func() { lookAtLeases(ctx, t, s, c, leases) })
	eventually(t, seconds(crowdTTL)+expiryLag+slack, "nothing of the dead outlives their TTL", func() bool {
		return len(keysUnder(t, etcd, "/latchkey/locks/crowd ")) == 0 &&
			!slices.ContainsFunc(keysUnder(t, etcd, "/latchkey/leases/"), func(id string) bool { return slices.Contains(leases, id) })
	})
	gone := time.Since(died)
	stop()
	others.Wait()
	slices.Sort(took)
	t.Logf("%d dead were gone after %v; meanwhile %d claims of others took %v half of the times, %v the longest",
		len(lines)+2*names, gone.Round(time.Millisecond), len(took), quantile(took, 0.5), quantile(took, 1))
	wantMetrics(t, s.any(), "latchkey_hand_off_seconds", "latchkey_wait_seconds", "latchkey_lapsed_total", "latchkey_locks_queued")
}

func crowdName(n int) string { return fmt.Sprintf("crowd %d", n) }

// claimMeanwhile claims and releases what has nothing to do with it until ctx ends, and returns how long claims took.
func claimMeanwhile(ctx context.Context, t *testing.T, s *service, c *client) (took []time.Duration) {
	for pause := time.NewTicker(crowdPause); ctx.Err() == nil; <-pause.C {
		a := c.claim(s.any(), "", api.LockRequest{Name: "beside the crowd"})
		if !a.held() {
			t.Errorf("a free lock is free whoever dies, but a claim answers %v", a)
			return took
		}
		took = append(took, a.got.Sub(a.sent))
		if err := c.releaseSurely(s, a.lock.ID); err != nil {
			t.Error(err)
			return took
		}
	}
	return took
}

// lookAtLeases looks at what is left of each until ctx ends.
func lookAtLeases(ctx context.Context, t *testing.T, s *service, c *client, ids []string) {
	for i, pause := 0, time.NewTicker(crowdPause); ctx.Err() == nil; i++ {
		<-pause.C
		text, err := c.text(http.MethodGet, s.any()+"/leases/"+ids[i%len(ids)])
		var lease struct {
			Code string `json:"code"`
			Left *int64 `json:"ttl_left_seconds"`
		}
		if err == nil {
			err = json.Unmarshal([]byte(text), &lease)
		}
		if err != nil || lease.Code != "lease_not_found" && (lease.Left == nil || *lease.Left < 0 || *lease.Left > crowdTTL) {
			t.Errorf("a lease has from 0 to %d s left, or is gone, but a look at one that runs out answers %s (%v)", crowdTTL, text, err)
			return
		}
	}
}
