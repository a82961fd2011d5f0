package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	parkedName  = "bench/parked"
	parkBound   = time.Minute           // for all waiters to stand in the queue
	parkPoll    = 20 * time.Millisecond // between two looks at the queue
	parkStep    = 250                   // waiters that come at once: etcd refuses what has to wait for too long
	warmClients = 16                    // that make a fresh server do everything once
)

// parkedWorkload has n clients wait for one lock, and nothing happen: what a waiter takes while it waits. Each system has
// servers of its own that are fresh, as a server keeps the memory it once had.
func parkedWorkload(n int) workload {
	return workload{
		name:  fmt.Sprintf("parked/%d", n),
		title: fmt.Sprintf("%d clients wait for one lock: memory that a waiter takes, and CPU time at rest", n),
		once:  true,
		open: func(_ context.Context, r *rig) ([]trial, error) {
			var all []trial
			for _, c := range []contestant{waitingAtLatchkey, waitingInEtcdGo} {
				all = append(all, trial{
					system: c.system,
					slice:  func(ctx context.Context) (sample, error) { return park(ctx, r, n, c) },
					close:  func(context.Context) {},
				})
			}
			return all, nil
		},
	}
}

// park has n clients of a contestant wait for a lock behind one that holds it.
func park(ctx context.Context, r *rig, n int, c contestant) (s sample, err error) {
	r, err = r.fresh(ctx)
	defer r.end()
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := exercise(ctx, r, c); err != nil {
		return s, err
	}
	if _, err := held(ctx, r, c, parkedName); err != nil {
		return s, err
	}
	etcdBefore, _ := memoryOf(r.members)
	serviceBefore, _ := memoryOf(c.service(r))
	all, err := c.crew(ctx, r, n)
	if err != nil {
		return s, err
	}
	ended := make(chan error, n)
	for i := range n {
		go func() { ended <- all[i].acquire(ctx, parkedName) }()
		if standing := i + 1; standing%parkStep == 0 || standing == n {
			if err := queued(ctx, r, c, parkedName, standing, ended); err != nil {
				return s, err
			}
		}
	}
	sleep(ctx, r.cfg.settle)
	etcdAfter, etcdKnown := memoryOf(r.members)
	serviceAfter, serviceKnown := memoryOf(c.service(r))
	before, began := r.usageOf(c.service(r))(), time.Now()
	sleep(ctx, r.cfg.rest)
	used, span := r.usageOf(c.service(r))().since(before), time.Since(began)
	select {
	case err := <-ended:
		return s, cameBack(err)
	default:
	}
	s.done, s.figures = n, figures{}
	if etcdKnown {
		s.figures[etcdMemory] = kib(etcdAfter-etcdBefore) / float64(n*len(r.members))
	}
	if used.known {
		s.figures[etcdRest] = 100 * used.etcd.Seconds() / span.Seconds()
	}
	if len(c.service(r)) > 0 && serviceKnown {
		s.figures[serviceMemory] = kib(serviceAfter-serviceBefore) / float64(n)
		s.figures[serviceRest] = 100 * used.service.Seconds() / span.Seconds()
	}
	return s, nil
}

// held is a client that holds a lock for as long as it takes for others to stand in the queue.
func held(ctx context.Context, r *rig, c contestant, name string) (client, error) {
	if c.system == latchkeyWaiter {
		c = byLatchkeyLease
	}
	holder, err := c.client(ctx, r, 0)
	if err != nil {
		return nil, err
	}
	return holder, holder.acquire(ctx, name)
}

// cameBack is what is wrong with a waiter that has ended before its turn.
func cameBack(err error) error {
	if err == nil {
		err = errors.New("it was granted a lock that is held")
	}
	return fmt.Errorf("a waiter came back: %w", err)
}

// exercise makes fresh servers do what they do.
func exercise(ctx context.Context, r *rig, c contestant) error {
	all, err := c.crew(ctx, r, warmClients)
	defer all.close(ctx)
	if err != nil {
		return err
	}
	op, _, _ := cycle(ctx, c, all)
	warmed := load{clients: warmClients, warm: r.cfg.warm, slice: r.cfg.warm, usage: r.usageOf(nil), op: op}.run(ctx)
	return warmed.first
}

// queued waits until n clients wait for a name, and tells of one that came back instead.
func queued(ctx context.Context, r *rig, c contestant, name string, n int, ended <-chan error) error {
	late := pause(parkBound)
	for {
		waiting, err := c.queue(ctx, r, name)
		if err != nil {
			return fmt.Errorf("look at the queue: %w", err)
		}
		if waiting == n {
			return nil
		}
		select {
		case err := <-ended:
			return cameBack(err)
		case <-late:
			return fmt.Errorf("after %v %d of %d wait", parkBound, waiting, n)
		case <-ctx.Done():
			return ctx.Err()
		case <-pause(parkPoll):
		}
	}
}

func kib(bytes int64) float64 { return float64(bytes) / 1024 }
