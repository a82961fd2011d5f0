package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// opsCompactEvery is the pause between two compactions where there are many.
const opsCompactEvery = 10 * time.Millisecond

// ballast makes a defragmentation take its time.
const ballast = 4 << 20

// upkeepAllTheTime: hand-offs go on while etcd forgets its history at once and its members write their files anew.
func upkeepAllTheTime(t *testing.T, s *service) {
	s.healthy(t)
	etcd := s.etcd.Client(t, nil)
	fill(t, s, "/ballast/", ballast)
	h := newHolders(t, s, "upkeep")
	compactions, defragmentations := 0, 0
	takeInTurnWhile(t, s, newClient(t), "in turn, kept up", ways, func() {
		ctx, stop := context.WithTimeout(t.Context(), shortOrLong(5*time.Second, time.Minute))
		defer stop()
		var work sync.WaitGroup
		work.Go(func() {
			tick := time.NewTicker(opsCompactEvery)
			defer tick.Stop()
			for range tick.C {
				now, err := etcd.Get(ctx, "/")
				if err == nil {
					_, err = etcd.Compact(ctx, now.Header.Revision)
				}
				switch {
				case ctx.Err() != nil:
					return
				case err == nil:
					compactions++
				case !errors.Is(err, rpctypes.ErrCompacted): // nothing was new
					t.Errorf("compact: %v", err)
					return
				}
			}
		})
		for i := 0; ctx.Err() == nil; i = (i + 1) % replicas {
			if err := s.etcd.Defragment(ctx, i); err == nil {
				defragmentations++
			} else if ctx.Err() == nil {
				t.Errorf("defragment member %d: %v", i, err)
				break
			}
		}
		work.Wait()
	})
	if min(compactions, defragmentations) < replicas {
		t.Errorf("%d compactions and %d defragmentations are no storm", compactions, defragmentations)
	}
	t.Logf("%d compactions, %d defragmentations", compactions, defragmentations)
	h.judge()
	empty(t, s, "/ballast/")
}

// membersAndReplicasAreReplacedInTurn is an upgrade: every member of etcd and every replica ends and comes back, one after
// the other. Holders and waiters lose nothing. In the long form the replicas are of an older program before.
func membersAndReplicasAreReplacedInTurn(t *testing.T, s *service) {
	const name = "in turn, upgraded"
	s.healthy(t)
	if *long {
		program := olderProgram(t)
		for _, r := range s.replicas {
			was := r.program
			r.stop()
			r.program = program
			r.start()
			r.program = was // from its next start on
		}
	}
	h := newHolders(t, s, "upgraded")
	waiters := newLine(t, s, h.held[0].lock.Name)
	takeInTurnWhile(t, s, h.c, name, resumable, func() {
		for i := range replicas {
			s.etcd.Kill(i)
			s.etcd.Restart(i)
			s.healthy(t)
			s.replicas[i].stop()
			s.replicas[i].start()
			s.healthy(t)
		}
	})
	waiters.keptPlaces()
	h.judge()
	waiters.served()
}

// fillerBytes is the size of one value that fills the store.
const fillerBytes = 1 << 20

// fill puts so much into etcd, or as much as it takes. It reports whether etcd was full.
func fill(t *testing.T, s *service, prefix string, most int) (full bool) {
	t.Helper()
	etcd := s.etcd.Client(t, nil)
	filler := string(bytes.Repeat([]byte("x"), fillerBytes))
	for i := range most / fillerBytes {
		_, err := etcd.Put(t.Context(), fmt.Sprintf("%s%d", prefix, i), filler)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return true
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return false
}

// empty gives the space back that fill took, and that of history. Only the member that is asked to compact waits for it: the others
// are defragmented until they have done so too.
func empty(t *testing.T, s *service, prefix string) {
	t.Helper()
	etcd := s.etcd.Client(t, nil)
	gone, err := etcd.Delete(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Compact(t.Context(), gone.Header.Revision, clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		t.Fatal(err)
	}
	for i, endpoint := range s.etcd.Endpoints() {
		eventually(t, bound, "a member has given back its space", func() bool {
			if err := s.etcd.Defragment(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			status, err := etcd.Status(t.Context(), endpoint)
			if err != nil {
				t.Fatal(err)
			}
			return status.DbSize < opsQuota/8
		})
	}
}
