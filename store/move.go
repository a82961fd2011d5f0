package store

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// What is held on an etcd lease that was begun in an earlier term is moved to a new one before its renewal is told: see
// term.go. It keeps its create-revision, and with it place and token. It happens once after each change of etcd's
// leader, and the beginning of the new lease is itself the renewal.

// errUnproven: a renewal is not known to count. It is to be tried again.
var errUnproven = errors.New("the renewal is not proven yet")

// fresh reports that an etcd lease was begun in the last term seen.
func (s *Store) fresh(id clientv3.LeaseID) bool { return begunIn(id, s.terms.last.Load()) }

// move moves what is on the etcd lease of w, and returns when the new lease was begun. errUnproven if somebody else was
// faster, or the term is another by now; ErrNoLease if the witness is gone.
func (s *Store) move(ctx context.Context, w *witness) (time.Time, error) {
	if w.record != nil {
		return time.Time{}, s.moveRecord(ctx, w)
	}
	before := w.lock.modified
	if err := s.lookAgain(ctx, w); err != nil {
		return time.Time{}, err
	} else if w.lock.modified != before && s.fresh(w.lock.Lease) {
		return time.Time{}, errUnproven // another replica was faster
	}
	g, err := s.beginLease(ctx, holdLease, w.lock.ttl())
	if err != nil {
		return time.Time{}, err
	}
	was := w.lock.Lease
	st, term, err := s.moveClaim(ctx, *w.lock, g.id)
	if err != nil {
		if !errors.Is(err, ErrUnknown) {
			s.tidy.revoke(g.id)
		}
		if errors.Is(err, errMoved) {
			w.lock = &st
		}
		return time.Time{}, unmoved(err)
	}
	s.tidy.revoke(was)
	w.lock, w.until = &st, g.sent.Add(g.ttl)
	if !begunIn(g.id, term) {
		return time.Time{}, errUnproven
	}
	return g.sent, nil
}

// unmoved sorts why something could not be moved.
func unmoved(err error) error {
	switch {
	case errors.Is(err, ErrNoLock):
		return ErrNoLease
	case errors.Is(err, errMoved), errors.Is(err, rpctypes.ErrLeaseNotFound):
		return errUnproven
	}
	return unavailableUnlessOurs(err)
}

// moveClaim is one transaction: if the held claim is as it was last seen, put it again, on another etcd lease. It returns
// the claim as it then stands, and the term of the answer. errMoved with the claim if it was not as last seen; ErrNoLock
// if it is gone.
func (s *Store) moveClaim(ctx context.Context, st standing, to clientv3.LeaseID) (standing, uint64, error) {
	moved := st
	moved.Lease = to
	a, err := s.commit(ctx, nil, func(*registration, bool) (part, error) {
		return part{
			subject: s.keys.queue(st.name),
			touches: []string{st.key},
			cmps:    []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(st.key), "=", st.modified)},
			then:    []clientv3.Op{clientv3.OpPut(st.key, moved.encode(), clientv3.WithLease(to))},
			els:     []clientv3.Op{clientv3.OpGet(st.key)},
		}, nil
	})
	if err != nil {
		return standing{}, 0, err
	}
	if a.ok {
		moved.modified, moved.onLease = a.revision, to
		s.metrics.moved.Inc()
		return moved, a.term, nil
	}
	now, err := a.reg.stands(st, a.ops[0].GetResponseRange())
	if err == nil && now.onLease != to { // else an attempt that went unanswered has done it
		err = errMoved
	}
	return now, a.term, err
}

// lookAgain reads the witness as it stands on another etcd lease than it was known to be on.
func (s *Store) lookAgain(ctx context.Context, w *witness) error {
	got, _, err := s.readKey(ctx, w.key)
	switch {
	case err != nil:
		return unknown(err)
	case !w.stands(got):
		return ErrNoLease
	case w.lock == nil:
		w.record, err = recordIn(got)
		return err
	}
	st, err := s.keys.standing(got.Kvs[0])
	w.lock = &st
	return err
}
