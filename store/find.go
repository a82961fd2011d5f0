package store

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Found is the claim that a request with a key or a client's lease would find.
type Found struct {
	// ID is its, or "" if none stands.
	ID string
	// Here says that it was made through this replica.
	Here bool
}

// Find looks for what repeats of these claims would find, in their order. It changes and renews nothing.
func (s *Store) Find(ctx context.Context, claims []Claim) ([]Found, error) {
	r, err := s.registered(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]Found, len(claims))
	var at []int // where in found each of ops belongs
	var ops []clientv3.Op
	for i, c := range claims {
		if key := s.keyOf(ctx, r, c); key != "" {
			at, ops = append(at, i), append(ops, clientv3.OpGet(key))
		}
	}
	for len(ops) > 0 {
		n := min(len(ops), readsAtOnce)
		got, err := s.read(ctx, ops[:n]...)
		if err != nil {
			return nil, err
		}
		for i, one := range got.ranges {
			if found[at[i]], err = s.keys.foundIn(firstOf(one.Kvs)); err != nil {
				return nil, err
			}
		}
		at, ops = at[n:], ops[n:]
	}
	return found, nil
}

// keyOf is the key of a claim that a later request can find, or "" if there can be none.
func (s *Store) keyOf(ctx context.Context, r *registration, c Claim) string {
	a, err := s.newAcquire(c)
	if err != nil || !a.findable {
		return ""
	}
	a.nameWish(ctx, r)
	return a.wish.key
}

func (k keys) foundIn(kv *mvccpb.KeyValue) (Found, error) {
	if kv == nil {
		return Found{}, nil
	}
	st, err := k.standing(kv)
	if err != nil {
		return Found{}, err
	}
	return Found{ID: st.id(), Here: st.here}, nil
}
