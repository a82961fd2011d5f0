package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Gone are those of the claims and leases named which stand no more. What is no id, or another's claim, is gone too.
func (s *Store) Gone(ctx context.Context, ids []string) ([]string, error) {
	var gone []string
	for len(ids) > 0 {
		n := min(len(ids), readsAtOnce)
		some, err := s.goneOf(ctx, ids[:n])
		if err != nil {
			return nil, err
		}
		gone, ids = append(gone, some...), ids[n:]
	}
	return gone, nil
}

// goneOf asks for as many as one transaction reads.
func (s *Store) goneOf(ctx context.Context, ids []string) (gone []string, err error) {
	var asked []string
	var want []lockID
	var ops []clientv3.Op
	for _, id := range ids {
		key := ""
		lock, isLock := s.openID(ctx, id)
		if isLock {
			key = s.keys.claim(lock.name, lock.nonce)
		} else if text, isLease := s.keys.ids.openLease(id, ownerOf(ctx)); isLease {
			key = s.keys.leaseOf(text)
		} else {
			gone = append(gone, id)
			continue
		}
		asked, want = append(asked, id), append(want, lock)
		ops = append(ops, clientv3.OpGet(key, clientv3.WithKeysOnly()))
	}
	if len(ops) == 0 {
		return gone, nil
	}
	got, err := s.read(ctx, ops...)
	if err != nil {
		return nil, err
	}
	for i, found := range got.ranges {
		if len(found.Kvs) == 0 || want[i].revision != 0 && found.Kvs[0].CreateRevision != want[i].revision {
			gone = append(gone, asked[i])
		}
	}
	return gone, nil
}
