package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	readyBound = 30 * time.Second
	readyTry   = 2 * time.Second
	readyPause = 50 * time.Millisecond

	latchkeyPackage = "github.com/latchkey/latchkey/cmd/latchkey"
)

// rig is all that is measured, each server a process.
type rig struct {
	cfg       settings
	tell      func(format string, args ...any)
	dir       string // of data and logs
	binary    string // latchkey
	members   []*process
	endpoints []string // of etcd, one a member
	etcd      *clientv3.Client
	replicas  []*replica
	ceiling   *process
	ceilingAt string
}

// replica is one of latchkey.
type replica struct {
	*process
	base string
}

// newRig starts everything, with its files under a directory (the system's temporary one if that is empty). It must be closed, with or without an error.
func newRig(ctx context.Context, cfg settings, under string, tell func(string, ...any)) (*rig, error) {
	r := &rig{cfg: cfg, tell: tell, binary: cfg.latchkey}
	var err error
	if r.dir, err = os.MkdirTemp(under, "latchkey-bench-"); err != nil {
		return r, err
	}
	if r.binary == "" && cfg.profile == "" {
		tell("building latchkey")
		if err := r.build(ctx); err != nil {
			return r, err
		}
	}
	tell("starting etcd (%s), latchkey and the ceiling", plural(cfg.members, "member"))
	if err := r.startEtcd(ctx); err != nil {
		return r, err
	}
	if err := r.startCeiling(ctx); err != nil {
		return r, err
	}
	first, err := r.startReplica(ctx, "latchkey-0")
	if err == nil {
		r.replicas = []*replica{first}
	}
	return r, err
}

func (r *rig) build(ctx context.Context) error {
	r.binary = filepath.Join(r.dir, "latchkey")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", r.binary, latchkeyPackage).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build latchkey: %w\n%s", err, out)
	}
	return nil
}

func (r *rig) startEtcd(ctx context.Context) error {
	addresses, err := freeAddresses(2 * r.cfg.members)
	if err != nil {
		return err
	}
	specs, peers := make([]memberSpec, r.cfg.members), make([]string, r.cfg.members)
	for i := range specs {
		name := fmt.Sprintf("etcd-%d", i)
		specs[i] = memberSpec{
			Name: name, Dir: filepath.Join(r.dir, name),
			ClientURL: "http://" + addresses[2*i], PeerURL: "http://" + addresses[2*i+1],
		}
		peers[i] = name + "=" + specs[i].PeerURL
	}
	for _, spec := range specs {
		spec.Cluster = strings.Join(peers, ",")
		p, err := startRole(r.dir, spec.Name, role{Member: &spec})
		if err != nil {
			return err
		}
		r.members = append(r.members, p)
		r.endpoints = append(r.endpoints, spec.ClientURL)
	}
	if r.etcd, err = dialEtcd(r.endpoints); err != nil {
		return err
	}
	for i, p := range r.members {
		answers := func(ctx context.Context) error {
			status, err := r.etcd.Status(ctx, r.endpoints[i])
			if err == nil && status.Leader == 0 {
				return errors.New("no leader yet")
			}
			return err
		}
		if err := p.await(ctx, answers); err != nil {
			return err
		}
	}
	return nil
}

func dialEtcd(endpoints []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: readyBound, Logger: zap.NewNop()})
}

func (r *rig) startCeiling(ctx context.Context) error {
	address, err := freeAddresses(1)
	if err != nil {
		return err
	}
	if r.ceiling, err = startRole(r.dir, "ceiling", role{Ceiling: &ceilingSpec{address[0]}}); err != nil {
		return err
	}
	r.ceilingAt = "http://" + address[0]
	return r.ceiling.await(ctx, readyAt(r.ceilingAt))
}

func (r *rig) startReplica(ctx context.Context, name string) (*replica, error) {
	address, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	var p *process
	if r.cfg.profile != "" {
		p, err = startRole(r.dir, name, role{Replica: &replicaSpec{address[0], r.endpoints}})
	} else {
		p, err = start(r.dir, name, exec.Command(r.binary, "serve",
			"--listen", address[0], "--etcd-endpoints", strings.Join(r.endpoints, ",")))
	}
	if err != nil {
		return nil, err
	}
	started := &replica{p, "http://" + address[0]}
	if err := p.await(ctx, readyAt(started.base)); err != nil {
		p.kill()
		return nil, err
	}
	return started, nil
}

// spread is this rig with n replicas in all. Those it starts are killed by gather.
func (r *rig) spread(ctx context.Context, n int) (*rig, error) {
	wide := *r
	wide.replicas = slices.Clone(r.replicas)
	for len(wide.replicas) < n {
		one, err := r.startReplica(ctx, fmt.Sprintf("latchkey-%d", len(wide.replicas)))
		if err != nil {
			wide.gather(r)
			return nil, err
		}
		wide.replicas = append(wide.replicas, one)
	}
	return &wide, nil
}

func (r *rig) gather(narrow *rig) {
	for _, one := range r.replicas[len(narrow.replicas):] {
		one.kill()
	}
}

// fresh is a rig whose servers have done nothing yet. Whoever asks for it ends it; its logs stay as long as this one's.
func (r *rig) fresh(ctx context.Context) (*rig, error) {
	cfg := r.cfg
	cfg.latchkey = r.binary
	return newRig(ctx, cfg, r.dir, func(string, ...any) {})
}

func readyAt(base string) func(context.Context) error {
	return func(ctx context.Context) error {
		l := newLine()
		defer l.hangUp()
		return l.call(ctx, http.MethodGet, base+"/readyz", http.StatusOK, nil, nil)
	}
}

// alive tells of a server that has ended by itself.
func (r *rig) alive() error {
	all := append([]*process{r.ceiling}, r.members...)
	for _, one := range r.replicas {
		all = append(all, one.process)
	}
	for _, p := range all {
		if err := p.alive(); err != nil {
			return err
		}
	}
	return nil
}

// latchkey is the base URL of a client's replica.
func (r *rig) latchkey(client int) string { return r.replicas[client%len(r.replicas)].base }

// gateway is that of its member of etcd.
func (r *rig) gateway(client int) string { return r.endpoints[client%len(r.endpoints)] }

// service is what serves latchkey's clients.
func (r *rig) service() []*process {
	list := make([]*process, len(r.replicas))
	for i, one := range r.replicas {
		list[i] = one.process
	}
	return list
}

// usageOf looks at what etcd, a service and this process have used.
func (r *rig) usageOf(service []*process) func() usage {
	return func() (u usage) {
		etcd, etcdKnown := cpuOf(r.members)
		served, servedKnown := cpuOf(service)
		own, err := ownCPU()
		u = usage{etcd, served, own, etcdKnown && servedKnown && err == nil, len(service) > 0}
		return u
	}
}

// close ends all servers and removes their files; their logs only if they need not be kept.
func (r *rig) close(keep bool) {
	r.end()
	if r.binary != r.cfg.latchkey {
		os.Remove(r.binary)
	}
	if !keep {
		os.RemoveAll(r.dir)
	}
}

// end ends all servers and removes their data.
func (r *rig) end() {
	for _, one := range r.replicas {
		one.kill()
	}
	if r.ceiling != nil {
		r.ceiling.kill()
	}
	if r.etcd != nil {
		r.etcd.Close()
	}
	for _, p := range r.members {
		p.kill()
		os.RemoveAll(filepath.Join(r.dir, p.name))
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func pause(d time.Duration) <-chan time.Time { return time.After(d) }
