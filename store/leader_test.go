package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/latchkey/latchkey/store/etcdtest"
)

const methodStatus = "/etcdserverpb.Maintenance/Status"

// ways are a cluster of three and a line to each of its members.
type ways struct {
	*etcdtest.Cluster
	lines []*etcdtest.Proxy
}

func newWays(t testing.TB) *ways {
	w := &ways{Cluster: etcdtest.NewCluster(t, 3)}
	for _, e := range w.Endpoints() {
		w.lines = append(w.lines, etcdtest.NewProxy(t, e))
	}
	return w
}

func (w *ways) all() []string {
	var all []string
	for _, l := range w.lines {
		all = append(all, l.Addr())
	}
	return all
}

// only waits until the client asks member i alone and has no line to another.
func (w *ways) only(t testing.TB, c *clientv3.Client, i int) {
	t.Helper()
	eventually(t, "the leader is asked alone", func() bool {
		if !slices.Equal(c.Endpoints(), []string{w.lines[i].Addr()}) {
			return false
		}
		for j, l := range w.lines {
			if (l.Conns() > 0) != (i == j) {
				return false
			}
		}
		return true
	})
}

// moveLeader makes another member the leader, in peace.
func (w *ways) moveLeader(t testing.TB) int {
	t.Helper()
	from := w.Leader()
	return w.moveLeaderFrom(t, from, w.Client(t, []string{w.Endpoint(from)}))
}

// moveLeaderFrom does so by a client of the leader that there is.
func (w *ways) moveLeaderFrom(t testing.TB, from int, etcd *clientv3.Client) int {
	t.Helper()
	to := (from + 1) % len(w.lines)
	st, err := etcd.Status(ctxFor(t), w.Endpoint(to))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.MoveLeader(ctxFor(t), st.Header.MemberId); err != nil {
		t.Fatal(err)
	}
	return to
}

// keepClaiming claims and releases until stop is called, which returns what failed and how.
func keepClaiming(t testing.TB, s *Store) (stop func() []error) {
	ctx, cancel := context.WithCancel(ctxFor(t))
	var failed []error
	var work sync.WaitGroup
	work.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			l, err := s.Claim(context.WithoutCancel(ctx), Claim{Name: fmt.Sprint("busy", i), TTL: 30 * time.Second})
			if err == nil {
				err = s.Release(context.WithoutCancel(ctx), l.ID)
			}
			if err != nil {
				failed = append(failed, err)
			}
		}
	})
	return func() []error { cancel(); work.Wait(); return failed }
}

// openToClose opens a store that the test closes itself.
func openToClose(t testing.TB, etcd *clientv3.Client) *Store {
	t.Helper()
	s, err := Open(ctxFor(t), etcd, testConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLeaderIsAskedAloneAndFollowed(t *testing.T) {
	w := newWays(t)
	faults := etcdtest.NewFaults(t)
	etcd := w.Client(t, w.all(), faults)
	s := openToClose(t, etcd)
	w.only(t, etcd, w.Leader())
	head := mustHold(t, s, Claim{Name: "x"})
	next := claimInBackground(t, s, Claim{Name: "x", Wait: within})
	queuedUp(t, s, "x", 2)
	eventually(t, "it watches the name", func() bool { return current(t, s).waiting("x") == 2 })
	watches := faults.Calls(etcdtest.MethodWatch)
	stop := keepClaiming(t, s)
	for range 2 {
		to := w.moveLeader(t)
		eventually(t, "the new leader is asked alone", func() bool {
			return slices.Equal(etcd.Endpoints(), []string{w.lines[to].Addr()})
		})
	}
	for _, err := range stop() {
		t.Errorf("while the leader moved: %v", err)
	}
	if err := s.Release(ctxFor(t), head.ID); err != nil {
		t.Fatal(err)
	}
	getHeld(t, next)
	if broken := testutil.ToFloat64(s.metrics.watchesBroken); broken != 0 || faults.Calls(etcdtest.MethodWatch) != watches {
		t.Errorf("got %v watches broken and %d opened after %d, want those there were to live on", broken, faults.Calls(etcdtest.MethodWatch), watches)
	}
	if err := s.Close(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	if got := etcd.Endpoints(); !slices.Equal(got, w.all()) {
		t.Errorf("after Close the client has %v, want %v", got, w.all())
	}
}

func TestLeaderThatFailsIsLeft(t *testing.T) {
	for name, fail := range map[string]func(*ways, int){
		"killed": func(w *ways, i int) { w.Kill(i) },
		"paused": func(w *ways, i int) { w.Pause(i) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWays(t)
			etcd := w.Client(t, w.all())
			s := open(t, etcd)
			old := w.Leader()
			w.only(t, etcd, old)
			stop := keepClaiming(t, s)
			fail(w, old)
			next := w.Leader()
			eventually(t, "the new leader is asked alone", func() bool {
				return slices.Equal(etcd.Endpoints(), []string{w.lines[next].Addr()})
			})
			for _, err := range stop() {
				if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
					t.Errorf("while etcd had no leader: %v", err)
				}
			}
			mustHold(t, s, Claim{Name: "x"})
		})
	}
}

// TestLeaderOutOfReach cuts one replica off from the leader that all others reach, and then from another member too.
func TestLeaderOutOfReach(t *testing.T) {
	w := newWays(t)
	etcd := w.Client(t, w.all())
	s := open(t, etcd)
	leader := w.Leader()
	w.only(t, etcd, leader)
	stop := keepClaiming(t, s)
	w.lines[leader].Blackhole()
	others := without(w.all(), w.lines[leader].Addr())
	eventually(t, "the other members are asked", func() bool { return slices.Equal(etcd.Endpoints(), others) })
	for end := time.Now().Add(2 * lookWithin); time.Now().Before(end); sleep(ctxFor(t), 10*time.Millisecond) {
		if got := etcd.Endpoints(); !slices.Equal(got, others) {
			t.Fatalf("asked are %v, want those in reach to stay", got)
		}
	}
	for _, err := range stop() {
		t.Errorf("with two members in reach: %v", err)
	}
	stop = keepClaiming(t, s)
	w.lines[(leader+1)%3].Blackhole()
	last := []string{w.lines[(leader+2)%3].Addr()}
	eventually(t, "the member in reach is asked", func() bool { return slices.Equal(etcd.Endpoints(), last) })
	mustHold(t, s, Claim{Name: "y"})
	for _, err := range stop() {
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
			t.Errorf("while half of those asked were out of reach: %v", err)
		}
	}
	for _, l := range w.lines {
		l.Heal()
	}
	w.only(t, etcd, leader)
	mustHold(t, s, Claim{Name: "x"})
}

// TestAllOutOfReach heals another line than the last that was asked on.
func TestAllOutOfReach(t *testing.T) {
	w := newWays(t)
	etcd := w.Client(t, w.all())
	s := open(t, etcd)
	leader := w.Leader()
	w.only(t, etcd, leader)
	for _, l := range w.lines {
		l.Blackhole()
	}
	stop := keepClaiming(t, s)
	eventually(t, "all members are asked", func() bool { return slices.Equal(etcd.Endpoints(), w.all()) })
	w.lines[(leader+1)%3].Heal()
	eventually(t, "the member in reach is asked", func() bool {
		return slices.Equal(etcd.Endpoints(), []string{w.lines[(leader+1)%3].Addr()})
	})
	for _, err := range stop() {
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
			t.Errorf("while no member was in reach: %v", err)
		}
	}
	mustHold(t, s, Claim{Name: "x"})
}

func TestLeaderDoubtedByARequestIsLeft(t *testing.T) {
	w := newWays(t)
	etcd := w.Client(t, w.all())
	s := open(t, etcd)
	w.only(t, etcd, w.Leader())
	others := without(w.all(), w.lines[w.Leader()].Addr())
	s.leader.doubt(errNoAnswer)
	eventually(t, "the other members are asked", func() bool { return slices.Equal(etcd.Endpoints(), others) })
	w.only(t, etcd, w.Leader())
}

func TestLeaderGivesWayToTheOwnersEndpoints(t *testing.T) {
	w := newWays(t)
	etcd := w.Client(t, w.all())
	s := openToClose(t, etcd)
	w.only(t, etcd, w.Leader())
	owners := []string{w.lines[(w.Leader()+1)%3].Addr(), w.lines[(w.Leader()+2)%3].Addr()}
	etcd.SetEndpoints(owners...)
	mustHold(t, s, Claim{Name: "x"})
	if err := s.Close(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	if got := etcd.Endpoints(); !slices.Equal(got, owners) {
		t.Errorf("after Close the client has %v, want its owner's %v", got, owners)
	}
}

// TestLeaderUnderAuthentication lets the client in by a password, whichever member it asks.
func TestLeaderUnderAuthentication(t *testing.T) {
	w := newWays(t)
	lead := w.Leader()
	needPassword(t, w.Client(t, nil))
	etcd := clientWithPassword(t, w.all())
	s := open(t, etcd)
	w.only(t, etcd, lead)
	mustHold(t, s, Claim{Name: "x"})
	w.only(t, etcd, w.moveLeaderFrom(t, lead, clientWithPassword(t, []string{w.Endpoint(lead)})))
	mustHold(t, s, Claim{Name: "y"})
}

func needPassword(t testing.TB, etcd *clientv3.Client) {
	t.Helper()
	ctx := ctxFor(t)
	for _, err := range []error{
		errOf(etcd.UserAdd(ctx, "root", "password")), errOf(etcd.UserGrantRole(ctx, "root", "root")), errOf(etcd.AuthEnable(ctx)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func clientWithPassword(t testing.TB, endpoints []string) *clientv3.Client {
	t.Helper()
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Username: "root", Password: "password", DialTimeout: within,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	return etcd
}

// TestAllStayAsked has endpoints among which there is no leader to be told.
func TestAllStayAsked(t *testing.T) {
	cluster := etcdtest.NewCluster(t, 3)
	lead := cluster.Leader()
	follower := cluster.Endpoint((lead + 1) % 3)
	again := etcdtest.NewProxy(t, cluster.Endpoint(lead)).Addr()
	none := func(*etcdtest.Faults) {}
	for _, c := range []struct {
		name      string
		endpoints []string
		faults    func(*etcdtest.Faults)
		want      error
	}{
		{"one endpoint", []string{cluster.Endpoint(lead)}, none, nil},
		{"followers", []string{follower, cluster.Endpoint((lead + 2) % 3)}, none, errNotLeader},
		{"one member twice", []string{cluster.Endpoint(lead), again}, none, errManyBehind},
		{"status refused", cluster.Endpoints(), func(f *etcdtest.Faults) {
			f.Every(etcdtest.Method(methodStatus)).Fail(codes.PermissionDenied)
		}, errNotLeader},
		{"status unanswered", cluster.Endpoints(), func(f *etcdtest.Faults) {
			f.Every(etcdtest.Method(methodStatus)).Drop()
		}, errNotLeader},
		{"balancer", []string{balancer(t, follower, cluster.Endpoint(lead)), follower}, none, errManyBehind},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults := etcdtest.NewFaults(t)
			etcd := cluster.Client(t, c.endpoints, faults)
			l := newLeader(etcd, testConfig(t).Logger, func() {})
			for range 2 * len(c.endpoints) { // opens a line to each
				if _, err := etcd.Get(ctxFor(t), "x"); err != nil {
					t.Fatal(err)
				}
			}
			c.faults(faults)
			if err := l.follow(ctxFor(t)); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if got := etcd.Endpoints(); !slices.Equal(got, c.endpoints) {
				t.Errorf("asked are %v, want %v", got, c.endpoints)
			}
			if asked := faults.Calls(methodStatus); len(c.endpoints) == 1 && asked > 0 {
				t.Errorf("one endpoint was asked %d times whether it leads", asked)
			}
		})
	}
}

// balancer leads the first connection to one endpoint, all others to another.
func balancer(t testing.TB, first, others string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() { l.Close(); work.Wait() })
	work.Go(func() {
		for to := first; ; to = others {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			work.Go(func() { io.Copy(out, in); out.Close() })
			work.Go(func() { io.Copy(in, out); in.Close() })
		}
	})
	return l.Addr().String()
}
