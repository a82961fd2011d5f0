package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/api"
)

// contestant is a system as clients of it.
type contestant struct {
	system  string
	service func(*rig) []*process // whose CPU time is told as the service's
	client  func(ctx context.Context, r *rig, i int) (client, error)
}

// queue is how many clients wait for a name that another holds.
func (c contestant) queue(ctx context.Context, r *rig, name string) (int, error) {
	if c.system != latchkeyWaiter {
		keys, err := r.etcd.Get(ctx, name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return 0, err
		}
		return int(keys.Count) - 1, nil // the holder's is one of them
	}
	l := newLine()
	defer l.hangUp()
	var refusal api.Problem
	err := l.call(ctx, http.MethodPost, r.latchkey(0)+"/locks", http.StatusConflict, api.LockRequest{Name: name}, &refusal)
	if err != nil || refusal.QueueLength == nil {
		return 0, err
	}
	return *refusal.QueueLength, nil
}

func nobody(*rig) []*process        { return nil }
func theCeiling(r *rig) []*process  { return []*process{r.ceiling} }
func theReplicas(r *rig) []*process { return r.service() }

var (
	byLatchkeyOwn = contestant{latchkeyOwn, theReplicas, func(_ context.Context, r *rig, i int) (client, error) {
		return newLatchkeyClient(r.latchkey(i)), nil
	}}
	byLatchkeyLease = contestant{latchkeyLease, theReplicas, func(ctx context.Context, r *rig, i int) (client, error) {
		c := newLatchkeyClient(r.latchkey(i))
		return c, c.onLease(ctx)
	}}
	byEtcdGoOwn = contestant{etcdGoOwn, nobody, func(_ context.Context, r *rig, i int) (client, error) {
		c, err := newEtcdGoClient(r)
		if err != nil {
			return nil, err
		}
		return c, nil
	}}
	byEtcdGoLease = contestant{etcdGoLease, nobody, func(_ context.Context, r *rig, i int) (client, error) {
		c, err := newEtcdGoClient(r)
		if err != nil {
			return nil, err
		}
		return c, c.onLease()
	}}
	byGatewayOwn = contestant{gatewayOwn, nobody, func(_ context.Context, r *rig, i int) (client, error) {
		return newGatewayClient(r.gateway(i)), nil
	}}
	byGatewayLease = contestant{gatewayLease, nobody, func(ctx context.Context, r *rig, i int) (client, error) {
		c := newGatewayClient(r.gateway(i))
		return c, c.onLease(ctx)
	}}
	byCeiling = contestant{ceilingMemory, theCeiling, func(_ context.Context, r *rig, i int) (client, error) {
		return newLatchkeyClient(r.ceilingAt), nil
	}}

	waitingAtLatchkey = contestant{latchkeyWaiter, theReplicas, func(_ context.Context, r *rig, i int) (client, error) {
		return newLatchkeyClient(r.latchkey(i)).waits(), nil
	}}
	waitingInEtcdGo  = contestant{etcdGoWaiter, nobody, byEtcdGoLease.client}
	waitingAtGateway = contestant{gatewayWaiter, nobody, byGatewayLease.client}
	waitingAtCeiling = contestant{ceilingMemory, theCeiling, func(_ context.Context, r *rig, i int) (client, error) {
		return newLatchkeyClient(r.ceilingAt).waits(), nil
	}}
)

// crew are the clients of one contestant.
type crew []client

// opening bounds how many clients are made at once.
const opening = 64

func (c contestant) crew(ctx context.Context, r *rig, n int) (crew, error) {
	all := make(crew, n)
	return all, eachOf(n, func(i int) (err error) {
		all[i], err = c.client(ctx, r, i)
		if err != nil {
			return fmt.Errorf("%s: client %d: %w", c.system, i, err)
		}
		return nil
	})
}

// close leaves nothing of the clients at etcd but what runs out by itself.
func (all crew) close(ctx context.Context) {
	eachOf(len(all), func(i int) error {
		if all[i] == nil {
			return nil
		}
		all[i].close(ctx)
		return nil
	})
}

// eachOf does something n times, some of it at once, and returns the first error.
func eachOf(n int, do func(i int) error) error {
	var all sync.WaitGroup
	var once sync.Once
	var first error
	room := make(chan struct{}, opening)
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			if err := do(i); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	all.Wait()
	return first
}
