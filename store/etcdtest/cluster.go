//go:build unix

package etcdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	clusterHeartbeat = 100 * time.Millisecond // etcd's own defaults
	clusterElection  = time.Second
	clusterReady     = 30 * time.Second
	clusterTries     = 3 // another process can take a port between our look and a member's start
	leaderBound      = 15 * time.Second
	probeBound       = time.Second
	probePause       = 50 * time.Millisecond
	loggedBytes      = 4 << 10 // of a member's log, when a test failed
)

// Cluster is an etcd of several members, each a process. Its methods are for one goroutine at a time.
type Cluster struct {
	t       testing.TB
	members []*member
}

type member struct {
	spec   memberSpec
	log    string
	run    *process // nil while killed
	paused bool
	client *clientv3.Client // of this member alone
}

// ClusterOption changes how a cluster is made.
type ClusterOption func(*memberSpec)

// Ticks sets etcd's heartbeat interval and election timeout.
func Ticks(heartbeat, election time.Duration) ClusterOption {
	return func(m *memberSpec) { m.Heartbeat, m.Election = heartbeat, election }
}

// NewCluster starts members as processes and returns when all are healthy. The package's TestMain must call [Main].
func NewCluster(t testing.TB, members int, opts ...ClusterOption) *Cluster {
	t.Helper()
	var err error
	for range clusterTries {
		c := &Cluster{t: t}
		if err = c.boot(members, opts); err == nil {
			t.Cleanup(c.close)
			return c
		}
		c.close()
	}
	t.Fatalf("etcdtest: cluster: %v", err)
	return nil
}

func (c *Cluster) boot(members int, opts []ClusterOption) error {
	ports, err := freePorts(2 * members)
	if err != nil {
		return err
	}
	root := c.t.TempDir()
	names := make([]string, members)
	for i := range members {
		spec := memberSpec{
			Name:      fmt.Sprintf("m%d", i),
			ClientURL: fmt.Sprintf("http://127.0.0.1:%d", ports[2*i]),
			PeerURL:   fmt.Sprintf("http://127.0.0.1:%d", ports[2*i+1]),
			Token:     defaultToken,
			Heartbeat: clusterHeartbeat,
			Election:  clusterElection,
		}
		spec.Dir = filepath.Join(root, spec.Name)
		for _, opt := range opts {
			opt(&spec)
		}
		names[i] = spec.Name + "=" + spec.PeerURL
		c.members = append(c.members, &member{spec: spec, log: filepath.Join(root, spec.Name+".log")})
	}
	for _, m := range c.members {
		m.spec.Cluster = strings.Join(names, ",")
		m.client = newClient(c.t, []string{m.endpoint()}, nil)
		if m.run, err = startMember(m.spec, m.log); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterReady)
	defer cancel()
	return c.WaitHealthy(ctx)
}

func (c *Cluster) close() {
	for _, m := range c.members {
		if m.run != nil {
			m.run.kill()
			m.run = nil
		}
		if c.t.Failed() {
			c.t.Logf("etcdtest: member %s logged:\n%s", m.spec.Name, m.logged())
		}
	}
}

func (m *member) endpoint() string { return strings.TrimPrefix(m.spec.ClientURL, "http://") }

func (m *member) logged() []byte {
	all, err := os.ReadFile(m.log)
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.ToValidUTF8(all[max(0, len(all)-loggedBytes):], nil)
}

// Endpoint is where member i listens for clients, running or not: "127.0.0.1:port".
func (c *Cluster) Endpoint(i int) string { return c.members[i].endpoint() }

// Endpoints are those of all members.
func (c *Cluster) Endpoints() []string {
	all := make([]string, len(c.members))
	for i, m := range c.members {
		all[i] = m.endpoint()
	}
	return all
}

// Client returns a client of the endpoints, of all if there are none, that the test's end closes.
func (c *Cluster) Client(t testing.TB, endpoints []string, faults ...*Faults) *clientv3.Client {
	t.Helper()
	if len(endpoints) == 0 {
		endpoints = c.Endpoints()
	}
	return newClient(t, endpoints, faults)
}

// Kill ends member i as a power cut would (SIGKILL), paused or not, and waits until it is gone.
func (c *Cluster) Kill(i int) {
	c.t.Helper()
	m := c.running(i)
	m.run.kill()
	m.run, m.paused = nil, false
}

// Pause stops member i (SIGSTOP) and waits until it has stopped: its connections stay, its clocks go on, it does nothing.
func (c *Cluster) Pause(i int) {
	c.t.Helper()
	c.signal(i, syscall.SIGSTOP)
	c.members[i].paused = true
	for end := time.Now().Add(arriveBound); !stopped(c.members[i].run.cmd.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("etcdtest: member %d has not stopped within %v", i, arriveBound)
		}
	}
}

// Resume lets a paused member go on (SIGCONT).
func (c *Cluster) Resume(i int) {
	c.t.Helper()
	c.signal(i, syscall.SIGCONT)
	c.members[i].paused = false
}

// Signaller returns what sends signals to member i as it runs now, and nothing to a later run of it. It may be used beside
// the other methods.
func (c *Cluster) Signaller(i int) func(syscall.Signal) {
	c.t.Helper()
	run := c.running(i).run
	return func(s syscall.Signal) { run.signal(s) } // one that has ended hears nothing
}

// Restart starts a killed member on the data it left. WaitHealthy tells when it is back.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	m := c.members[i]
	if m.run != nil {
		c.t.Fatalf("etcdtest: member %d has not been killed", i)
	}
	var err error
	if m.run, err = startMember(m.spec, m.log); err != nil {
		c.t.Fatalf("etcdtest: %v", err)
	}
}

func (c *Cluster) running(i int) *member {
	c.t.Helper()
	m := c.members[i]
	if m.run == nil {
		c.t.Fatalf("etcdtest: member %d is not running", i)
	}
	return m
}

func (c *Cluster) signal(i int, s syscall.Signal) {
	c.t.Helper()
	if err := c.running(i).run.signal(s); err != nil {
		c.t.Fatalf("etcdtest: member %d: %v", i, err)
	}
}

// Leader is the member that leads, as those see it that answer and have seen the latest election. It waits for one.
func (c *Cluster) Leader() int {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), leaderBound)
	defer cancel()
	for {
		if i := c.leader(ctx); i >= 0 {
			return i
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("etcdtest: no leader after %v", leaderBound)
		case <-time.After(probePause):
		}
	}
}

func (c *Cluster) leader(ctx context.Context) int {
	var term, leads uint64
	ids := map[uint64]int{}
	for i, m := range c.members {
		if m.run == nil || m.paused {
			continue
		}
		status, err := m.status(ctx)
		if err != nil {
			continue
		}
		ids[status.Header.MemberId] = i
		if status.RaftTerm >= term && status.Leader != 0 {
			term, leads = status.RaftTerm, status.Leader
		}
	}
	if i, ok := ids[leads]; ok {
		return i
	}
	return -1
}

func (m *member) status(ctx context.Context) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	return m.client.Status(ctx, m.endpoint())
}

// WaitHealthy waits until every member that is neither killed nor paused answers a linearizable read and all of those name
// the same leader.
func (c *Cluster) WaitHealthy(ctx context.Context) error {
	for {
		err := c.healthy(ctx)
		if err == nil {
			return nil
		}
		for i, m := range c.members {
			if m.run != nil && !m.run.running() {
				return fmt.Errorf("member %d ended by itself: %s", i, m.logged())
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(probePause):
		}
	}
}

func (c *Cluster) healthy(ctx context.Context) error {
	var leader uint64
	for i, m := range c.members {
		if m.run == nil || m.paused {
			continue
		}
		if err := m.answers(ctx); err != nil {
			return fmt.Errorf("member %d: %w", i, err)
		}
		status, err := m.status(ctx)
		if err != nil {
			return fmt.Errorf("member %d: %w", i, err)
		}
		if status.Leader == 0 || leader != 0 && status.Leader != leader {
			return fmt.Errorf("member %d does not agree on a leader", i)
		}
		leader = status.Leader
	}
	return nil
}

func (m *member) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	_, err := m.client.Get(ctx, "health")
	return err
}
