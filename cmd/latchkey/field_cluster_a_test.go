package main

import (
	"context"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// scene is one thing that befell others, on a cluster.
type scene struct {
	name string
	play func(*testing.T, *service)
}

// TestFieldReportsOnACluster lets happen to three replicas on an etcd of three members what others reported of theirs.
func TestFieldReportsOnACluster(t *testing.T) {
	s := newService(t)
	allOnALease := watchForClaimsWithoutALease(t, s)
	together(t, s, []scene{
		{"the holder's own TTL decides", holdersOwnTTLDecides},
		{"a waiter whose claim vanishes is told", waiterWhoseClaimVanishesIsTold},
		{"a replica that etcd does not answer says so", replicaThatEtcdDoesNotAnswerSaysSo},
		{"waiters make no noise and leave at once", waitersMakeNoNoiseAndLeaveAtOnce},
		{"what a killed replica held runs out", whatAKilledReplicaHeldRunsOut},
		{"the dead give way together", deadGiveWayTogether},
		{"many that die at once are no hindrance", manyThatDieAtOnceAreNoHindrance},
	})
	together(t, s, []scene{
		{"renewals through a follower meet a claim", renewalsThroughAFollowerMeetAClaim},
		{"a wait that ends as its turn comes has one outcome", waitThatEndsAsItsTurnComesHasOneOutcome},
		{"a release wins over a renewal", releaseWinsOverARenewal},
		{"a repeat gains no place", repeatGainsNoPlace},
		{"a full queue refuses at once", fullQueueRefusesAtOnce},
		{"late requests are told alike and nothing of others", lateRequestsAreToldAlike},
	})
	t.Run("locks and places outlive members of etcd", func(t *testing.T) { locksAndPlacesOutliveMembers(t, s) })
	t.Run("nothing is left", func(t *testing.T) { nothingIsLeft(t, s) })
	t.Run("no claim was ever without a lease", allOnALease)
}

// together plays scenes that mostly wait, all at the same time: t.Parallel would play as many as there are processors.
func together(t *testing.T, s *service, scenes []scene) {
	var all sync.WaitGroup
	for _, sc := range scenes {
		all.Go(func() { t.Run(sc.name, func(t *testing.T) { sc.play(t, s) }) })
	}
	all.Wait()
}

// watchForClaimsWithoutALease looks on for as long as the service lasts: what is put without an etcd lease would stand for
// ever when its client and its replica die.
func watchForClaimsWithoutALease(t *testing.T, s *service) (judge func(*testing.T)) {
	t.Helper()
	etcd := s.etcd.Client(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	events := etcd.Watch(ctx, "/latchkey/", clientv3.WithPrefix(), clientv3.WithFilterDelete())
	var seen int
	var bare []string
	var ended error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for resp := range events {
			if err := resp.Err(); err != nil && ctx.Err() == nil {
				ended = err
			}
			for _, e := range resp.Events {
				key := strings.TrimPrefix(string(e.Kv.Key), "/latchkey/")
				if kind, _, _ := strings.Cut(key, "/"); kind != "locks" && kind != "leases" && kind != "replicas" {
					continue
				}
				seen++
				if e.Kv.Lease == 0 {
					bare = append(bare, key)
				}
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return func(t *testing.T) {
		stop()
		<-done
		t.Logf("%d times a claim, a lease or a replica was put", seen)
		if ended != nil || seen == 0 {
			t.Fatalf("the watch saw %d puts and ended with %v", seen, ended)
		}
		if len(bare) > 0 {
			t.Errorf("every claim, lease and replica is on an etcd lease from the first, but these were not: %q", bare)
		}
	}
}
