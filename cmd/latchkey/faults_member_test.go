package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store/etcdtest"
)

// orderBound is how long a member may take for an order.
const orderBound = 3 * time.Second

func (w *world) order(do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), orderBound)
	defer cancel()
	if err := do(ctx); err != nil {
		w.t.Logf("an order to etcd failed: %v", err)
	}
}

func leaderFails(w *world) (string, func()) {
	leader := w.etcd.Leader()
	switch w.rng.IntN(3) {
	case 0:
		w.etcd.Kill(leader)
		return "leader killed", func() { w.etcd.Restart(leader) }
	case 1:
		w.etcd.Pause(leader)
		return "leader paused", func() { w.etcd.Resume(leader) }
	}
	moves := 0
	end := w.every(time.Second, func() { w.order(w.moveLeader); moves++ })
	return "leader moved again and again", end
}

// moveLeader makes the next member lead.
func (w *world) moveLeader(ctx context.Context) error {
	var ids [members]uint64
	leader := -1
	for m, c := range w.members {
		status, err := c.Status(ctx, w.etcd.Endpoint(m))
		if err != nil {
			return err
		}
		ids[m] = status.Header.MemberId
		if status.Leader == status.Header.MemberId {
			leader = m
		}
	}
	if leader < 0 {
		return fmt.Errorf("nobody leads")
	}
	_, err := w.members[leader].MoveLeader(ctx, ids[(leader+1)%members])
	return err
}

func quorumLost(w *world) (string, func()) {
	leader := w.etcd.Leader()
	dead := []int{leader, (leader + 1) % members}
	for _, m := range dead {
		w.etcd.Kill(m)
	}
	return "leader and another member killed", func() {
		for _, m := range dead {
			w.etcd.Restart(m)
		}
	}
}

func membersRestarted(w *world) (string, func()) {
	for m := range members {
		w.etcd.Kill(m)
		w.etcd.Restart(m)
		w.settled()
	}
	return "each member killed and started", func() {}
}

// replicaPinned leaves a replica one member, which then stops. Another way to etcd is there again before the member is.
func replicaPinned(w *world) (string, func()) {
	r, m := w.rng.IntN(replicas), w.rng.IntN(members)
	if *faultsDuration > 0 && w.alone && choose(w, true, false) {
		leaderWakes(w.t, w.service)
		return "a replica had the leader alone, which was paused until its locks had run out", func() {}
	}
	for other, p := range w.lines[r] {
		if other != m {
			p.Cut()
		}
	}
	w.etcd.Pause(m)
	return fmt.Sprintf("replica %d had member %d alone, which was paused", r, m), func() {
		w.eachLine(r, (*etcdtest.Proxy).Heal)
		c := patient()
		defer c.http.CloseIdleConnections()
		eventually(w.t, recoveryBound+slack, "a replica goes on at another member when its own does not answer", func() bool {
			return w.isAway(r) || w.ready(c, r)
		})
		w.etcd.Resume(m)
	}
}

const compactEvery = 100 * time.Millisecond

// compactions compacts what the history has read, which is nearly all, and defragments the members in turn.
func compactions(w *world) (string, func()) {
	n := 0
	end := w.every(compactEvery, func() {
		w.order(func(ctx context.Context) error {
			_, err := w.etcdSaid.client.Compact(ctx, w.etcdSaid.read())
			if err != nil && ctx.Err() == nil {
				return nil // nothing new to compact
			}
			return err
		})
		if n++; n%8 == 4 {
			m := n / 8 % members
			w.order(func(ctx context.Context) error {
				_, err := w.members[m].Defragment(ctx, w.etcd.Endpoint(m))
				return err
			})
		}
	})
	return "compaction all the time, defragmentation of each member in turn", end
}

// noSpace raises the alarm that a full etcd raises. Meanwhile what is held can be renewed and released.
func noSpace(w *world) (string, func()) {
	c := patient()
	defer c.http.CloseIdleConnections()
	at := func() string { return w.replicas[w.rng.IntN(replicas)].url() }
	wants := func(promise string, a answer, status int) {
		if w.alone && a.status != status {
			w.t.Errorf("%s, but the answer is %v", promise, a)
		}
	}
	held := c.claim(at(), "", api.LockRequest{Name: fmt.Sprintf("%03d no space", w.tries), TTLSeconds: actorLongTTL})
	wants("a free lock is granted", held, http.StatusCreated)
	w.order(func(ctx context.Context) error { return w.alarm(ctx, pb.AlarmRequest_ACTIVATE) })
	if held.held() {
		wants("a full etcd keeps nobody from renewing", c.renew(at(), held.lock.ID), http.StatusOK)
	}
	wants("a full etcd takes no claim, and that is 503", c.claim(at(), "", api.LockRequest{
		Name: fmt.Sprintf("%03d no space for this", w.tries), TTLSeconds: actorTTL,
	}), http.StatusServiceUnavailable)
	if held.held() {
		wants("a full etcd keeps nobody from releasing", c.release(at(), held.lock.ID), http.StatusNoContent)
	}
	return "alarm for no space", func() {
		eventually(w.t, bound, "an alarm of etcd can be ended", func() bool {
			ctx, cancel := context.WithTimeout(w.t.Context(), orderBound)
			defer cancel()
			return w.alarm(ctx, pb.AlarmRequest_DEACTIVATE) == nil
		})
	}
}

// alarm raises the alarm for no space, or ends it.
func (w *world) alarm(ctx context.Context, action pb.AlarmRequest_AlarmAction) error {
	status, err := w.members[0].Status(ctx, w.etcd.Endpoint(0))
	if err != nil {
		return err
	}
	_, err = pb.NewMaintenanceClient(w.members[0].ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
		Action: action, MemberID: status.Header.MemberId, Alarm: pb.AlarmType_NOSPACE,
	})
	return err
}
