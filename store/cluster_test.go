package store

import (
	"errors"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestDeposedLeaderConfirmsNoRenewalOfWhatIsGone stops the leader for longer than a TTL and sends it renewals as it
// wakes: it answers "ok" for leases that its successor has ended.
func TestDeposedLeaderConfirmsNoRenewalOfWhatIsGone(t *testing.T) {
	cluster := etcdtest.NewCluster(t, 3)
	const locks, rounds = 20, 3
	for round := range rounds {
		leader := cluster.Leader()
		var others []string
		for i, e := range cluster.Endpoints() {
			if i != leader {
				others = append(others, e)
			}
		}
		a := open(t, cluster.Client(t, []string{cluster.Endpoint(leader)}), func(c *Config) {
			c.RequestBound, c.WaitingTTL = 20*time.Second, 60*time.Second
		})
		b := open(t, cluster.Client(t, others))
		var held []Lock
		for i := range locks {
			held = append(held, mustHold(t, a, Claim{Name: string(rune('a' + i)), TTL: 2 * time.Second}))
		}
		cluster.Pause(leader)
		renewals := make([]<-chan result, locks)
		for i, l := range held {
			renewals[i] = inBackground(func() (Lock, error) {
				_, err := a.Renew(ctxFor(t), l.ID, time.Now())
				return l, err
			})
		}
		for _, l := range held {
			eventually(t, "the lock ran out under the new leader", func() bool {
				_, err := b.Look(ctxFor(t), l.ID)
				return errors.Is(err, ErrNoLock)
			})
		}
		cluster.Resume(leader)
		for _, renewal := range renewals {
			_, err := get(t, renewal)
			wantErr(t, "a renewal that the deposed leader answers", err, ErrNoLease)
		}
		if err := cluster.WaitHealthy(ctxFor(t)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// TestRenewalOfAnEarlierTermIsNotCounted holds a member's "ok" back while the leadership moves: by then nobody knows
// whether it was the leader's word.
func TestRenewalOfAnEarlierTermIsNotCounted(t *testing.T) {
	cluster := etcdtest.NewCluster(t, 3)
	faults := etcdtest.NewFaults(t)
	a := open(t, cluster.Client(t, nil, faults), func(c *Config) { c.RequestBound, c.WaitingTTL = within, 60*time.Second })
	l := mustHold(t, a, Claim{Name: "x"})
	ok := faults.Next(etcdtest.KeepAliveReplies(nil)).HoldReply()
	renewal := inBackground(func() (Lock, error) {
		_, err := a.Renew(ctxFor(t), l.ID, time.Now())
		return l, err
	})
	ok.WaitDone(t)
	before := etcdLeaseOf(t, a, l.ID)
	cluster.Kill(cluster.Leader())
	eventually(t, "another leads", func() bool { return len(claimsOn(t, a, "x")) == 1 })
	ok.Release()
	if _, err := get(t, renewal); err != nil {
		t.Errorf("renew: %v", err)
	}
	if etcdLeaseOf(t, a, l.ID) == before { // it is moved instead to one that was begun after
		t.Error("a renewal was confirmed by an answer of the term before")
	}
}

// TestNothingLateAppliesOnceQuorumIsBack loses quorum while claims are put, and finds each of them made or not made,
// as its client was told, and none that nobody serves.
func TestNothingLateAppliesOnceQuorumIsBack(t *testing.T) {
	cluster := etcdtest.NewCluster(t, 3)
	a := open(t, cluster.Client(t, nil), func(c *Config) { c.RequestBound, c.WaitingTTL = 2*time.Second, 5*time.Second })
	b := open(t, cluster.Client(t, nil), func(c *Config) { c.WaitingTTL = 5 * time.Second })
	held := mustHold(t, b, Claim{Name: "held", TTL: 60 * time.Second})
	leader := cluster.Leader()
	down := [2]int{(leader + 1) % 3, (leader + 2) % 3}
	for _, i := range down {
		cluster.Pause(i)
	}
	try := claimInBackground(t, a, Claim{Name: "free", TTL: 60 * time.Second})
	wait := claimInBackground(t, a, Claim{Name: "held", TTL: 60 * time.Second, Wait: within})
	for what, done := range map[string]<-chan result{"try": try, "wait": wait} {
		_, err := get(t, done)
		if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrUnavailable) {
			t.Errorf("a %s without quorum: got %v", what, err)
		}
	}
	for _, i := range down {
		cluster.Resume(i)
	}
	if err := cluster.WaitHealthy(ctxFor(t)); err != nil {
		t.Fatal(err)
	}
	queuedUp(t, b, "free", 0)
	queuedUp(t, b, "held", 1)
	if _, err := b.Renew(ctxFor(t), held.ID, time.Now()); err != nil {
		t.Errorf("a hold across the loss of quorum: %v", err)
	}
	eventually(t, "the replica serves again", func() bool { return a.Ready() == nil })
	mustHold(t, a, Claim{Name: "free"})
}
