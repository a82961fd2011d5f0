package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// What the tests share that let transactions gather and look at how they travel.

// shut keeps the way to etcd busy, for what is urgent too, so that what is sent meanwhile gathers until open.
func shut(t testing.TB, s *Store, faults *etcdtest.Faults) (open func()) {
	t.Helper()
	r := current(t, s)
	gate := faults.Every(etcdtest.Touches(s.keys.prefix + "gate/")).Hold()
	for i := range batchesAtOnce + 1 {
		ctx := ctxFor(t)
		r.spawn(func() { _, _, _ = r.try(ctx, partOf(s, fmt.Sprintf("gate/%d", i), 0, true)) })
		eventually(t, "the way is busy", func() bool { return gate.Hits() == i+1 })
	}
	return func() {
		gate.Remove()
		gate.Release()
	}
}

// partOf puts a key of no meaning, on an etcd lease or on none.
func partOf(s *Store, key string, lease clientv3.LeaseID, urgent bool) part {
	key = s.keys.prefix + key
	return part{subject: key, urgent: urgent, then: []clientv3.Op{clientv3.OpPut(key, "", clientv3.WithLease(lease))}}
}

func gathered(t testing.TB, s *Store, n int) {
	t.Helper()
	b := &current(t, s).batches
	eventually(t, "that many wait for the way", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.waiting)+b.crowd == n
	})
}

// txnLog notes what each transaction from now on would write: the names or keys of each of those that are nested in it.
type txnLog struct {
	mu      sync.Mutex
	batches [][]string
}

func logTxns(s *Store, faults *etcdtest.Faults) *txnLog {
	l := &txnLog{}
	faults.Every(etcdtest.Txns(func(txn *etcdserverpb.TxnRequest) bool {
		var subjects []string
		for _, op := range txn.Success {
			if inner := op.GetRequestTxn(); inner != nil {
				subjects = append(subjects, subjectOf(s, inner))
			}
		}
		if len(subjects) > 0 {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.batches = append(l.batches, subjects)
		}
		return false
	})).Count()
	return l
}

// subjectOf is the name of the claim that a transaction writes first, or the key.
func subjectOf(s *Store, txn *etcdserverpb.TxnRequest) string {
	for _, op := range slices.Concat(txn.Success, txn.Failure) {
		var key []byte
		switch {
		case op.GetRequestPut() != nil:
			key = op.GetRequestPut().Key
		case op.GetRequestDeleteRange() != nil:
			key = op.GetRequestDeleteRange().Key
		case op.GetRequestTxn() != nil:
			if inner := subjectOf(s, op.GetRequestTxn()); inner != "" {
				return inner
			}
		}
		if key != nil {
			name, _, _ := strings.Cut(strings.TrimPrefix(string(key), s.keys.locks()), "\x00")
			return name
		}
	}
	return ""
}

// largest is how many travelled together at the most; it fails if two of one subject ever did.
func (l *txnLog) largest(t testing.TB) int {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, batch := range l.batches {
		n = max(n, len(batch))
		sorted := slices.Sorted(slices.Values(batch))
		if len(slices.Compact(sorted)) != len(batch) {
			t.Errorf("two of one subject travelled together: %q", batch)
		}
	}
	return n
}

func (l *txnLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.batches)
}

// members reads which members stand.
func members(t testing.TB, s *Store) []string {
	t.Helper()
	got, err := s.etcd.Get(ctxFor(t), s.keys.prefix+"member/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, kv := range got.Kvs {
		keys = append(keys, strings.TrimPrefix(string(kv.Key), s.keys.prefix))
	}
	return keys
}

// travel sends a part in the background.
func travel(ctx context.Context, s *Store, key string) <-chan result {
	return inBackground(func() (Lock, error) {
		_, err := s.commit(ctx, nil, func(*registration, bool) (part, error) { return partOf(s, key, 0, false), nil })
		return Lock{}, err
	})
}
