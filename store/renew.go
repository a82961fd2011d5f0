package store

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// witness is the key whose standing shows that an etcd lease stands: a held claim, or a client's lease record.
type witness struct {
	key    string
	id     string
	lock   *standing    // or
	record *leaseRecord // one of the two
}

func (w witness) etcdLease() clientv3.LeaseID {
	if w.lock != nil {
		return w.lock.Lease
	}
	return w.record.Lease
}

func (w witness) lease() Lease {
	if w.lock == nil {
		return w.record.lease(w.id)
	}
	l := w.lock.lock()
	return Lease{ID: l.ID, TTL: l.TTL, Holder: l.Holder, Metadata: l.Metadata, Token: l.Token}
}

func (w witness) ttl() time.Duration {
	if w.lock != nil {
		return w.lock.ttl()
	}
	return w.record.ttl()
}

// witness finds the lease that a public id names: a client's, or that of a held lock which has its own. ErrLockQueued
// for a lock that is not held yet, else ErrNoLease.
func (s *Store) witness(ctx context.Context, id string) (witness, error) {
	if lock, ok := parseLockID(id); ok {
		return s.lockWitness(ctx, id, lock)
	}
	record, err := s.readLease(ctx, id)
	if err != nil {
		return witness{}, err
	}
	return witness{key: s.keys.leaseOf(id), id: id, record: record}, nil
}

func (s *Store) lockWitness(ctx context.Context, id string, want lockID) (witness, error) {
	key := s.keys.claim(want.name, want.nonce)
	got, err := s.read(ctx, clientv3.OpGet(key))
	if err != nil {
		return witness{}, err
	}
	st, err := s.found(got.ranges[0], want)
	switch {
	case errors.Is(err, ErrNoLock):
		return witness{}, ErrNoLease
	case err != nil:
		return witness{}, err
	case !st.Held:
		return witness{}, ErrLockQueued
	case st.ClientLease != "":
		return witness{}, ErrNoLease // it has none of its own
	}
	return witness{key: key, id: id, lock: &st}, nil
}

// found is the claim that an id names, among what was found under its key. ErrNoLock if it is another or none.
func (s *Store) found(at *pb.RangeResponse, want lockID) (standing, error) {
	if len(at.Kvs) == 0 || at.Kvs[0].CreateRevision != want.revision {
		return standing{}, ErrNoLock
	}
	return s.keys.standing(at.Kvs[0])
}

// Renew starts the TTL of a lease again: a client's, or that of a held lock which has its own. Success means that
// nobody else has the locks on it before one TTL after this call began. It fails with ErrNoLease, ErrLockQueued,
// ErrUnavailable or ErrUnknown.
func (s *Store) Renew(ctx context.Context, id string, arrived time.Time) (Lease, error) {
	bound, cancel := s.bounded(ctx, arrived)
	defer cancel()
	w, err := s.witness(bound, id)
	if err == nil {
		_, err = s.prove(bound, w)
	}
	if errors.Is(err, ErrNoLease) {
		s.metrics.refused.Inc()
	}
	if err != nil {
		return Lease{}, err
	}
	return w.lease(), nil
}

// prove renews the etcd lease of w until that is proven, and returns when the renewal that counts was sent. It counts
// only when a linearizable read made after its answer shows the witness standing and bears the same raft term.
// ErrNoLease if the witness is gone; ErrUnknown if there is no proof in time.
func (s *Store) prove(ctx context.Context, w witness) (time.Time, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		k, err := s.keepAlive(ctx, w.etcdLease())
		if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) && ctx.Err() != nil {
			return time.Time{}, unknown(err)
		}
		got, readErr := s.read(ctx, clientv3.OpGet(w.key))
		switch {
		case readErr != nil:
			return time.Time{}, unknown(readErr)
		case !w.stands(got.ranges[0]):
			return time.Time{}, ErrNoLease
		case err == nil && k.term == got.header.RaftTerm:
			return k.sent, nil
		case ctx.Err() != nil:
			return time.Time{}, unknown(context.Cause(ctx))
		}
		sleep(ctx, pause)
	}
}

// stands reports whether what was read under the witness's key is still it.
func (w witness) stands(found *pb.RangeResponse) bool {
	if len(found.Kvs) == 0 {
		return false
	}
	return w.lock == nil || found.Kvs[0].CreateRevision == w.lock.created
}

// confirm makes sure that a held lock may be told as held to a request that arrived then: its grant, or a proven
// renewal, was sent after that, and at most a third of the TTL ago. sent is zero if no renewal is known. ErrNoLock if
// it is gone.
func (s *Store) confirm(ctx context.Context, st *standing, sent, arrived time.Time) error {
	bound, cancel := s.bounded(ctx, time.Now())
	defer cancel()
	for sent.IsZero() || sent.Before(arrived) || time.Since(sent) > st.ttl()/3 {
		var err error
		if sent, err = s.prove(bound, witness{key: st.key, lock: st}); errors.Is(err, ErrNoLease) {
			return ErrNoLock
		} else if err != nil {
			return err
		}
	}
	return nil
}

// keepAtLeast is how long a client's stream keeps its lease alive, at least, before it must be opened again.
const keepAtLeast = time.Minute

// Keep renews a lease every third of its TTL for as long as ctx lasts, at the longest for the TTL or a minute, and
// tells of each renewal and of each that failed. Before the first is told it fails like Renew. Then: nil when the time
// is over, ErrNoLease when the lease is gone, ErrDraining, ctx's error, or tell's.
func (s *Store) Keep(ctx context.Context, id string, tell func(Kept) error) error {
	bound, cancel := s.bounded(ctx, time.Now())
	w, err := s.witness(bound, id)
	var last time.Time
	if err == nil {
		last, err = s.prove(bound, w)
	}
	cancel()
	if errors.Is(err, ErrLockQueued) {
		err = ErrNoLease
	}
	if err != nil {
		return err
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
		sent, err := s.keepOnce(streaming, w)
		if errors.Is(err, ErrNoLease) {
			return err
		}
		if pause = min(w.ttl()/3, time.Second); err == nil {
			pause, last = w.ttl()/3, sent
		}
		if err := tell(Kept{Lease: w.lease(), Sent: last, Err: err}); err != nil {
			return err
		}
	}
}

func (s *Store) keepOnce(ctx context.Context, w witness) (time.Time, error) {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(s.cfg.RequestBound, w.ttl()/3))
	defer cancel()
	sent, err := s.prove(bound, w)
	if errors.Is(err, ErrNoLease) {
		s.metrics.refused.Inc()
	}
	return sent, err
}
