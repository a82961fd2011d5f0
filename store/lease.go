package store

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// leaseRecord is the value of a client's lease. Its key is on the etcd lease that it names, so both end together.
type leaseRecord struct {
	// modified is the revision of the key.
	modified int64

	TTLSeconds int64             `json:"ttl"`
	Holder     string            `json:"holder,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	// Owner is the principal whose it is; "" without authentication.
	Owner string           `json:"owner,omitempty"`
	Lease clientv3.LeaseID `json:"lease"`
	// Was is the etcd lease that it was on before, as long as claims of it may be there still: see movelease.go.
	Was clientv3.LeaseID `json:"was,omitempty"`
	holdEnd
}

// stands compares that the record is as it was last seen.
func (l leaseRecord) stands(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", l.modified)
}

func (l leaseRecord) ttl() time.Duration { return time.Duration(l.TTLSeconds) * time.Second }

func (l leaseRecord) lease(id string) Lease {
	return Lease{ID: id, TTL: l.ttl(), Holder: l.Holder, Metadata: l.Metadata, HoldEnds: l.ends()}
}

// readLease reads the record of a client's lease. ErrNoLease if there is none.
func (s *Store) readLease(ctx context.Context, key string) (*leaseRecord, error) {
	got, _, err := s.readKey(ctx, s.keys.leaseOf(key))
	if err != nil {
		return nil, err
	}
	return recordIn(got)
}

func recordIn(found *pb.RangeResponse) (*leaseRecord, error) {
	if len(found.Kvs) == 0 {
		return nil, ErrNoLease
	}
	l := leaseRecord{modified: found.Kvs[0].ModRevision}
	return &l, decodeValue(found.Kvs[0].Value, &l)
}

// knownLease is a client's lease as it was remembered by its id, or read.
func (s *Store) knownLease(ctx context.Context, id, key string) (*leaseRecord, error) {
	if w, ok := s.remembered(id); ok && w.record != nil {
		return w.record, nil
	}
	record, err := s.readLease(ctx, key)
	if err == nil {
		s.remember(witness{key: s.keys.leaseOf(key), id: id, record: record})
	}
	return record, err
}

// NewLease begins a lease of a client's own, to hold many locks on one heartbeat. It fails with an *InputError,
// ErrUnavailable or ErrUnknown; a lease that nobody was told of runs out.
func (s *Store) NewLease(ctx context.Context, l Lease, arrived time.Time) (Lease, error) {
	if err := s.checkTTL(l.TTL); err != nil {
		return Lease{}, err
	}
	if err := checkShown(l.Holder, l.Metadata); err != nil {
		return Lease{}, err
	}
	bound, cancel := s.bounded(ctx, arrived)
	defer cancel()
	for {
		hold, err := s.beginLease(bound, holdLease, l.TTL) // never one of the pool: etcd has all that is on it by its id
		if err != nil {
			return Lease{}, err
		}
		record := leaseRecord{
			TTLSeconds: int64(hold.ttl / time.Second), Holder: l.Holder, Metadata: l.Metadata,
			Owner: ownerOf(ctx), Lease: hold.id, holdEnd: s.cfg.newHold(),
		}
		called := s.newLeaseKey()
		id, key := s.keys.ids.leaseID(called, record.Owner), s.keys.leaseOf(called)
		term, err := s.putLease(bound, key, &record)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound) && bound.Err() == nil:
			continue // it ran out before it was used
		case err != nil:
			if !errors.Is(err, ErrUnknown) {
				s.tidy.revoke(hold.id)
			}
			return Lease{}, unavailableUnlessOurs(err)
		}
		if record.modified > 0 {
			s.remember(witness{key: key, id: id, record: &record, until: hold.sent.Add(hold.ttl)})
		}
		if time.Since(hold.sent) > hold.ttl/3 || !begunIn(hold.id, term) {
			return s.Renew(ctx, id, time.Now())
		}
		return record.lease(id), nil
	}
}

// newLeaseKey is what the key of a new lease is called. While a replica of a build before is there, which would know no
// other, its id has no seal.
func (s *Store) newLeaseKey() string {
	called := newNonce().text()
	if s.unsealed.Load() {
		return called
	}
	return sealedLease + called
}

// putLease puts the record of a new lease under its key, and returns the term of the answer.
func (s *Store) putLease(ctx context.Context, key string, l *leaseRecord) (term uint64, err error) {
	a, err := s.commit(ctx, nil, func(*registration, bool) (part, error) {
		return part{ // if it stands already, an attempt that went unanswered has put it
			subject: key,
			creates: key,
			cmps:    []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
			then:    []clientv3.Op{clientv3.OpPut(key, encodeValue(*l), clientv3.WithLease(l.Lease))},
		}, nil
	})
	if err == nil && a.ok {
		l.modified = a.revision
	}
	return a.term, err
}

// GetLease shows a lease with the TTL that is left of it and the locks held on it. It renews nothing.
func (s *Store) GetLease(ctx context.Context, id string) (Lease, error) {
	bound, cancel := s.bounded(ctx, time.Now())
	defer cancel()
	w, err := s.witness(bound, id)
	if errors.Is(err, ErrLockQueued) {
		err = ErrNoLease
	}
	if err != nil {
		return Lease{}, s.toldIfBroken(bound, id, err)
	}
	l, err := s.look(bound, w)
	return l, s.toldIfBroken(bound, id, err)
}

// look shows what a witness says with what etcd says of its etcd lease. What is moved meanwhile is looked at again.
func (s *Store) look(ctx context.Context, w witness) (Lease, error) {
	for {
		var onLease [][]byte
		if w.unfinished() { // first what is left of before: what is moved now can be seen twice, but not missed
			was, err := s.left(ctx, w.record.Was)
			if err != nil {
				return Lease{}, err
			}
			onLease = was.Keys
		}
		now, err := s.left(ctx, w.etcdLease())
		if err != nil {
			return Lease{}, err
		}
		if before := w.modified(); now.TTL < 0 || !begunIn(w.etcdLease(), now.Header.GetRaftTerm()) {
			switch err := s.lookAgain(ctx, &w); {
			case err != nil:
				return Lease{}, err
			case w.modified() != before:
				continue
			case now.TTL < 0:
				return Lease{}, ErrNoLease
			}
		}
		l := w.lease()
		l.Left = min(max(time.Duration(now.TTL)*time.Second, 0), l.TTL)
		l.Locks, err = s.heldOn(ctx, w, append(onLease, now.Keys...))
		return l, err
	}
}

// left asks etcd for what is left of a lease, less than nothing if it has ended, and for the keys on it.
func (s *Store) left(ctx context.Context, id clientv3.LeaseID) (*pb.LeaseTimeToLiveResponse, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		try, cancel := context.WithTimeout(ctx, s.perTry())
		resp, err := s.leases().LeaseTimeToLive(try, &pb.LeaseTimeToLiveRequest{ID: int64(id), Keys: true})
		cancel()
		err = rpctypes.Error(err)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return &pb.LeaseTimeToLiveResponse{ID: int64(id), TTL: -1}, nil
		case err == nil:
			return resp, nil
		case ctx.Err() != nil || certain(err):
			return nil, unavailable(err)
		}
		s.metrics.failed(err)
		sleep(ctx, pause)
	}
}

// readsAtOnce is how many keys are read by one transaction: etcd takes 128 operations.
const readsAtOnce = 120

// heldOn reads the locks among the keys on a lease.
func (s *Store) heldOn(ctx context.Context, w witness, onLease [][]byte) ([]Lock, error) {
	if w.lock != nil {
		return []Lock{w.lock.lock()}, nil
	}
	var ops []clientv3.Op
	for _, key := range onLease {
		if string(key) != w.key {
			ops = append(ops, clientv3.OpGet(string(key)))
		}
	}
	view := newQueue(nil, 0) // by create-revision, over all names: oldest first
	for len(ops) > 0 {
		n := min(len(ops), readsAtOnce)
		got, err := s.read(ctx, ops[:n]...)
		if err != nil {
			return nil, err
		}
		ops = ops[n:]
		for _, found := range got.ranges {
			for _, kv := range found.Kvs {
				st, err := s.keys.standing(kv)
				if err != nil {
					return nil, err
				}
				view.put(st)
			}
		}
	}
	locks := make([]Lock, 0, len(view.order))
	for _, st := range view.order {
		locks = append(locks, st.lock())
	}
	return locks, nil
}

// EndLease ends a lease: every lock on it is free at once and every wait on it ends. With a held lock's id it is a
// release. It fails with ErrNoLease, ErrUnavailable, or ErrUnknown.
func (s *Store) EndLease(ctx context.Context, id string) error {
	bound, cancel := s.bounded(ctx, time.Now())
	defer cancel()
	w, err := s.witness(bound, id)
	if errors.Is(err, ErrLockQueued) {
		err = ErrNoLease
	}
	if err != nil {
		return s.toldIfBroken(bound, id, err)
	}
	if w.lock != nil {
		err := s.release(bound, w.lock.lockID())
		if errors.Is(err, ErrNoLock) {
			err = ErrNoLease
		}
		return s.toldIfBroken(bound, id, err)
	}
	return s.endRecord(bound, w)
}

// endRecord ends a client's lease with all that is on it. One that was begun in an earlier term can be moved meanwhile.
func (s *Store) endRecord(ctx context.Context, w witness) error {
	begun, ended := false, false
	for {
		if w.record.Was != 0 {
			if _, err := s.revoke(ctx, w.record.Was); err != nil && !errors.Is(err, ErrNoLease) {
				return err
			} else if err == nil {
				begun = true
			}
		}
		term, err := s.revoke(ctx, w.record.Lease)
		switch {
		case err != nil && !errors.Is(err, ErrNoLease) && begun:
			return unknown(err)
		case err != nil && !errors.Is(err, ErrNoLease):
			return err
		}
		ended = ended || err == nil
		if err == nil && begunIn(w.record.Lease, term) {
			return nil
		}
		switch err := s.lookAgain(ctx, &w); {
		case errors.Is(err, ErrNoLease) && (ended || begun):
			return nil
		case err != nil:
			return err
		}
	}
}

// revoke ends an etcd lease, with all that is on it, in one step of etcd's. It needs no fence: the id is used once. It
// returns the term of the answer; zero if an earlier attempt than the one answered has done it.
func (s *Store) revoke(ctx context.Context, id clientv3.LeaseID) (term uint64, err error) {
	again := false
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		try, cancel := context.WithTimeout(ctx, s.perTry())
		resp, err := s.leases().LeaseRevoke(try, &pb.LeaseRevokeRequest{ID: int64(id)})
		cancel()
		err = rpctypes.Error(err)
		switch {
		case err == nil:
			return resp.Header.GetRaftTerm(), nil
		case errors.Is(err, rpctypes.ErrLeaseNotFound) && again:
			return 0, nil
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return 0, ErrNoLease
		case certain(err) && again:
			return 0, unknown(err)
		case certain(err):
			return 0, unavailable(err)
		case ctx.Err() != nil:
			return 0, unknown(err)
		}
		s.metrics.failed(err)
		again = true
		sleep(ctx, pause)
	}
}
