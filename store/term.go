package store

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Etcd's own leases, and the raft term each was begun in. A leader of etcd that was stopped and deposed takes itself for
// the leader still for a moment when it wakes: what has run out by its clock, however often its successor has renewed
// it, it then revokes, and the successor does as it is told (etcd 3.7.3 ended 200 of 200 leases so, in two of three
// trials; its check for that, of its issue 15247, is left out when a tick came first). It can do that only to leases
// that it knows: those begun in its own term or before. So a lease counts as renewed only in the term that it was begun
// in, and what is on one of another term is moved to a new one at its next renewal (move.go).
//
// The ids of leases are ours to choose: a repeat of a grant whose answer was lost makes no second one. Etcd would count
// them up, so that one tells the next. By the lowest bit a count of the keys alone can tell what is queued from what is
// held, and the highest tell the term.

const (
	termBits   = 12
	randomBits = 63 - termBits
	termMask   = 1<<termBits - 1
)

// leaseKind is the lowest bit of an etcd lease's id.
type leaseKind int64

const (
	holdLease    leaseKind = 0
	waitingLease leaseKind = 1
)

func newLeaseID(kind leaseKind, term uint64) clientv3.LeaseID {
	var raw [8]byte
	for {
		rand.Read(raw[:])
		random := binary.BigEndian.Uint64(raw[:]) & (1<<randomBits - 1) &^ 1
		if id := clientv3.LeaseID(term&termMask<<randomBits | random | uint64(kind)); id > 1 {
			return id
		}
	}
}

func isWaitingLease(id clientv3.LeaseID) bool { return leaseKind(id&1) == waitingLease }

// begunIn reports whether a lease was begun in that term.
func begunIn(id clientv3.LeaseID, term uint64) bool { return uint64(id)>>randomBits == term&termMask }

// terms is what this replica has seen of etcd's raft terms.
type terms struct {
	last atomic.Uint64

	mu      sync.Mutex
	cluster uint64
	// since is when each member was first seen in the last term.
	since map[uint64]time.Time
}

// saw notes the term in an answer.
func (t *terms) saw(h *pb.ResponseHeader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.last.Load(); h.ClusterId == t.cluster && h.RaftTerm < last {
		return
	} else if h.ClusterId != t.cluster || h.RaftTerm > last {
		t.begin(h)
	}
	if _, known := t.since[h.MemberId]; !known {
		t.since[h.MemberId] = time.Now()
	}
}

// begin begins with the term in an answer, in whatever store that is. t.mu is held.
func (t *terms) begin(h *pb.ResponseHeader) {
	t.cluster, t.since = h.ClusterId, map[uint64]time.Time{}
	t.last.Store(h.RaftTerm)
}

// beginAgain is for a store that was set back or replaced: its terms may be lower.
func (t *terms) beginAgain(h *pb.ResponseHeader) {
	t.mu.Lock()
	t.begin(h)
	t.mu.Unlock()
	t.saw(h)
}

// forget is for a replica that begins anew.
func (t *terms) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(&pb.ResponseHeader{})
}

// covers reports whether what a member answered, to a question sent then, was done in that term or a later one: the
// member itself was in it before. That another was says nothing, while a leader of the term before may be heard still.
func (t *terms) covers(member, term uint64, sent time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	since, known := t.since[member]
	return t.last.Load() > term || known && since.Before(sent)
}
