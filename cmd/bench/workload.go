package main

import "context"

// The systems that are measured. The names are those of the table and of the JSON.
const (
	latchkeyOwn    = "latchkey, lease a lock"
	latchkeyLease  = "latchkey, client's lease"
	etcdGoOwn      = "etcd-go, session a lock"
	etcdGoLease    = "etcd-go, session reused"
	gatewayOwn     = "etcd-gateway, lease a lock"
	gatewayLease   = "etcd-gateway, lease reused"
	ceilingMemory  = "ceiling, from memory"
	etcdPut        = "etcd put, alone"
	latchkeyWaiter = "latchkey"
	etcdGoWaiter   = "etcd-go"
	gatewayWaiter  = "etcd-gateway"
)

// workload is what several systems are measured on, in turn.
type workload struct {
	name  string
	title string
	// once: one round, the systems in their order, as each is measured on what the one before left.
	once bool
	open func(ctx context.Context, r *rig) ([]trial, error)
}

// trial is one system on a workload, kept over the rounds.
type trial struct {
	system string
	slice  func(ctx context.Context) (sample, error)
	close  func(ctx context.Context)
}

// workloads are all that cfg asks for, those that leave much behind last.
func workloads(cfg settings) []workload {
	var all []workload
	for _, n := range cfg.cycling {
		all = append(all, cycleWorkload(n))
	}
	for _, n := range cfg.handing {
		all = append(all, handOffWorkload(n, 1))
	}
	if cfg.spread > 0 {
		all = append(all, handOffWorkload(cfg.spread, replicas))
	}
	all = append(all, renewWorkload(cfg.renewing), deadWorkload(cfg))
	for _, n := range cfg.parked {
		all = append(all, parkedWorkload(n))
	}
	all = append(all, waitingWorkload(cfg), heldWorkload(cfg))
	chosen := all[:0]
	for _, w := range all {
		if cfg.only == nil || cfg.only.MatchString(w.name) {
			chosen = append(chosen, w)
		}
	}
	return chosen
}
