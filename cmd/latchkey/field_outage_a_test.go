package main

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store/etcdtest"
)

// replicaThatEtcdDoesNotAnswerSaysSo: to whom renews, to whom listens, and to the balancer; its locks are renewed through
// others meanwhile. Once etcd answers again, it keeps what it serves as before.
func replicaThatEtcdDoesNotAnswerSaysSo(t *testing.T, s *service) {
	const name, ttl = "unanswered", 9
	var lines []*etcdtest.Proxy
	var ends []string
	for _, e := range s.etcd.Endpoints() {
		lines = append(lines, etcdtest.NewProxy(t, e))
		ends = append(ends, lines[len(lines)-1].Addr())
	}
	r := s.start(t, ends)
	c := newClient(t)
	held := c.claim(r.url(), "", api.LockRequest{Name: name, TTLSeconds: ttl})
	if !held.held() {
		t.Fatalf("a free lock: %v", held)
	}
	kept := c.listen(t, r.url()+"/leases/"+held.lock.ID+"/keepalive")
	kept.await(t, slack, "renewed")
	stop := c.keepRenewing(t, s, held)

	for _, line := range lines {
		line.Blackhole()
	}
	a := c.renew(r.url(), held.lock.ID)
	if took := a.got.Sub(a.sent); a.status != http.StatusServiceUnavailable || a.retry == "" || took > requestBound+slack/2 ||
		!slices.Contains([]string{"unavailable", "outcome_unknown"}, a.problem.Code) {
		t.Errorf("a renewal that etcd does not answer is 503 within %v, but after %v it answers %v", requestBound, took, a)
	}
	kept.await(t, seconds(ttl)+slack, "warning")
	eventually(t, 2*requestBound+slack, "a replica that etcd does not answer is not ready", func() bool {
		return c.get(r.url()+"/readyz").status == http.StatusServiceUnavailable
	})
	if a := c.get(r.url() + "/healthz"); a.status != http.StatusOK {
		t.Errorf("a replica is alive whatever etcd does, but /healthz answers %v", a)
	}

	for _, line := range lines {
		line.Heal()
	}
	took := eventually(t, bound, "a replica is ready again when etcd answers", func() bool {
		return c.get(r.url()+"/readyz").status == http.StatusOK
	})
	t.Logf("ready %v after etcd answered again", took.Round(time.Millisecond))
	c.listen(t, r.url()+"/leases/"+held.lock.ID+"/keepalive").await(t, slack, "renewed")
	stop()
	placeOutlivesItsWaitingLease(t, s, c, r)
	if a := c.renew(s.any(), held.lock.ID); a.status != http.StatusOK || a.lock.FencingToken != held.lock.FencingToken {
		t.Errorf("a lock of %d s that only a stream has kept is still held, but its renewal answers %v", ttl, a)
	}
	if err := c.releaseSurely(s, held.lock.ID); err != nil {
		t.Error(err)
	}
	r.stop()
}

// placeOutlivesItsWaitingLease waits at a replica for longer than any lease that a place is on lasts by itself.
func placeOutlivesItsWaitingLease(t *testing.T, s *service, c *client, r *replica) {
	t.Helper()
	const name = "waits on"
	lease := s.waitingTTL + s.waitingTTL/3 + 2*time.Second // as the design has it
	holder := c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: 60})
	waits := make(chan answer, 1)
	go func() { waits <- c.claim(r.url(), "", api.LockRequest{Name: name, TTLSeconds: 60, WaitSeconds: 55}) }()
	c.awaitClaims(t, s.any(), name, 2, slack, "a waiting claim is listed")
	place, err := c.list(s.any(), name)
	if err != nil || len(place) != 2 {
		t.Fatalf("%d claims, %v", len(place), err)
	}
	for began := time.Now(); time.Since(began) < lease+expiryLag; time.Sleep(lookAgain) {
		if now, err := c.list(s.any(), name); err == nil && (len(now) != 2 || now[1].ID != place[1].ID) {
			t.Fatalf("a place stands for as long as its client waits, but after %v it is gone", time.Since(began))
		}
	}
	released := time.Now()
	if err := c.releaseSurely(s, holder.lock.ID); err != nil {
		t.Fatal(err)
	}
	a := <-waits
	if took := a.got.Sub(released); !a.held() || a.lock.ID != place[1].ID || took > slack {
		t.Errorf("a waiter is granted the lock when it is free, but after %v is told %v", took, a)
	}
	if err := c.releaseSurely(s, a.lock.ID); err != nil {
		t.Error(err)
	}
}

// keepRenewing renews a lock once a second through any replica of the service until stop is called.
func (c *client) keepRenewing(t *testing.T, s *service, lock answer) (stop func()) {
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-done:
				tick.Stop()
				return
			case <-tick.C:
			}
			if a := c.renew(s.any(), lock.lock.ID); !a.elsewhere() && (a.status != http.StatusOK || a.lock.FencingToken != lock.lock.FencingToken) {
				t.Errorf("a lock is renewed through any replica that etcd answers, but one answers %v", a)
			}
		}
	})
	stop = sync.OnceFunc(func() { close(done); all.Wait() })
	t.Cleanup(stop)
	return stop
}

const (
	killedNames   = 120
	killedWorkers = 4
	killedTTL     = 5
	kills         = 3
)

// whatAKilledReplicaHeldRunsOut: be it killed at any instant, nothing that it made stands for longer than its TTL, also
// when holder and replica die together and the replica is back at once.
func whatAKilledReplicaHeldRunsOut(t *testing.T, s *service) {
	c := newClient(t)
	r := s.start(t, s.etcd.Endpoints())
	var workers sync.WaitGroup
	for w := range killedWorkers {
		workers.Go(func() {
			for i := w; i < killedNames; i += killedWorkers {
				a := c.claim(r.url(), "", api.LockRequest{Name: killedName(i), TTLSeconds: killedTTL})
				if !a.held() && !a.elsewhere() {
					t.Errorf("a claim at a replica that is killed answers %v", a)
				}
				time.Sleep(tryAgain())
			}
		})
	}
	for i := range kills {
		alive := time.NewTimer(time.Duration(i+1) * 400 * time.Millisecond)
		<-alive.C
		r.kill()
		r.start()
	}
	workers.Wait()

	const name = "dies with its replica"
	holder := c.claim(r.url(), "", api.LockRequest{Name: name, TTLSeconds: killedTTL})
	if !holder.held() {
		t.Fatalf("a free lock: %v", holder)
	}
	r.kill()
	r.start()
	next := c.claim(r.url(), "", api.LockRequest{Name: name, TTLSeconds: killedTTL, WaitSeconds: 40})
	if took := next.got.Sub(holder.sent); !next.held() || took < seconds(killedTTL) || took > seconds(killedTTL)+expiryLag+slack {
		t.Errorf("a lock of %d s whose holder died with its replica goes to the next when that is over, but after %v the answer is %v", killedTTL, took, next)
	}
	if err := c.releaseSurely(s, next.lock.ID); err != nil {
		t.Error(err)
	}
	for i := range killedNames {
		a := c.claim(s.any(), "", api.LockRequest{Name: killedName(i), TTLSeconds: killedTTL, WaitSeconds: 40})
		if !a.held() || a.got.Sub(a.sent) > seconds(killedTTL)+expiryLag+slack {
			t.Fatalf("what a killed replica has made runs out, but %v after its death a claim answers %v", a.got.Sub(holder.sent), a)
		}
		if err := c.releaseSurely(s, a.lock.ID); err != nil {
			t.Fatal(err)
		}
	}
	r.stop()
}

func killedName(i int) string { return fmt.Sprintf("killed %d", i) }
