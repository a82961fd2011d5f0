package main

import (
	"context"
	"fmt"
)

const (
	growthHeld    = "growth/held"
	growthWaiting = "growth/waiting"

	growing = 16 // clients that take one more lock
	fillers = 64 // clients, each with a lease, that hold the others
)

// heldWorkload has clients take and release locks while more and more others are held.
func heldWorkload(cfg settings) workload {
	return workload{
		name:  growthHeld,
		title: fmt.Sprintf("acquire and release, %s, while others are held: cycles; times are of the acquire", plural(growing, "client")),
		once:  true,
		open: func(ctx context.Context, r *rig) ([]trial, error) {
			fresh, err := r.fresh(ctx)
			if err != nil {
				fresh.end()
				return nil, err
			}
			all := []trial{ending(fresh)}
			holders, err := byLatchkeyLease.crew(ctx, fresh, fillers)
			if err != nil {
				return all, err
			}
			have := 0
			for _, n := range cfg.held {
				all = append(all, trial{
					system: heldSystem(n),
					slice: func(ctx context.Context) (sample, error) {
						if err := fill(ctx, holders, have, n); err != nil {
							return sample{}, err
						}
						have = n
						return growthSample(ctx, fresh, byLatchkeyOwn)
					},
				})
			}
			return all, nil
		},
	}
}

// ending measures nothing: it ends a rig with its workload.
func ending(r *rig) trial { return trial{close: func(context.Context) { r.end() }} }

func heldSystem(n int) string { return fmt.Sprintf("latchkey, %d held", n) }

func waitingSystem(n int) string { return fmt.Sprintf("latchkey, %d clients", n) }

// fill lets the holders hold from have to n locks.
func fill(ctx context.Context, holders crew, have, n int) error {
	return eachOf(len(holders), func(i int) error {
		for k := have + i; k < n; k += len(holders) {
			if err := holders[i].acquire(ctx, fmt.Sprintf("bench/held/%d", k)); err != nil {
				return fmt.Errorf("hold %d locks: %w", n, err)
			}
		}
		return nil
	})
}

func growthSample(ctx context.Context, r *rig, c contestant) (sample, error) {
	all, err := c.crew(ctx, r, growing)
	defer all.close(ctx)
	if err != nil {
		return sample{}, err
	}
	op, _, err := cycle(ctx, c, all)
	if err != nil {
		return sample{}, err
	}
	return load{
		clients: growing, warm: r.cfg.warm, slice: slicesGrowth * r.cfg.slice, usage: r.usageOf(c.service(r)), op: op,
	}.run(ctx), nil
}

// waitingWorkload has more and more clients take one lock in turn, all of them in the queue from the start.
func waitingWorkload(cfg settings) workload {
	return workload{
		name:  growthWaiting,
		title: "one name, more and more clients: hand-offs; times are from release sent to next grant received",
		once:  true,
		open: func(ctx context.Context, r *rig) ([]trial, error) {
			fresh, err := r.fresh(ctx)
			if err != nil {
				fresh.end()
				return nil, err
			}
			all := []trial{ending(fresh)}
			for _, n := range cfg.waiting {
				all = append(all, trial{
					system: waitingSystem(n),
					slice:  func(ctx context.Context) (sample, error) { return passAmong(ctx, fresh, waitingAtLatchkey, n) },
				})
			}
			return all, nil
		},
	}
}

func passAmong(ctx context.Context, r *rig, c contestant, n int) (s sample, err error) {
	name := fmt.Sprintf("bench/among/%d", n)
	first, err := held(ctx, r, c, name)
	if err != nil {
		return s, err
	}
	defer first.close(ctx)
	all, err := c.crew(ctx, r, n)
	defer all.close(ctx)
	if err != nil {
		return s, err
	}
	return load{
		clients: n, warm: r.cfg.warm, slice: slicesGrowth * r.cfg.slice, usage: r.usageOf(c.service(r)),
		op: passOn(all, name),
		begin: func(ctx context.Context) error {
			waiting := queued(ctx, r, c, name, n, nil)
			if err := first.release(ctx); err != nil {
				return err
			}
			return waiting
		},
	}.run(ctx), nil
}
