package store

import "slices"

// queue is a view of one name: the claims on it in the order in which etcd committed them. It is pure: what may be
// held follows from it alone. A late view errs to the safe side, for the set ahead of a claim only ever shrinks,
// provided that the view is whole and contains the claim it is asked about.
type queue struct {
	order []*standing // by create-revision
	byKey map[string]*standing
	// revision is up to where it is whole.
	revision int64
}

func newQueue(claims []standing, revision int64) queue {
	q := queue{byKey: make(map[string]*standing, len(claims)), revision: revision}
	for i := range claims {
		q.put(claims[i])
	}
	return q
}

// put notes a claim, new or written again.
func (q *queue) put(st standing) {
	if old, ok := q.byKey[st.key]; ok {
		if old.created == st.created {
			*old = st
			return
		}
		q.remove(st.key)
	}
	at, _ := q.place(st.created)
	q.order = slices.Insert(q.order, at, &st)
	q.byKey[st.key] = &st
}

func (q *queue) remove(key string) {
	st, ok := q.byKey[key]
	if !ok {
		return
	}
	delete(q.byKey, key)
	if at, found := q.place(st.created); found {
		q.order = slices.Delete(q.order, at, at+1)
	}
}

func (q *queue) place(created int64) (at int, found bool) {
	return slices.BinarySearchFunc(q.order, created, func(st *standing, r int64) int {
		switch {
		case st.created < r:
			return -1
		case st.created > r:
			return 1
		}
		return 0
	})
}

// head is the claim with nothing ahead: the only one that may be held. Nil if there is none.
func (q *queue) head() *standing {
	if len(q.order) == 0 {
		return nil
	}
	return q.order[0]
}

// ahead counts the claims before this one. ok is false if the view does not contain it.
func (q *queue) ahead(key string, created int64) (n int, ok bool) {
	st := q.byKey[key]
	if st == nil || st.created != created {
		return 0, false
	}
	return q.place(created)
}

// busy describes the queue to somebody who did not get in. What it has under the caller's own key does not count: the
// view may be from before the caller left.
func (q *queue) busy(own string) *HeldError {
	e := &HeldError{QueueLength: len(q.order)}
	if _, ok := q.byKey[own]; ok {
		e.QueueLength--
	}
	if h := q.head(); h != nil && h.Held && h.key != own {
		e.Holder = h.shown()
		e.QueueLength--
	}
	return e
}
