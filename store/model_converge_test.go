package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"
)

// converge compares etcd with the model, at once or soon, and then waits until the replicas see what is there.
func (r *modelRig) converge(t *rapid.T, soon bool) {
	end := time.Now().Add(within)
	for {
		view, fault := r.etcdDiffers(t)
		if fault != "" && !soon {
			t.Fatalf("in etcd: %s", fault)
		}
		if fault == "" {
			if fault = r.replicasDiffer(view); fault == "" {
				return
			}
			soon = true // a replica may still be adopting a claim
		}
		if time.Now().After(end) {
			t.Fatalf("in the end: %s", fault)
		}
		time.Sleep(time.Millisecond)
	}
}

// etcdDiffers reads all there is and says how it is not what the model has. It returns the claims by name, in queue order.
func (r *modelRig) etcdDiffers(t *rapid.T) (map[string][]standing, string) {
	ctx, cancel := modelBound()
	defer cancel()
	got, err := r.etcd[0].Get(ctx, r.prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatalf("read etcd: %v", err)
	}
	view, records, fault := r.parse(got.Kvs)
	if fault != "" {
		return nil, fault
	}
	if fault := r.leasesDiffer(records); fault != "" {
		return nil, fault
	}
	for _, name := range slices.Sorted(maps.Keys(view)) {
		if len(view[name]) > len(r.world.queues[name]) {
			return nil, fmt.Sprintf("%d claims on %q, want %d", len(view[name]), name, len(r.world.queues[name]))
		}
	}
	own := map[clientv3.LeaseID]int{}
	for _, name := range slices.Sorted(maps.Keys(r.world.queues)) { // in one order, so that a fault is told the same again
		queue := r.world.queues[name]
		if len(view[name]) < len(queue) {
			return nil, fmt.Sprintf("%d claims on %q, want %d", len(view[name]), name, len(queue))
		}
		for i, c := range queue {
			if fault := r.standingDiffers(view[name][i], c, i, own); fault != "" {
				return nil, fault
			}
		}
	}
	return view, ""
}

func (r *modelRig) parse(kvs []*mvccpb.KeyValue) (map[string][]standing, map[string]clientv3.LeaseID, string) {
	k := r.stores[0].keys
	view, records := map[string][]standing{}, map[string]clientv3.LeaseID{}
	for _, kv := range kvs {
		if called, ok := strings.CutPrefix(string(kv.Key), k.leaseOf("")); ok {
			records[k.ids.leaseID(called, "")] = clientv3.LeaseID(kv.Lease)
		}
		if _, ok := strings.CutPrefix(string(kv.Key), k.locks()); !ok {
			continue
		}
		st, err := k.standing(kv)
		if err != nil {
			return nil, nil, "a claim that cannot be read"
		}
		view[st.name] = append(view[st.name], st)
	}
	for _, queue := range view {
		slices.SortFunc(queue, func(a, b standing) int { return int(a.created - b.created) })
	}
	return view, records, ""
}

func (r *modelRig) leasesDiffer(records map[string]clientv3.LeaseID) string {
	if len(records) != len(r.world.leases) {
		return fmt.Sprintf("%d clients' leases, want %d", len(records), len(r.world.leases))
	}
	for no := range r.world.leases {
		if _, ok := records[r.ids[no]]; !ok {
			return fmt.Sprintf("the client's lease %d is gone", no)
		}
	}
	r.onLease = records
	return ""
}

// standingDiffers says how what stands is not this claim. own are the etcd leases that claims have for their own.
func (r *modelRig) standingDiffers(st standing, c modelClaim, position int, own map[clientv3.LeaseID]int) string {
	if fault := r.know(c.no, st.id()); fault != "" {
		return fault
	}
	other, shared := own[st.onLease]
	switch {
	case st.Held && position != 0:
		return fmt.Sprintf("claim %d is held behind another", c.no)
	case st.Held != c.held:
		return fmt.Sprintf("claim %d is held: %v, want %v", c.no, st.Held, c.held)
	case st.ttl() != r.ttlOf(c.wish), st.Holder != c.wish.holder, (st.Digest != "") != (c.wish.key != ""), st.leaseID() != r.ids[c.wish.lease]:
		return fmt.Sprintf("claim %d is not what was asked for", c.no)
	case !c.held:
		return r.servedElsewhere(st, c)
	case st.onLease != st.Lease || isWaitingLease(st.Lease):
		return fmt.Sprintf("claim %d is held on another etcd lease than it says", c.no)
	case c.wish.lease != 0 && st.Lease != r.onLease[r.ids[c.wish.lease]]:
		return fmt.Sprintf("claim %d is not held on its client's lease", c.no)
	case c.wish.lease == 0 && shared:
		return fmt.Sprintf("claims %d and %d are held on one etcd lease", other, c.no)
	}
	if c.wish.lease == 0 {
		own[st.onLease] = c.no
	}
	return r.granted(c.no, c.wish.name, st.Base+st.created)
}

// servedElsewhere says if a queued claim is not on a waiting lease of the replica that serves it.
func (r *modelRig) servedElsewhere(st standing, c modelClaim) string {
	for at, s := range r.stores {
		if s == nil {
			continue
		}
		if mine := slices.Contains(waitingLeases(s), st.onLease); mine != (at == c.at) {
			return fmt.Sprintf("replica %d serves claim %d: %v", at, c.no, mine)
		}
	}
	return ""
}

// waitingLeases are the etcd leases on which this replica keeps places.
func waitingLeases(s *Store) (list []clientv3.LeaseID) {
	reg := s.registration()
	if reg == nil {
		return nil
	}
	reg.presence.mu.Lock()
	defer reg.presence.mu.Unlock()
	for _, sl := range reg.presence.slots {
		list = append(list, sl.id)
	}
	return list
}

// replicasDiffer says which replica does not see a queue as it is, or does not know who waits.
func (r *modelRig) replicasDiffer(view map[string][]standing) string {
	for at, s := range r.stores {
		if s == nil {
			continue
		}
		reg := s.registration()
		if reg == nil {
			return fmt.Sprintf("replica %d is not registered", at)
		}
		for _, name := range slices.Sorted(maps.Keys(r.world.queues)) {
			if fault := r.lineDiffers(reg, at, name, view[name]); fault != "" {
				return fault
			}
		}
	}
	return ""
}

func (r *modelRig) lineDiffers(reg *registration, at int, name string, want []standing) string {
	reg.mu.Lock()
	l := reg.lines[name]
	reg.mu.Unlock()
	attached := map[int]int{}
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		same := l.whole && slices.EqualFunc(l.view.order, want, func(a *standing, b standing) bool {
			return a.key == b.key && a.created == b.created && a.modified == b.modified && a.Held == b.Held
		})
		if !same {
			return fmt.Sprintf("replica %d does not see the queue of %q as it is", at, name)
		}
		for _, p := range l.places {
			attached[r.numbers[p.st.id()]] += p.attached
		}
	}
	for _, c := range r.world.queues[name] {
		waits := 0
		for _, wait := range c.waits {
			if wait.at == at {
				waits++
			}
		}
		if attached[c.no] != waits {
			return fmt.Sprintf("%d wait for claim %d at replica %d, want %d", attached[c.no], c.no, at, waits)
		}
	}
	return ""
}
