package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// handOffWorkload has n clients take one lock in turn.
func handOffWorkload(n, over int) workload {
	w := workload{
		name:  fmt.Sprintf("hand-off/%d", n),
		title: fmt.Sprintf("one name, %s: hand-offs; times are from release sent to next grant received", plural(n, "client")),
	}
	if over > 1 {
		w.name += fmt.Sprintf("/%d-replicas", over)
		w.title += fmt.Sprintf("; latchkey's clients over %s", plural(over, "replica"))
	}
	w.open = func(ctx context.Context, r *rig) ([]trial, error) {
		spread, err := r.spread(ctx, over)
		if err != nil {
			return nil, err
		}
		all, err := crewTrials(ctx, spread, n, handOff, waitingAtLatchkey, waitingInEtcdGo, waitingAtGateway, waitingAtCeiling)
		put := lonePut(r)
		put.close = func(context.Context) { spread.gather(r) }
		return append(all, put), err
	}
	return w
}

func handOff(_ context.Context, c contestant, all crew) (operation, func(context.Context), error) {
	return passOn(all, "bench/one/"+c.system), nil, nil
}

// passOn takes a lock in turn. What it measures is the time between two holders.
func passOn(all crew, name string) operation {
	var released atomic.Int64 // since began; 0: not yet
	began := time.Now()
	return func(ctx context.Context, i int) (time.Duration, error) {
		if err := all[i].acquire(ctx, name); err != nil {
			return 0, fmt.Errorf("acquire: %w", err)
		}
		granted, before := time.Since(began), time.Duration(released.Load())
		released.Store(int64(time.Since(began)))
		if err := all[i].release(ctx); err != nil {
			return 0, fmt.Errorf("release: %w", err)
		}
		if before == 0 {
			return 0, nil
		}
		return granted - before, nil
	}
}

// lonePut is one put after another, and nothing else: what etcd itself takes for a write.
func lonePut(r *rig) trial {
	value := strings.Repeat("v", putBytes)
	put := func(ctx context.Context, _ int) (time.Duration, error) {
		began := time.Now()
		_, err := r.etcd.Put(ctx, "bench/put", value)
		return time.Since(began), err
	}
	return trial{
		system: etcdPut,
		slice: func(ctx context.Context) (sample, error) {
			return load{clients: 1, warm: r.cfg.warm, slice: r.cfg.slice, usage: r.usageOf(nil), op: put}.run(ctx), nil
		},
		close: func(context.Context) {},
	}
}

const putBytes = 100 // about what a claim has
