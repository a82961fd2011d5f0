package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	deadName = "dead-holder"
	// settling is the time for what was sent to be where it is to stand.
	settling = 300 * time.Millisecond
	// lateGrant is how long after the TTL a grant is still waited for.
	lateGrant = 20 * time.Second
)

// deadWorkload has holders die with a client waiting behind each. The systems are measured at the same time: they do
// nothing but wait.
func deadWorkload(cfg settings) workload {
	return workload{
		name:  deadName,
		title: fmt.Sprintf("%s die, TTL %v: from the last renewal sent to the next grant received", plural(cfg.dying, "holder"), cfg.dyingTTL),
		once:  true,
		open: func(ctx context.Context, r *rig) ([]trial, error) {
			pairs := []struct{ holds, waits contestant }{
				{dyingAtLatchkey, waitingAtLatchkey}, {dyingInEtcdGo, waitingInEtcdGo}, {dyingAtGateway, waitingAtGateway},
			}
			var all []trial
			for _, p := range pairs {
				told := make(chan deaths, 1)
				go func() {
					defer close(told)
					told <- die(ctx, r, p.holds, p.waits)
				}()
				all = append(all, trial{
					system: p.waits.system,
					slice: func(context.Context) (sample, error) {
						d := <-told
						return d.sample, d.err
					},
					close: func(context.Context) {
						for range told { // until it has ended, asked for or not
						}
					},
				})
			}
			return all, nil
		},
	}
}

var (
	dyingAtLatchkey = contestant{latchkeyOwn, theReplicas, func(_ context.Context, r *rig, i int) (client, error) {
		c := newLatchkeyClient(r.latchkey(i))
		c.ttl = r.cfg.dyingTTL
		return c, nil
	}}
	dyingInEtcdGo = contestant{etcdGoOwn, nobody, func(_ context.Context, r *rig, i int) (client, error) {
		c, err := newEtcdGoClient(r)
		if err != nil {
			return nil, err
		}
		c.ttl = r.cfg.dyingTTL
		return c, nil
	}}
	dyingAtGateway = contestant{gatewayOwn, nobody, func(_ context.Context, r *rig, i int) (client, error) {
		c := newGatewayClient(r.gateway(i))
		c.ttl = r.cfg.dyingTTL
		return c, nil
	}}
)

type deaths struct {
	sample
	err error
}

func die(ctx context.Context, r *rig, holds, waits contestant) deaths {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.dyingTTL+lateGrant)
	defer cancel()
	n := r.cfg.dying
	holders, err := holds.crew(ctx, r, n)
	defer holders.close(ctx)
	if err != nil {
		return deaths{err: err}
	}
	waiters, err := waits.crew(ctx, r, n)
	defer waiters.close(ctx)
	if err != nil {
		return deaths{err: err}
	}
	name := func(i int) string { return fmt.Sprintf("bench/dead/%s/%d", holds.system, i) }
	took := make([]time.Duration, n)
	err = eachOf(n, func(i int) error {
		if err := holders[i].acquire(ctx, name(i)); err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		granted := make(chan error, 1)
		var at time.Time
		go func() {
			err := waiters[i].acquire(ctx, name(i))
			at = time.Now()
			granted <- err
		}()
		sleep(ctx, settling)
		holders[i].die()
		last := time.Now()
		if err := holders[i].renew(ctx); err != nil {
			return fmt.Errorf("renew: %w", err)
		}
		if err := <-granted; err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		took[i] = at.Sub(last)
		return waiters[i].release(ctx)
	})
	if err != nil {
		var d deaths
		d.add(err)
		return d
	}
	return deaths{sample: sample{done: n, figures: figures{
		earliest: slices.Min(took).Seconds(), latest: slices.Max(took).Seconds(),
	}}}
}
