package store

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Renew starts the TTL of a lease again: a client's, or that of a held lock which has its own. Success means that
// nobody else has the locks on it before one TTL after this call began. It fails with ErrNoLease, ErrLockQueued,
// ErrMaxHold, a *BrokenError, ErrUnavailable or ErrUnknown.
func (s *Store) Renew(ctx context.Context, id string, arrived time.Time) (Lease, error) {
	bound, cancel := s.bounded(ctx, arrived)
	defer cancel()
	w, known := s.remembered(id)
	var err error
	if !known || w.owned(ctx) != nil { // another's is looked for as if nobody had it: else the time would tell that it stands
		w, err = s.witness(bound, id)
	}
	if err == nil {
		if _, err = s.prove(bound, &w); errors.Is(err, ErrNoLease) {
			s.forget(id)
		}
	}
	if errors.Is(err, ErrNoLease) {
		s.metrics.refused.Inc()
	}
	if err != nil {
		return Lease{}, s.toldIfBroken(bound, id, err)
	}
	return w.lease(), nil
}

// prove renews the etcd lease of w until that is proven, and returns when the renewal that counts was sent. It counts
// only when a linearizable read made after its answer shows the witness standing and bears the same raft term, which
// is also the one in which the lease was begun; what is on a lease of an earlier one is moved first.
// ErrNoLease if the witness is gone; ErrMaxHold if it is renewed no more; ErrUnknown if there is no proof in time.
func (s *Store) prove(ctx context.Context, w *witness) (time.Time, error) {
	if w.hold().over() {
		return time.Time{}, ErrMaxHold
	}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		sent, err := s.proveOnce(ctx, w)
		switch {
		case err == nil:
			if w.id != "" {
				s.remember(*w)
			}
			return sent, nil
		case errors.Is(err, ErrNoLease):
			return time.Time{}, err
		case !errors.Is(err, errUnproven):
			return time.Time{}, unknown(err)
		case ctx.Err() != nil:
			return time.Time{}, unknown(context.Cause(ctx))
		}
		sleep(ctx, pause)
	}
}

// proveOnce tries once. errUnproven if it is to be tried again.
func (s *Store) proveOnce(ctx context.Context, w *witness) (time.Time, error) {
	fresh := s.fresh(w.etcdLease())
	if !fresh && !s.stays.Load() || w.unfinished() {
		sent, err := s.move(ctx, w)
		if !errors.Is(err, rpctypes.ErrNoSpace) || w.unfinished() {
			return sent, err // else a full etcd begins no lease, and what is held stays where it is
		}
	}
	k, err := s.keepAliveBefore(ctx, w.etcdLease(), w.until)
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) && ctx.Err() != nil {
		return time.Time{}, unknown(err)
	}
	got, header, readErr := s.readKey(ctx, w.key, clientv3.WithKeysOnly())
	switch {
	case readErr != nil:
		return time.Time{}, unknown(readErr)
	case !w.stands(got):
		return time.Time{}, ErrNoLease
	case w.moved(got):
		if err := s.lookAgain(ctx, w); err != nil {
			return time.Time{}, err
		}
	case err == nil && k.term == header.RaftTerm && (begunIn(w.etcdLease(), k.term) || !fresh):
		w.until = k.sent.Add(k.ttl)
		return k.sent, nil
	}
	return time.Time{}, errUnproven
}

// confirm makes sure that a held lock may be told as held to a request that arrived then: its grant, or a proven
// renewal, was sent after that, and at most a third of the TTL ago. sent is zero if no renewal is known. ErrNoLock if
// it is gone.
func (s *Store) confirm(ctx context.Context, st *standing, sent, arrived time.Time) error {
	bound, cancel := s.bounded(ctx, time.Now())
	defer cancel()
	lock := *st
	w := witness{key: st.key, lock: &lock}
	if st.ClientLease == "" {
		w.id = st.id()
	}
	for sent.IsZero() || sent.Before(arrived) || time.Since(sent) > st.ttl()/3 {
		var err error
		if sent, err = s.proveHeld(bound, &w); errors.Is(err, ErrNoLease) {
			return ErrNoLock
		} else if errors.Is(err, ErrMaxHold) {
			return err
		} else if err != nil {
			return unknown(err)
		}
	}
	*st = *w.lock
	if w.id != "" {
		w.until = sent.Add(st.ttl())
		s.remember(w)
	}
	return nil
}

// proveHeld proves a held claim: by itself, or, on a client's lease, by that and by a look at the claim after it, as what
// is renewed is then all that is on the lease.
func (s *Store) proveHeld(ctx context.Context, w *witness) (time.Time, error) {
	key := w.lock.ClientLease
	if key == "" {
		return s.prove(ctx, w)
	}
	id := w.lock.leaseID()
	record, err := s.knownLease(ctx, id, key)
	if err != nil {
		return time.Time{}, err
	}
	lease := witness{key: s.keys.leaseOf(key), id: id, record: record, until: s.knownUntil(id)}
	sent, err := s.prove(ctx, &lease)
	if err != nil {
		return time.Time{}, err
	}
	return sent, s.lookAgain(ctx, w)
}

// keepAtLeast is how long a client's stream keeps its lease alive, at least, before it must be opened again.
const keepAtLeast = time.Minute

// Keep renews a lease every third of its TTL for as long as ctx lasts, at the longest for the TTL or a minute, and
// tells of each renewal and of each that failed. Before the first is told it fails like Renew. Then: nil when the time
// is over, ErrNoLease or a *BrokenError when the lease is gone, ErrMaxHold when it is renewed no more, ErrDraining,
// ctx's error, or tell's.
func (s *Store) Keep(ctx context.Context, id string, tell func(Kept) error) error {
	bound, cancel := s.bounded(ctx, time.Now())
	w, err := s.witness(bound, id)
	var last time.Time
	if err == nil {
		last, err = s.prove(bound, &w)
	}
	cancel()
	if errors.Is(err, ErrLockQueued) {
		err = ErrNoLease
	}
	if err != nil {
		return s.toldIfBroken(ctx, id, err)
	}
	if err := tell(Kept{Lease: w.lease(), Sent: last}); err != nil {
		return err
	}
	streaming, stop := s.waitContext(ctx, max(w.ttl(), keepAtLeast))
	defer stop()
	for pause := w.ttl() / 3; ; {
		sleep(streaming, pause)
		if cause := context.Cause(streaming); errors.Is(cause, errWaitOver) {
			return nil
		} else if cause != nil {
			return cause
		}
		w.until = last.Add(w.ttl())
		sent, err := s.keepOnce(streaming, &w)
		if errors.Is(err, ErrNoLease) || errors.Is(err, ErrMaxHold) {
			return s.toldIfBroken(ctx, id, err)
		}
		if pause = min(w.ttl()/3, time.Second); err == nil {
			pause, last = w.ttl()/3, sent
		}
		if err := tell(Kept{Lease: w.lease(), Sent: last, Err: err}); err != nil {
			return err
		}
	}
}

func (s *Store) keepOnce(ctx context.Context, w *witness) (time.Time, error) {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.cfg.RequestBound, w.ttl()/3))
	defer cancel()
	sent, err := s.prove(bound, w)
	if errors.Is(err, ErrNoLease) {
		s.metrics.refused.Inc()
	}
	return sent, err
}
