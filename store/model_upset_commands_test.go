package store

import (
	"context"
	"errors"
	"maps"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"
)

// runOut lets the etcd lease of a held lock of its own run out.
func (r *modelRig) runOut(t *rapid.T) {
	var held []int
	for _, c := range r.world.all() {
		if c.held && c.wish.lease == 0 {
			held = append(held, c.no)
		}
	}
	if len(held) == 0 {
		t.Skip("nothing is held")
	}
	no := drawn(t, "claim", held)
	ctx, cancel := modelBound()
	defer cancel()
	want, _ := parseLockID(r.ids[no])
	got, err := r.etcd[0].Get(ctx, r.stores[0].keys.claim(want.name, want.nonce))
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("read claim %d: %d, %v", no, len(got.Kvs), err)
	}
	if _, err := r.etcd[0].Revoke(ctx, clientv3.LeaseID(got.Kvs[0].Lease)); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	r.did(t, r.world.release(no), nil)
}

// upset does to replicas what happens to them seldom.
func (r *modelRig) upset(t *rapid.T) {
	at := r.replica(t)
	ctx, cancel := modelBound()
	defer cancel()
	switch drawn(t, "how", []string{"closed and opened", "cut off", "another epoch", "idle leases run out"}) {
	case "closed and opened":
		r.reopen(t, at)
	case "cut off":
		r.cutOff(ctx, t, at)
	case "another epoch":
		r.bump(ctx, t, at)
	default:
		r.drainPool(ctx, t, at)
	}
}

func (r *modelRig) reopen(t *rapid.T, at int) {
	o := r.world.drain(at)[0]
	r.stores[at].Drain()
	r.world = o.world
	r.endedAll(t, o.ends)
	r.shut(t, at)
	r.open(t, at)
	o.ends = nil
	r.goOn(t, o, Lock{})
}

// cutOff lets all the etcd leases of a replica run out, its registration's first, as that is the shortest.
func (r *modelRig) cutOff(ctx context.Context, t *rapid.T, at int) {
	old, places := r.stores[at].registration(), waitingLeases(r.stores[at])
	r.revoke(ctx, t, old.lease)
	r.anew(ctx, t, at, old)
	for _, lease := range places {
		r.revoke(ctx, t, lease)
	}
	r.did(t, r.world.runOut(at), nil)
}

func (r *modelRig) revoke(ctx context.Context, t *rapid.T, lease clientv3.LeaseID) {
	if _, err := r.etcd[0].Revoke(ctx, lease); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Fatalf("revoke: %v", err)
	}
}

// anew waits until a replica has registered anew, after something that it notices by its next look.
func (r *modelRig) anew(ctx context.Context, t *rapid.T, at int, old *registration) {
	old.pulse(ctx)
	for {
		now, err := r.stores[at].registered(ctx)
		if err != nil {
			t.Fatalf("replica %d is not registered again: %v", at, err)
		}
		if now != old {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// bump begins another epoch. The first that a replica hears of it can be its next grant.
func (r *modelRig) bump(ctx context.Context, t *rapid.T, at int) {
	var old [modelReplicas]*registration
	for i, s := range r.stores {
		old[i] = s.registration()
	}
	_, after, err := BumpEpoch(ctx, r.etcd[0], r.prefix)
	if err != nil {
		t.Fatalf("bump the epoch: %v", err)
	}
	r.floor = after.Base
	if wish := r.wish(t); len(r.world.queues[wish.name]) == 0 {
		l, err := r.stores[at].Claim(ctx, r.request(wish, false))
		if err != nil || l.Token <= r.floor {
			t.Fatalf("a claim after the epoch was bumped: %v, above its base: %v", modelErr(err), l.Token > r.floor)
		}
		if err := r.stores[at].Release(ctx, l.ID); err != nil {
			t.Fatalf("release: %v", modelErr(err))
		}
		r.last[wish.name] = l.Token
	}
	all := modelOutcome{world: r.world, ends: map[int]modelAnswer{}, answer: modelAnswer{what: isDone}}
	for i := range r.stores {
		r.anew(ctx, t, i, old[i])
		o := all.world.reregister(i)[0]
		all.world = o.world
		maps.Copy(all.ends, o.ends)
	}
	r.did(t, []modelOutcome{all}, nil)
}

// drainPool lets the idle etcd leases of a replica run out under it.
func (r *modelRig) drainPool(ctx context.Context, t *rapid.T, at int) {
	p := &r.stores[at].registration().pool
	p.mu.Lock()
	var idle []clientv3.LeaseID
	for _, leases := range p.idle {
		for _, l := range leases {
			idle = append(idle, l.id)
		}
	}
	p.mu.Unlock()
	for _, id := range idle {
		r.revoke(ctx, t, id)
	}
	r.did(t, r.world.but().answered(modelAnswer{what: isDone}), nil)
}
