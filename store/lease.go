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
	TTLSeconds int64             `json:"ttl"`
	Holder     string            `json:"holder,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Lease      clientv3.LeaseID  `json:"lease"`
}

func (l leaseRecord) ttl() time.Duration { return time.Duration(l.TTLSeconds) * time.Second }

func (l leaseRecord) lease(id string) Lease {
	return Lease{ID: id, TTL: l.ttl(), Holder: l.Holder, Metadata: l.Metadata}
}

// readLease reads a client's lease by its public id. ErrNoLease if there is none.
func (s *Store) readLease(ctx context.Context, id string) (*leaseRecord, error) {
	n, ok := parseNonce(id)
	if !ok {
		return nil, ErrNoLease
	}
	got, _, err := s.readKey(ctx, s.keys.leaseOf(n.text()))
	if err != nil {
		return nil, err
	}
	return recordIn(got)
}

func recordIn(found *pb.RangeResponse) (*leaseRecord, error) {
	if len(found.Kvs) == 0 {
		return nil, ErrNoLease
	}
	var l leaseRecord
	return &l, decodeValue(found.Kvs[0].Value, &l)
}

// knownLease is a client's lease as it was remembered, or read: its record is never written again.
func (s *Store) knownLease(ctx context.Context, id string) (*leaseRecord, error) {
	if w, ok := s.remembered(id); ok && w.record != nil {
		return w.record, nil
	}
	record, err := s.readLease(ctx, id)
	if err == nil {
		s.remember(witness{key: s.keys.leaseOf(id), id: id, record: record})
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
		etcdLease := newHoldLease() // never one of the pool: a public id names this one until it ends
		hold, err := s.grantLease(bound, etcdLease, l.TTL)
		if err != nil {
			return Lease{}, err
		}
		record := leaseRecord{int64(hold.ttl / time.Second), l.Holder, l.Metadata, etcdLease}
		id, err := s.putLease(bound, record)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound) && bound.Err() == nil:
			continue // it ran out before it was used
		case err != nil:
			if !errors.Is(err, ErrUnknown) {
				s.tidy.revoke(etcdLease)
			}
			return Lease{}, unavailableUnlessOurs(err)
		}
		s.remember(witness{key: s.keys.leaseOf(id), id: id, record: &record, until: hold.sent.Add(hold.ttl)})
		if time.Since(hold.sent) > hold.ttl/3 {
			return s.Renew(ctx, id, time.Now())
		}
		return record.lease(id), nil
	}
}

func (s *Store) putLease(ctx context.Context, l leaseRecord) (id string, err error) {
	id = newNonce().text()
	key := s.keys.leaseOf(id)
	_, err = s.commit(ctx, nil, func(*registration, bool) (part, error) {
		return part{ // if it stands already, an attempt that went unanswered has put it
			subject: key,
			creates: key,
			cmps:    []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
			then:    []clientv3.Op{clientv3.OpPut(key, encodeValue(l), clientv3.WithLease(l.Lease))},
		}, nil
	})
	return id, err
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
		return Lease{}, err
	}
	l := w.lease()
	ttl, err := s.timeToLive(bound, w.etcdLease())
	if err != nil {
		return Lease{}, err
	}
	l.Left = min(max(time.Duration(ttl.TTL)*time.Second, 0), l.TTL)
	l.Locks, err = s.heldOn(bound, w, ttl.Keys)
	return l, err
}

// timeToLive asks etcd for what is left of a lease and for the keys on it.
func (s *Store) timeToLive(ctx context.Context, id clientv3.LeaseID) (*pb.LeaseTimeToLiveResponse, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		try, cancel := context.WithTimeout(ctx, s.perTry())
		resp, err := s.leases().LeaseTimeToLive(try, &pb.LeaseTimeToLiveRequest{ID: int64(id), Keys: true})
		cancel()
		err = rpctypes.Error(err)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound), err == nil && resp.TTL < 0:
			return nil, ErrNoLease
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
		return err
	}
	if w.lock != nil {
		err := s.release(bound, w.lock.lockID())
		if errors.Is(err, ErrNoLock) {
			err = ErrNoLease
		}
		return err
	}
	return s.revoke(bound, w.etcdLease())
}

// revoke ends a client's lease, with all that is on it, in one step of etcd's. It needs no fence: the id is used once.
func (s *Store) revoke(ctx context.Context, id clientv3.LeaseID) error {
	again := false
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		try, cancel := context.WithTimeout(ctx, s.perTry())
		_, err := s.leases().LeaseRevoke(try, &pb.LeaseRevokeRequest{ID: int64(id)})
		cancel()
		err = rpctypes.Error(err)
		switch {
		case err == nil, errors.Is(err, rpctypes.ErrLeaseNotFound) && again:
			return nil
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return ErrNoLease
		case certain(err):
			return unavailable(err)
		case ctx.Err() != nil:
			return unknown(err)
		}
		s.metrics.failed(err)
		again = true
		sleep(ctx, pause)
	}
}
