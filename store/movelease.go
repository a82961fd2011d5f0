package store

import (
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A client's lease is moved in three steps, as there can be more on it than one transaction takes: its record, which
// names the etcd lease that the rest is still on; the claims; the record again, which names no other. Whoever renews it
// meanwhile goes on with that. All that is put on a client's lease compares the revision of its record: nothing comes on
// the etcd lease that was left.

// movedAtOnce is how many claims are moved together.
const movedAtOnce = 16

// moveRecord moves a client's lease. It ends in errUnproven: the new etcd lease is then to be renewed.
func (s *Store) moveRecord(ctx context.Context, w *witness) error {
	if w.record.Was == 0 {
		if err := s.lookAgain(ctx, w); err != nil {
			return err
		}
	}
	if w.record.Was == 0 && s.fresh(w.record.Lease) {
		return errUnproven // another replica was faster
	}
	if w.record.Was == 0 {
		g, err := s.beginLease(ctx, holdLease, w.record.ttl())
		if err != nil {
			return err
		}
		next := *w.record
		next.Lease, next.Was = g.id, w.record.Lease
		if err := s.putRecord(ctx, w, next); err != nil {
			if !errors.Is(err, ErrUnknown) {
				s.tidy.revoke(g.id)
			}
			return unmoved(err)
		}
	}
	was := w.record.Was
	if err := s.moveAll(ctx, *w.record, w.key); err != nil {
		return unmoved(err)
	}
	next := *w.record
	next.Was = 0
	if err := s.putRecord(ctx, w, next); err != nil {
		return unmoved(err)
	}
	s.tidy.revoke(was)
	return errUnproven
}

// putRecord is one transaction: if the record of w is as it was last seen, put the next one, on the etcd lease that it
// names. errMoved, with the record as it stands in w, if it was not; ErrNoLock if it is gone.
func (s *Store) putRecord(ctx context.Context, w *witness, next leaseRecord) error {
	a, err := s.commit(ctx, nil, func(*registration, bool) (part, error) {
		return part{
			subject: w.key,
			touches: []string{w.key},
			cmps:    []clientv3.Cmp{w.record.stands(w.key)},
			then:    []clientv3.Op{clientv3.OpPut(w.key, encodeValue(next), clientv3.WithLease(next.Lease))},
			els:     []clientv3.Op{clientv3.OpGet(w.key)},
		}, nil
	})
	if err != nil {
		return err
	}
	if a.ok {
		next.modified = a.revision
		w.record = &next
		return nil
	}
	now, err := recordIn(a.ops[0].GetResponseRange())
	if errors.Is(err, ErrNoLease) {
		return ErrNoLock
	} else if err != nil {
		return err
	}
	w.record = now
	if now.Lease == next.Lease && now.Was == next.Was { // an attempt that went unanswered has done it
		return nil
	}
	return errMoved
}

// moveAll moves the claims that are left on the etcd lease of before, until none is: by the word of a leader that a read
// made after it shows to have led.
func (s *Store) moveAll(ctx context.Context, record leaseRecord, key string) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		for _, id := range []clientv3.LeaseID{record.Was, record.Lease} { // so that both last until it is done, in however many requests
			_, _ = s.keepAlive(ctx, id)
		}
		left, err := s.left(ctx, record.Was)
		if err != nil {
			return err
		}
		if len(left.Keys) > 0 {
			err = s.moveThese(ctx, left, record.Lease)
		} else {
			_, header, readErr := s.readKey(ctx, key, clientv3.WithKeysOnly())
			if readErr == nil && header.RaftTerm == left.Header.GetRaftTerm() {
				return nil
			}
			err = readErr
		}
		switch {
		case err != nil && !errors.Is(err, errMoved):
			return err
		case ctx.Err() != nil:
			return unavailable(context.Cause(ctx))
		}
		sleep(ctx, pause)
	}
}

// moveThese moves the claims whose keys are on an etcd lease to another.
func (s *Store) moveThese(ctx context.Context, on *pb.LeaseTimeToLiveResponse, to clientv3.LeaseID) error {
	for keys := on.Keys; len(keys) > 0; {
		n := min(len(keys), readsAtOnce)
		ops := make([]clientv3.Op, n)
		for i, key := range keys[:n] {
			ops[i] = clientv3.OpGet(string(key))
		}
		keys = keys[n:]
		got, err := s.read(ctx, ops...)
		if err != nil {
			return err
		}
		var held []standing
		for _, at := range got.ranges {
			for _, kv := range at.Kvs {
				st, err := s.keys.standing(kv)
				if err != nil {
					return err
				}
				if st.Held && int64(st.onLease) == on.ID {
					held = append(held, st)
				}
			}
		}
		if err := s.moveClaims(ctx, held, to); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) moveClaims(ctx context.Context, held []standing, to clientv3.LeaseID) error {
	errs := make([]error, len(held))
	gate := make(chan struct{}, movedAtOnce)
	var work sync.WaitGroup
	for i, st := range held {
		gate <- struct{}{}
		work.Go(func() {
			defer func() { <-gate }()
			if _, _, err := s.moveClaim(ctx, st, to); !errors.Is(err, ErrNoLock) { // released meanwhile
				errs[i] = err
			}
		})
	}
	work.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
