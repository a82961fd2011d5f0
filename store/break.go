package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// BrokenError reports that an administrator took the lock away.
type BrokenError struct{ Reason string }

func (*BrokenError) Error() string { return "the lock was broken" }

// Breaking is what is to be said of it.
type Breaking struct {
	// Reason is told to whoever had the lock.
	Reason string
	// By is the principal that breaks it.
	By string
}

// brokenFor is how long it is told that a lock was broken.
const brokenFor = 24 * time.Hour

// Break takes a claim away from whoever has it, if may allows that for its name, and returns it as it stood. The one that
// had it is told so by a *BrokenError when it comes back. It fails with ErrNoLock if there is nothing to break,
// ErrUnavailable if nothing was done, ErrUnknown if that cannot be said.
func (s *Store) Break(ctx context.Context, id string, b Breaking, may func(name string) bool) (Lock, error) {
	want, ok := parseLockID(id)
	if !ok || !may(want.name) {
		return Lock{}, ErrNoLock
	}
	bound, cancel := s.bounded(ctx, time.Now())
	defer cancel()
	got, _, err := s.readKey(bound, s.keys.claim(want.name, want.nonce))
	if err != nil {
		return Lock{}, err
	}
	st, err := s.found(got, want)
	if err != nil {
		return Lock{}, err
	}
	if _, ok := s.keys.ids.open(id, st.Owner); !ok {
		return Lock{}, ErrNoLock
	}
	was, err := s.breakNow(bound, want, b)
	if was == nil {
		was = &st // as it was last seen
	}
	return was.lock(), err
}

// Another reports whether an id is that of a claim which stands and is not the asking principal's own.
func (s *Store) Another(ctx context.Context, id string) (bool, error) {
	want, ok := parseLockID(id)
	if !ok {
		return false, nil
	}
	bound, cancel := s.bounded(ctx, time.Now())
	defer cancel()
	got, _, err := s.readKey(bound, s.keys.claim(want.name, want.nonce))
	if err != nil {
		return false, err
	}
	st, err := s.found(got, want)
	if errors.Is(err, ErrNoLock) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	_, genuine := s.keys.ids.open(id, st.Owner)
	return genuine && st.Owner != ownerOf(ctx), nil
}

// breakNow removes the claim and leaves word of that, in one transaction. A full etcd takes nothing, but lets go.
func (s *Store) breakNow(ctx context.Context, want lockID, b Breaking) (*standing, error) {
	for {
		id, err := s.words.lease(ctx, s)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return s.takeAway(ctx, want)
		} else if err != nil {
			return nil, err
		}
		was, err := s.takeAway(ctx, want, clientv3.OpPut(s.keys.broken(want), encodeValue(broken(b)), clientv3.WithLease(id)))
		switch {
		case errors.Is(err, rpctypes.ErrNoSpace):
			return s.takeAway(ctx, want)
		case errors.Is(err, rpctypes.ErrLeaseNotFound) && ctx.Err() == nil:
			s.words.drop(id)
			continue
		}
		return was, err
	}
}

// words is the etcd lease that word of broken claims is left on: one for many, as each lease lets all others end later after
// a change of etcd's leader.
type words struct {
	mu    sync.Mutex
	id    clientv3.LeaseID
	since time.Time
	left  int
}

const (
	wordsFor     = time.Hour // how long it takes new ones
	wordsOnOne   = 1000
	wordsLastFor = brokenFor + wordsFor
)

// lease is one that lasts for brokenFor at least.
func (w *words) lease(ctx context.Context, s *Store) (clientv3.LeaseID, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left > 0 && time.Since(w.since) < wordsFor {
		w.left--
		return w.id, nil
	}
	begun, err := s.beginLease(ctx, holdLease, wordsLastFor)
	if err != nil {
		return 0, err
	}
	w.id, w.since, w.left = begun.id, begun.sent, wordsOnOne-1
	return w.id, nil
}

// drop forgets a lease that is gone.
func (w *words) drop(id clientv3.LeaseID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id == id {
		w.left = 0
	}
}

// broken is the word that is left of a claim.
type broken struct {
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`
}

// toldIfBroken tells, of a claim that is gone, whether it was broken. It is a second read, and only for who comes too late.
func (s *Store) toldIfBroken(ctx context.Context, id string, err error) error {
	if !errors.Is(err, ErrNoLock) && !errors.Is(err, ErrNoLease) && !errors.Is(err, ErrPlaceLost) {
		return err
	}
	want, ok := s.openID(ctx, id)
	if !ok {
		return err
	}
	bound, cancel := s.bounded(ctx, time.Now())
	defer cancel()
	got, _, failed := s.readKey(bound, s.keys.broken(want))
	if failed != nil || len(got.Kvs) == 0 {
		return err
	}
	var word broken
	if decodeValue(got.Kvs[0].Value, &word) != nil {
		return err
	}
	return &BrokenError{word.Reason}
}
