package store

import (
	"context"
	"time"

	"pgregory.net/rapid"
)

func (r *modelRig) newLease(t *rapid.T) {
	ctx, cancel := modelBound()
	defer cancel()
	wish := modelWish{ttl: drawn(t, "ttl", modelTTLs), holder: drawn(t, "holder", modelHolders)}
	l, err := r.stores[r.replica(t)].NewLease(ctx, Lease{TTL: wish.ttl, Holder: wish.holder}, time.Now())
	if err != nil {
		t.Fatalf("a lease: %v", err)
	}
	o := r.world.but()
	no := o.next()
	o.world.leases[no], r.ids[no] = wish, l.ID
	r.leases = append(r.leases, no)
	if fault := r.leaseDiffers(no, modelAnswer{what: isDone}, l, o.world); fault != "" {
		t.Fatal(fault)
	}
	r.did(t, o.answered(modelAnswer{what: isDone}), nil)
}

// leaseID is that of a client's lease or of a claim, or of neither, and what is to be answered to it as a lease.
func (r *modelRig) leaseID(t *rapid.T, ofClaim func(no int) modelAnswer) (no int, id string, want modelAnswer) {
	if len(r.leases) == 0 || rapid.Bool().Draw(t, "of a lock") {
		no, id = r.id(t, anyClaim)
		return no, id, ofClaim(no)
	}
	no = drawn(t, "lease", r.leases)
	if _, ok := r.world.leases[no]; !ok {
		return no, r.ids[no], modelFailed(ErrNoLease)
	}
	return no, r.ids[no], modelAnswer{what: isDone}
}

func (r *modelRig) renew(t *rapid.T) {
	no, id, want := r.leaseID(t, r.world.renew)
	ctx, cancel := modelBound()
	defer cancel()
	l, err := r.stores[r.replica(t)].Renew(ctx, id, time.Now())
	r.tookLease(t, no, want, l, err)
}

func (r *modelRig) getLease(t *rapid.T) {
	no, id, want := r.leaseID(t, r.world.leaseOf)
	ctx, cancel := modelBound()
	defer cancel()
	l, err := r.stores[r.replica(t)].GetLease(ctx, id)
	r.tookLease(t, no, want, l, err)
	if err != nil {
		return
	}
	var held []int
	for _, c := range r.world.all() {
		if c.held && (c.no == no || c.wish.lease == no) {
			held = append(held, c.no)
		}
	}
	if len(l.Locks) != len(held) || l.Left < 0 || l.Left > l.TTL {
		t.Fatalf("lease %d shows %d locks, want %d, or more than its TTL left", no, len(l.Locks), len(held))
	}
	for i, l := range l.Locks {
		if fault := r.lockDiffers(r.world, modelAnswer{what: isHeld, claim: held[i]}, l); fault != "" {
			t.Fatalf("lease %d: %s", no, fault)
		}
	}
}

func (r *modelRig) tookLease(t *rapid.T, no int, want modelAnswer, l Lease, err error) {
	if want.what == isFailed {
		r.did(t, r.world.but().answered(want), err)
		return
	}
	if err != nil {
		t.Fatalf("lease %d: got error %v", no, modelErr(err))
	}
	if fault := r.leaseDiffers(no, want, l, r.world); fault != "" {
		t.Fatal(fault)
	}
	r.did(t, r.world.but().answered(modelAnswer{what: isDone}), nil)
}

// endLease ends a client's lease, or lets it run out: etcd's word for both is the same.
func (r *modelRig) endLease(t *rapid.T) {
	if len(r.leases) == 0 {
		t.Skip("no lease yet")
	}
	no := drawn(t, "lease", r.leases)
	if r.world.unserved(no) {
		t.Skip("the end would be noticed when the place lapses")
	}
	ctx, cancel := modelBound()
	defer cancel()
	onLease, stands := r.onLease[r.ids[no]]
	if stands && rapid.Bool().Draw(t, "by itself") {
		if _, err := r.etcd[0].Revoke(ctx, onLease); err != nil {
			t.Fatalf("revoke: %v", err)
		}
		r.pulse(ctx)
		r.did(t, r.world.endLease(no), nil)
		return
	}
	err := r.stores[r.replica(t)].EndLease(ctx, r.ids[no])
	r.pulse(ctx)
	r.did(t, r.world.endLease(no), err)
}

// pulse lets every replica look at once at what it looks at every second.
func (r *modelRig) pulse(ctx context.Context) {
	for _, s := range r.stores {
		if reg := s.registration(); reg != nil {
			reg.pulse(ctx)
		}
	}
}
