package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Word is what a replica tells the others: of principals, by name, how many claims and how many leases they have got
// through it.
type Word map[string][2]int

// tellEvery is how often a replica asks itself whether its word has changed. The others hear it with their next pulse.
const tellEvery = 2 * time.Second

// tallies are the words that the replicas have for each other. Each has a key of its own, on the lease of its fence: so
// that its word goes with it. They are read with the pulse, which comes anyway, and a word is put only when it changed.
type tallies struct {
	// tell makes this replica's word; nil if it has none to give.
	tell   atomic.Pointer[func(context.Context) Word]
	others atomic.Pointer[[]Word]

	mu    sync.Mutex
	heard map[string]heardWord // of the others, by key
	// told is how this replica's word stands in etcd since the revision at, "" if there is none, and lease what it is on.
	// Unless sure is true nobody knows.
	told  string
	lease clientv3.LeaseID
	at    int64
	sure  bool
}

// heardWord is a word as it stood at a revision. One that cannot be read is empty.
type heardWord struct {
	modified int64
	word     Word
}

// Share has tell called every two seconds, for the word that this replica is to give the others. The context ends with the
// time that it may take. To be called once, before the first claim.
func (s *Store) Share(tell func(context.Context) Word) { s.tallies.tell.Store(&tell) }

// Others are the last words of the other replicas: of at most a pulse ago, while etcd answers. They are not to be changed.
func (s *Store) Others() []Word {
	if others := s.tallies.others.Load(); others != nil {
		return *others
	}
	return nil
}

// shares reports that this replica counts what principals have.
func (s *Store) shares() bool { return s.tallies.tell.Load() != nil }

// viaLength is how much of a nonce tells replicas apart: it is in every claim of a principal.
const viaLength = 11

func (k keys) tallies() string { return k.prefix + "tallies/" }
func (k keys) tally() string   { return k.tallies() + k.via }

// hear notes the words as etcd had them at a revision. This replica's own shows whether it stands as it was put.
func (s *Store) hear(words *pb.RangeResponse, revision int64) {
	t := &s.tallies
	t.mu.Lock()
	defer t.mu.Unlock()
	own, heard, others := "", make(map[string]heardWord, len(words.Kvs)), make([]Word, 0, len(words.Kvs))
	for _, kv := range words.Kvs {
		key := string(kv.Key)
		if key == s.keys.tally() {
			own = string(kv.Value)
			continue
		}
		h, had := t.heard[key]
		if !had || h.modified != kv.ModRevision {
			h = heardWord{modified: kv.ModRevision, word: s.understand(key, kv.Value)}
		}
		heard[key], others = h, append(others, h.word)
	}
	t.heard, t.sure = heard, t.sure && (own == t.told || revision < t.at)
	t.others.Store(&others)
}

// forget drops the words that were heard: in a store that was set back a revision stands for another.
func (t *tallies) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard, t.sure = nil, false
}

// understand reads another's word. One that makes no sense says nothing: it must not be in anybody's way.
func (s *Store) understand(key string, value []byte) Word {
	var w Word
	err := decodeValue(value, &w)
	for _, n := range w {
		if n[0] < 0 || n[1] < 0 {
			err = fmt.Errorf("%w: less than nothing", errForeign)
		}
	}
	if err != nil {
		s.log.Debug("the word of another replica cannot be read", "key", key, "cause", err)
		return nil
	}
	return w
}

// tell puts this replica's word if it is another than before, or is on another lease than the fence.
func (r *registration) tell(ctx context.Context) {
	tell := r.s.tallies.tell.Load()
	if tell == nil {
		return
	}
	asking, asked := context.WithTimeout(ctx, tellEvery)
	w := (*tell)(asking)
	asked()
	value, lease := "", r.onLease()
	if len(w) > 0 {
		value = encodeValue(w)
	}
	if r.s.tallies.asTold(value, lease) {
		return
	}
	put := clientv3.OpPut(r.s.keys.tally(), value, clientv3.WithLease(lease))
	if value == "" {
		put = clientv3.OpDelete(r.s.keys.tally())
	}
	stands := clientv3.Compare(clientv3.CreateRevision(r.key), "=", r.created)
	resp, err := r.s.send(ctx, []clientv3.Cmp{stands}, []clientv3.Op{put}, nil)
	if err != nil {
		r.s.log.Debug("could not tell the other replicas what principals have", "cause", err)
		return // the next time
	}
	r.s.tallies.said(value, lease, resp.Header.Revision, resp.Succeeded)
}

// asTold reports that the word stands as it should. If not it is about to be put.
func (t *tallies) asTold(value string, lease clientv3.LeaseID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sure = t.sure && t.told == value && (value == "" || t.lease == lease)
	return t.sure
}

func (t *tallies) said(value string, lease clientv3.LeaseID, at int64, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told, t.lease, t.at, t.sure = value, lease, at, done
}
