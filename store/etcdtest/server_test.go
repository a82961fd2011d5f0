package etcdtest_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestRestartKeepsTheDataAndWipeDoesNot(t *testing.T) {
	t.Parallel()
	s := etcdtest.New(t)
	endpoint, c := s.Endpoint(), s.Client(t)
	put(t, c, "a", "1")
	first := head(t, c)

	s.Restart()
	wantValue(t, c, "a", "1")

	s.Wipe()
	wantValue(t, c, "a", "")
	second := head(t, c)
	if second.clusterID != first.clusterID || second.memberID != first.memberID || second.revision != 1 {
		t.Errorf("wiped store is %+v, want the ids of %+v and revision 1", second, first)
	}

	s.WipeAs("another")
	if third := head(t, c); third.clusterID == first.clusterID {
		t.Errorf("a wipe under another token kept the cluster id %x", third.clusterID)
	}
	if s.Endpoint() != endpoint {
		t.Errorf("endpoint moved from %s to %s", endpoint, s.Endpoint())
	}
}

func TestServerIsQuickAndGrantsLeasesOfOneSecond(t *testing.T) {
	t.Parallel()
	start := time.Now()
	s := etcdtest.New(t)
	c := s.Client(t)
	lease, err := c.Grant(within(t, bound), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("first answer after %v", time.Since(start))
	if lease.TTL != 1 {
		t.Errorf("TTL %d granted, want 1", lease.TTL)
	}
}

func TestStopCutsWatchesAtOnce(t *testing.T) {
	t.Parallel()
	s := etcdtest.New(t)
	c := s.Client(t)
	ctx := clientv3.WithRequireLeader(within(t, bound))
	if w := <-c.Watch(ctx, "a", clientv3.WithCreatedNotify()); !w.Created {
		t.Fatalf("watch was not created: %+v", w)
	}
	start := time.Now()
	s.Stop()
	if took := time.Since(start); took > time.Second {
		t.Errorf("Stop with a watch open took %v", took)
	}
	short, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	if _, err := c.Get(short, "a"); err == nil {
		t.Error("a stopped server answered")
	}
}

func TestSharedIsOneServer(t *testing.T) {
	t.Parallel()
	a, b := etcdtest.Shared(t), etcdtest.Shared(t)
	put(t, a.Client(t), t.Name(), "1")
	wantValue(t, b.Client(t), t.Name(), "1")
}

type header struct {
	clusterID, memberID uint64
	revision            int64
}

func head(t *testing.T, c *clientv3.Client) header {
	t.Helper()
	got, err := c.Get(within(t, bound), "x")
	if err != nil {
		t.Fatal(err)
	}
	return header{got.Header.ClusterId, got.Header.MemberId, got.Header.Revision}
}
