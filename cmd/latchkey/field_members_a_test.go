package main

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/latchkey/latchkey/api"
)

const (
	// What the death of etcd's leader may add to a TTL, and how soon before the end of one it dies here.
	deadLeaderLag = 4 * time.Second
	beforeExpiry  = time.Second
)

// locksAndPlacesOutliveMembers: etcd's leader dies and another member takes its place for good; then others
// are restarted in turn. Who renews loses nothing, who does not loses no more than late, and waits go on.
func locksAndPlacesOutliveMembers(t *testing.T, s *service) {
	const name, unrenewed, ttl = "members", "members, not renewed", 3
	s.healthy(t)
	c := newClient(t)
	h := newHolders(t, s, name)
	first := c.claim(s.any(), "", api.LockRequest{Name: unrenewed, TTLSeconds: ttl})
	waits := []chan answer{make(chan answer, 1), make(chan answer, 1)}
	for i, ahead := range []string{unrenewed, h.held[0].lock.Name} {
		a := c.claim(s.any(), "", api.LockRequest{Name: ahead, TTLSeconds: longestTTL, Queue: true})
		if !a.queued() {
			t.Fatalf("a claim with queue on a held lock: %v", a)
		}
		go func() { waits[i] <- pollUntilHeld(c, s, a.lock.ID) }()
	}

	dies := time.NewTimer(time.Until(first.sent.Add(seconds(ttl) - beforeExpiry)))
	<-dies.C
	leader := s.etcd.Leader()
	killed := time.Now()
	s.etcd.Kill(leader)
	replaceMember(t, s, leader)
	next := <-waits[0]
	if !next.held() || next.lock.FencingToken <= first.lock.FencingToken || next.got.Sub(first.sent) < seconds(ttl) {
		t.Errorf("a lock of %d s that nobody renews goes to the next when that is over, but %v after it was asked for, with token %d, the answer is %v",
			ttl, next.got.Sub(first.sent), first.lock.FencingToken, next)
	}
	if late := next.got.Sub(killed); late > seconds(ttl)+deadLeaderLag+slack {
		t.Errorf("a lock runs out at the latest its TTL and %v after etcd's leader died, but did after %v", deadLeaderLag, late)
	} else {
		t.Logf("a lock of %d s ran out %v after it was asked for, %v after etcd's leader died", ttl, next.got.Sub(first.sent), late)
	}
	if err := c.releaseSurely(s, next.lock.ID); err != nil {
		t.Error(err)
	}

	for i := range shortOrLong(1, 2) {
		m := (leader + 1 + i) % 3
		s.etcd.Kill(m)
		s.etcd.Restart(m)
		s.healthy(t)
	}
	restarted := time.Now()
	h.judge()
	a := <-waits[1]
	if took := a.got.Sub(restarted); !a.held() || took > slack {
		t.Errorf("a wait goes on whatever restarts, but the waiter behind a lock that was released %v ago is told %v", took, a)
	}
	if err := c.releaseSurely(s, a.lock.ID); err != nil {
		t.Error(err)
	}
}

// replaceMember removes a dead member of etcd from its cluster and starts a new one, without data, that serves clients
// where the dead one did.
func replaceMember(t *testing.T, s *service, dead int) {
	t.Helper()
	alive := s.etcd.Client(t, []string{s.etcd.Endpoint((dead + 1) % 3), s.etcd.Endpoint((dead + 2) % 3)})
	peer := &url.URL{Scheme: "http", Host: freeAddress(t)}
	clients := &url.URL{Scheme: "http", Host: s.etcd.Endpoint(dead)}
	reconfigure(t, "the dead member is removed", func(ctx context.Context) ([]string, error) {
		members, err := alive.MemberList(ctx)
		if err != nil {
			return nil, err
		}
		for _, m := range members.Members {
			if slices.Contains(m.ClientURLs, clients.String()) {
				_, err = alive.MemberRemove(ctx, m.ID)
			}
		}
		return nil, err
	})
	const name = "replacement"
	cluster := reconfigure(t, "another member is added", func(ctx context.Context) ([]string, error) {
		added, err := alive.MemberAdd(ctx, []string{peer.String()})
		if err != nil {
			return nil, err
		}
		var all []string
		for _, m := range added.Members {
			member := m.Name
			if m.ID == added.Member.ID {
				member = name
			}
			all = append(all, member+"="+m.PeerURLs[0])
		}
		return all, nil
	})

	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = name, filepath.Join(t.TempDir(), "etcd")
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*clients}, []url.URL{*clients}
	cfg.InitialCluster, cfg.ClusterState = strings.Join(cluster, ","), embed.ClusterStateFlagExisting
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatalf("start the other member: %v", err)
	}
	t.Cleanup(etcd.Close)
	select {
	case <-etcd.Server.ReadyNotify():
	case <-time.After(bound):
		t.Fatalf("the other member is not ready after %v", bound)
	}
	own := s.etcd.Client(t, []string{clients.Host})
	reconfigure(t, "the other member answers", func(ctx context.Context) ([]string, error) {
		_, err := own.Get(ctx, "health")
		return nil, err
	})
}

// reconfigure tries until etcd does it, and returns what it then said.
func reconfigure(t *testing.T, promise string, try func(context.Context) ([]string, error)) (said []string) {
	t.Helper()
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("last: %v", err)
		}
	}()
	eventually(t, bound, promise, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), requestBound)
		defer cancel()
		said, err = try(ctx)
		return err == nil
	})
	return said
}

// freeAddress is one where nobody listens just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
