package main

import (
	"context"
	"fmt"
	"time"
)

// cycleWorkload has n clients take and release locks, each under a name of its own.
func cycleWorkload(n int) workload {
	return workload{
		name:  fmt.Sprintf("cycle/%d", n),
		title: fmt.Sprintf("acquire and release, %s, each on a name of its own: cycles; times are of the acquire", plural(n, "client")),
		open: func(ctx context.Context, r *rig) ([]trial, error) {
			return crewTrials(ctx, r, n, cycle, byLatchkeyOwn, byLatchkeyLease, byEtcdGoOwn, byEtcdGoLease, byGatewayOwn, byGatewayLease, byCeiling)
		},
	}
}

// renewWorkload has n clients renew the lease of a lock.
func renewWorkload(n int) workload {
	return workload{
		name:  fmt.Sprintf("renew/%d", n),
		title: fmt.Sprintf("renewals, %s, each of the lease of a lock it holds", plural(n, "client")),
		open: func(ctx context.Context, r *rig) ([]trial, error) {
			return crewTrials(ctx, r, n, renewal, renewingLatchkey, byLatchkeyLease, byEtcdGoLease, byGatewayLease, byCeiling)
		},
	}
}

// renewingLatchkey holds its lock through the rounds.
var renewingLatchkey = contestant{latchkeyOwn, theReplicas, func(_ context.Context, r *rig, i int) (client, error) {
	c := newLatchkeyClient(r.latchkey(i))
	c.ttl = longTTL
	return c, nil
}}

// work makes an operation of a contestant's crew, and returns how to leave it.
type work func(ctx context.Context, c contestant, all crew) (op operation, leave func(context.Context), err error)

func cycle(_ context.Context, c contestant, all crew) (operation, func(context.Context), error) {
	return func(ctx context.Context, i int) (time.Duration, error) {
		began := time.Now()
		if err := all[i].acquire(ctx, ownName(i)); err != nil {
			return 0, fmt.Errorf("acquire: %w", err)
		}
		took := time.Since(began)
		if err := all[i].release(ctx); err != nil {
			return 0, fmt.Errorf("release: %w", err)
		}
		return took, nil
	}, nil, nil
}

func renewal(ctx context.Context, c contestant, all crew) (operation, func(context.Context), error) {
	err := eachOf(len(all), func(i int) error { return all[i].acquire(ctx, c.system+"/"+ownName(i)) })
	op := func(ctx context.Context, i int) (time.Duration, error) {
		began := time.Now()
		err := all[i].renew(ctx)
		return time.Since(began), err
	}
	leave := func(ctx context.Context) {
		eachOf(len(all), func(i int) error { return all[i].release(ctx) })
	}
	return op, leave, err
}

func ownName(i int) string { return fmt.Sprintf("bench/own/%d", i) }

// crewTrials makes a trial of each contestant, with n clients at work.
func crewTrials(ctx context.Context, r *rig, n int, w work, list ...contestant) ([]trial, error) {
	var all []trial
	for _, c := range list {
		t, err := crewTrial(ctx, r, n, w, c)
		if t.close != nil {
			all = append(all, t)
		}
		if err != nil {
			return all, fmt.Errorf("%s: %w", c.system, err)
		}
	}
	return all, nil
}

func crewTrial(ctx context.Context, r *rig, n int, w work, c contestant) (trial, error) {
	t := trial{system: c.system}
	all, err := c.crew(ctx, r, n)
	t.close = all.close
	if err != nil {
		return t, err
	}
	op, leave, err := w(ctx, c, all)
	if leave != nil {
		t.close = func(ctx context.Context) { leave(ctx); all.close(ctx) }
	}
	t.slice = func(ctx context.Context) (sample, error) {
		return load{clients: n, warm: r.cfg.warm, slice: r.cfg.slice, usage: r.usageOf(c.service(r)), op: op}.run(ctx), nil
	}
	return t, err
}
