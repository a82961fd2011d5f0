package store

import (
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// elections has a cluster of one member lead in a few terms more.
func elections(t testing.TB, cluster *etcdtest.Cluster, s *Store, n int) {
	t.Helper()
	before := s.terms.last.Load()
	for range n {
		cluster.Kill(0)
		cluster.Restart(0)
		if err := cluster.WaitHealthy(ctxFor(t)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the replica sees another term", func() bool { return s.Ready() == nil && s.terms.last.Load() > before })
}

// TestWipedStoreOfALowerTermIsServed: the terms of a new store begin low, with the member's id as it was.
func TestWipedStoreOfALowerTermIsServed(t *testing.T) {
	cluster := etcdtest.NewCluster(t, 1)
	s := open(t, cluster.Client(t, nil))
	mustRelease(t, s, mustHold(t, s, Claim{Name: "before"}))
	elections(t, cluster, s, 1)
	mustHold(t, s, Claim{Name: "x"})
	cluster.Wipe()
	eventually(t, "a claim in the store that is new", func() bool {
		_, err := s.Claim(ctxFor(t), Claim{Name: "x", TTL: 30 * time.Second})
		return err == nil
	})
}

// TestAnotherStoreOfALowerTermIsServed: neither is the member known there.
func TestAnotherStoreOfALowerTermIsServed(t *testing.T) {
	one, two := etcdtest.NewCluster(t, 1), etcdtest.New(t)
	faults := etcdtest.NewFaults(t)
	client := one.Client(t, nil, faults)
	s := open(t, client)
	elections(t, one, s, 2)
	mustHold(t, s, Claim{Name: "x"})
	before := faults.Calls(etcdtest.MethodLeaseGrant)
	client.SetEndpoints(two.Endpoint())
	one.Kill(0)
	eventually(t, "a claim in the other store", func() bool {
		_, err := s.Claim(ctxFor(t), Claim{Name: "x", TTL: 30 * time.Second})
		return err == nil
	})
	const few = 50
	if n := faults.Calls(etcdtest.MethodLeaseGrant) - before; n > few {
		t.Errorf("it has begun %d etcd leases for one claim", n)
	}
}
