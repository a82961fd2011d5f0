package store

import (
	"context"
	"errors"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// witness is the key whose standing shows that an etcd lease stands: a held claim, or a client's lease record.
type witness struct {
	key    string
	id     string
	lock   *standing    // or
	record *leaseRecord // one of the two
	// until is up to when its etcd lease is known to last; zero if that is not known.
	until time.Time
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
	return Lease{ID: l.ID, TTL: l.TTL, Holder: l.Holder, Metadata: l.Metadata, HoldEnds: l.HoldEnds, Token: l.Token}
}

func (w witness) ttl() time.Duration {
	if w.lock != nil {
		return w.lock.ttl()
	}
	return w.record.ttl()
}

// witness finds the lease that a public id names: a client's, or that of a held lock which has its own. ErrLockQueued
// for a lock that is not held yet, ErrOnLease for one on a client's lease, else ErrNoLease.
func (s *Store) witness(ctx context.Context, id string) (witness, error) {
	if lock, ok := s.openID(ctx, id); ok {
		return s.lockWitness(ctx, id, lock)
	}
	key, ok := s.keys.ids.openLease(id, ownerOf(ctx))
	if !ok {
		return witness{}, ErrNoLease
	}
	record, err := s.readLease(ctx, key)
	if err != nil {
		return witness{}, err
	}
	w := witness{key: s.keys.leaseOf(key), id: id, record: record}
	return w, w.owned(ctx)
}

func (s *Store) lockWitness(ctx context.Context, id string, want lockID) (witness, error) {
	key := s.keys.claim(want.name, want.nonce)
	got, _, err := s.readKey(ctx, key)
	if err != nil {
		return witness{}, err
	}
	st, err := s.found(got, want)
	switch {
	case errors.Is(err, ErrNoLock):
		return witness{}, ErrNoLease
	case err != nil:
		return witness{}, err
	case !st.Held:
		return witness{}, ErrLockQueued
	case st.ClientLease != "":
		return witness{}, ErrOnLease
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

// stands reports whether what was read under the witness's key is still it.
func (w witness) stands(found *pb.RangeResponse) bool {
	if len(found.Kvs) == 0 {
		return false
	}
	return w.lock == nil || found.Kvs[0].CreateRevision == w.lock.created
}

// moved reports whether what was read under the key of a witness that stands was written again: it is on another etcd
// lease than was known. (Of a key without its value etcd does not tell the lease.)
func (w witness) moved(found *pb.RangeResponse) bool { return found.Kvs[0].ModRevision != w.modified() }

// modified is the revision at which the witness was last written, as far as is known.
func (w witness) modified() int64 {
	if w.lock != nil {
		return w.lock.modified
	}
	return w.record.modified
}

// unfinished reports that the witness is a client's lease of which not all was moved.
func (w witness) unfinished() bool { return w.record != nil && w.record.Was != 0 }

// remember keeps a witness for the next renewal.
func (s *Store) remember(w witness) {
	if r := s.registration(); r != nil {
		r.witnesses.put(w)
	}
}

func (s *Store) remembered(id string) (witness, bool) {
	if r := s.registration(); r != nil {
		return r.witnesses.get(id)
	}
	return witness{}, false
}

// knownUntil is up to when the etcd lease of a client's lease is known to last; zero if that is not known.
func (s *Store) knownUntil(id string) time.Time {
	if r := s.registration(); r != nil {
		return r.witnesses.until(id)
	}
	return time.Time{}
}

// forget drops a witness that stands no more, or not as it was.
func (s *Store) forget(id string) {
	if r := s.registration(); r != nil {
		r.witnesses.drop(id)
	}
}

// witnesses remembers what stood for the public ids that were renewed or granted here lately, so that a renewal needs
// no read before it: a held claim and a lease's record are written again only to be moved to another etcd lease. Whether
// it stands still, and where, the proof that follows each renewal tells.
type witnesses struct {
	mu         sync.Mutex
	young, old map[string]*witness
}

// maxWitnesses is how many are remembered at the least once there are so many, and half of what they are at the most.
const maxWitnesses = 16_384

func (w *witnesses) get(id string) (witness, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.find(id); k != nil {
		return *k, true
	}
	return witness{}, false
}

// until is up to when the etcd lease of a witness is known to last; zero if that is not known.
func (w *witnesses) until(id string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.find(id); k != nil {
		return k.until
	}
	return time.Time{}
}

// find makes what it finds young again. w.mu is held.
func (w *witnesses) find(id string) *witness {
	if k := w.young[id]; k != nil {
		return k
	}
	k := w.old[id]
	if k != nil {
		w.keep(id, k)
	}
	return k
}

func (w *witnesses) keep(id string, k *witness) {
	if len(w.young) >= maxWitnesses || w.young == nil {
		w.old, w.young = w.young, make(map[string]*witness)
	}
	w.young[id] = k
}

// put remembers a witness.
func (w *witnesses) put(found witness) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.find(found.id)
	switch {
	case k == nil:
	case found.modified() < k.modified():
		return // what is known is newer
	case found.modified() == k.modified():
		if found.until.After(k.until) {
			k.until = found.until
		}
		return
	}
	w.keep(found.id, &found)
}

// extend notes until when the etcd lease of a witness lasts, if it is remembered.
func (w *witnesses) extend(id string, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.find(id); k != nil && until.After(k.until) {
		k.until = until
	}
}

// drop forgets one, and returns what was known of it.
func (w *witnesses) drop(id string) (known witness) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range []map[string]*witness{w.young, w.old} {
		if k := m[id]; k != nil {
			known = *k
			delete(m, id)
		}
	}
	return known
}
