package store

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Release gives back the grant, or the place in the queue, that id names, and no other: the name alone would free what
// came later. It fails with ErrNoLock if there is nothing to give back, ErrUnavailable if nothing was done, ErrUnknown
// if that cannot be said.
func (s *Store) Release(ctx context.Context, id string) error {
	want, ok := s.openID(ctx, id)
	if !ok {
		return ErrNoLock
	}
	bound, cancel := s.bounded(ctx, time.Now())
	defer cancel()
	return s.toldIfBroken(bound, id, s.release(bound, want))
}

func (s *Store) release(ctx context.Context, want lockID) error {
	_, err := s.takeAway(ctx, want)
	return err
}

// takeAway removes a claim, and does besides, in the same transaction, what else there is to do. It returns the claim as it
// was, if that can be told.
func (s *Store) takeAway(ctx context.Context, want lockID, besides ...clientv3.Op) (*standing, error) {
	h := s.heirOf(want)
	a, err := h.commit(ctx, s, want, besides)
	switch {
	case err != nil:
		return nil, unavailableUnlessOurs(err)
	case a.ok:
		s.metrics.releases.Inc()
		a.reg.goneFrom(want)
		return s.freeLease(a, want)
	case a.again:
		return nil, nil // an attempt that went unanswered has done it
	}
	return nil, ErrNoLock
}

func (r *registration) releasePart(want lockID, besides ...clientv3.Op) part {
	key := r.s.keys.claim(want.name, want.nonce)
	return part{
		subject: r.s.keys.queue(want.name),
		touches: []string{key},
		cmps:    []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", want.revision)},
		then:    append([]clientv3.Op{clientv3.OpDelete(key, clientv3.WithPrevKV())}, besides...),
	}
}

// freeLease lets the etcd lease of a deleted claim go. It is read from what was deleted: only a held claim has one of
// its own.
func (s *Store) freeLease(a answer, id lockID) (*standing, error) {
	r, deleted := a.reg, a.ops[0].GetResponseDeleteRange()
	known := r.witnesses.drop(id.String())
	if len(deleted.PrevKvs) == 0 {
		return nil, nil
	}
	st, err := s.keys.standing(deleted.PrevKvs[0])
	if err != nil {
		return nil, err
	}
	if st.Held && st.ClientLease == "" {
		idle := idleLease{id: st.Lease}
		if known.lock != nil && known.lock.Lease == st.Lease && !known.until.IsZero() {
			idle.until, idle.proven = known.until, known.until.Add(-st.ttl())
		}
		r.pool.put(st.ttl(), idle)
	}
	r.spares.put(st, a.revision)
	return &st, nil
}

// Untold says that the answer which carried this lock could not be written. It is taken back if nobody else can know
// of it; else it stands for its TTL.
func (s *Store) Untold(l Lock) {
	want, ok := s.keys.ids.open(l.ID, l.Owner)
	if !ok || !l.untold {
		return
	}
	s.background(func(ctx context.Context) error {
		if err := s.release(ctx, want); !errors.Is(err, ErrNoLock) {
			return err
		}
		return nil
	})
}

// takeBack releases a grant that nobody was told of and nobody can ask for.
func (s *Store) takeBack(st standing) {
	s.metrics.takenBack.Inc()
	s.background(func(ctx context.Context) error {
		if err := s.release(ctx, st.lockID()); !errors.Is(err, ErrNoLock) {
			return err
		}
		return nil
	})
}

// background runs do until it succeeds, the store closes, or what it is about has surely run out.
func (s *Store) background(do func(context.Context) error) {
	r := s.registration()
	if r == nil {
		return // what stands runs out by its lease
	}
	r.spawn(func() { r.insist(do) })
}

// insist runs do again and again until it succeeds or the registration is over.
func (r *registration) insist(do func(context.Context) error) {
	for pause := 20 * time.Millisecond; r.ctx.Err() == nil; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(r.ctx, r.s.cfg.RequestBound)
		err := do(ctx)
		cancel()
		if err == nil {
			return
		}
		sleep(r.ctx, pause)
	}
}

// abandon takes a queued claim out that nobody may wait on any more.
func (r *registration) abandon(st standing) {
	r.spawn(func() {
		r.insist(func(ctx context.Context) error {
			now, err := r.takeOut(ctx, st)
			if errors.Is(err, ErrNoLock) || err == nil && now.Held {
				return nil
			}
			if err == nil {
				st, err = now, errMoved
			}
			return err
		})
	})
}

// resolve sees to a claim of which nobody can say whether it was made. First the fence: after that it is made or never
// will be. What nobody can ask for again is then removed. What somebody can find is left to its repeat: served here if
// it is on this replica's waiting lease, so that it lapses unless somebody asks. sl is the slot that it took, or nil.
func (r *registration) resolve(wish standing, sl *slot, findable bool) {
	spawned := r.spawn(func() {
		r.insist(func(ctx context.Context) error { return r.resolveOnce(ctx, wish, &sl, findable) })
		r.presence.give(sl)
	})
	if !spawned {
		r.presence.give(sl)
	}
}

func (r *registration) resolveOnce(ctx context.Context, wish standing, sl **slot, findable bool) error {
	if err := r.raise(ctx, r.behind()); err != nil {
		return err
	}
	got, err := r.s.read(ctx, clientv3.OpGet(wish.key))
	if err != nil || len(got.ranges[0].Kvs) == 0 {
		return err
	}
	st, err := r.s.keys.standing(got.ranges[0].Kvs[0])
	switch {
	case err != nil:
		return err
	case !findable:
		if _, err = r.takeOut(ctx, st); errors.Is(err, ErrNoLock) {
			if st.Held && st.ClientLease == "" {
				r.s.tidy.revoke(st.Lease)
			}
			return nil
		}
		return errOrMoved(err)
	case !st.Held && *sl != nil && st.onLease == (*sl).id:
		p := r.join(st, *sl, true)
		*sl = nil // the place has it now
		p.detach()
	}
	return nil
}

func errOrMoved(err error) error {
	if err == nil {
		return errMoved
	}
	return err
}
