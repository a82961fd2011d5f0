package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// etcdHistory reads all that etcd commits, straight from etcd, and asks of each revision what is promised: at most one
// held claim a name, which stands first in its queue; a place of its own for each claim; grants in the order of the queue,
// with tokens that grow; no held claim written again, but to another etcd lease after a change of etcd's leader.
type etcdHistory struct {
	client *clientv3.Client
	moved  chan struct{} // has a token after each step

	mu         sync.Mutex
	seen       int64
	broken     []string
	names      map[string]*etcdName
	byTag      map[string][]int64 // tokens of the grants to the claims with a holder text
	ends       map[string]time.Time
	revisions  int
	grants     int
	handOff    time.Duration // the longest that a queue stood without a holder, since it was last asked for
	standsFree map[string]time.Time
}

// etcdName is the queue of one name as of a revision.
type etcdName struct {
	claims  map[string]*etcdClaim // by key
	highest int64
}

// etcdClaim is what is read of a claim's value.
type etcdClaim struct {
	Holder  string `json:"holder"`
	Held    bool   `json:"held"`
	Base    int64  `json:"base"`
	Lease   uint64 `json:"lease"`
	created int64
}

// movedFrom reports that the claim is what it was, on an etcd lease that was begun in another raft term: its id tells.
func (c *etcdClaim) movedFrom(before *etcdClaim) bool {
	const termFrom = 51
	was := *before
	was.Lease = c.Lease
	return was == *c && before.Lease>>termFrom != c.Lease>>termFrom
}

const (
	locksInEtcd = "/latchkey/locks/"
	markInEtcd  = "/faults/mark"
)

func watchEtcd(t *testing.T, etcd *etcdtest.Cluster) *etcdHistory {
	t.Helper()
	h := &etcdHistory{
		client: etcd.Client(t, nil), moved: make(chan struct{}, 1),
		names: map[string]*etcdName{}, byTag: map[string][]int64{}, ends: map[string]time.Time{}, standsFree: map[string]time.Time{},
	}
	ctx, stop := context.WithCancel(context.Background())
	watched := make(chan struct{})
	events := h.client.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(1), clientv3.WithPrevKV())
	go func() {
		defer close(watched)
		for resp := range events {
			h.take(resp)
		}
	}()
	t.Cleanup(func() { stop(); <-watched })
	return h
}

func (h *etcdHistory) take(resp clientv3.WatchResponse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() {
		select {
		case h.moved <- struct{}{}:
		default:
		}
	}()
	if err := resp.Err(); err != nil {
		h.breaks("the history of etcd cannot be read on: %v", err)
		return
	}
	for events := resp.Events; len(events) > 0; {
		n := 1
		for n < len(events) && events[n].Kv.ModRevision == events[0].Kv.ModRevision {
			n++
		}
		h.step(events[:n])
		events = events[n:]
	}
}

func (h *etcdHistory) breaks(format string, args ...any) {
	h.broken = append(h.broken, fmt.Sprintf(format, args...))
}

// step takes all that one revision changed.
func (h *etcdHistory) step(events []*clientv3.Event) {
	h.seen = events[0].Kv.ModRevision
	h.revisions++
	touched := map[string]bool{}
	for _, e := range events {
		rest, ok := strings.CutPrefix(string(e.Kv.Key), locksInEtcd)
		if !ok {
			continue
		}
		name, _, ok := strings.Cut(rest, "\x00")
		if !ok {
			h.breaks("revision %d: a key that is no claim's: %q", h.seen, e.Kv.Key)
			continue
		}
		touched[name] = true
		h.apply(name, e)
	}
	for name := range touched {
		h.judge(name)
	}
}

func (h *etcdHistory) apply(name string, e *clientv3.Event) {
	n := h.names[name]
	if n == nil {
		n = &etcdName{claims: map[string]*etcdClaim{}}
		h.names[name] = n
	}
	before := n.claims[string(e.Kv.Key)]
	if e.Type == mvccpb.DELETE {
		if before != nil && before.Held {
			h.ends[before.Holder] = time.Now()
		}
		delete(n.claims, string(e.Kv.Key))
		return
	}
	claim := &etcdClaim{created: e.Kv.CreateRevision}
	if len(e.Kv.Value) == 0 || e.Kv.Value[0] != '1' || json.Unmarshal(e.Kv.Value[1:], claim) != nil {
		h.breaks("revision %d: a claim on %q that cannot be read: %q", h.seen, name, e.Kv.Value)
		return
	}
	for key, other := range n.claims {
		if other.created == claim.created && key != string(e.Kv.Key) {
			h.breaks("revision %d: two claims on %q have one place, made at revision %d", h.seen, name, claim.created)
		}
	}
	n.claims[string(e.Kv.Key)] = claim
	if before != nil && before.Held && before.created == claim.created {
		if claim.movedFrom(before) {
			return
		}
		h.breaks("revision %d: a held claim on %q was written again", h.seen, name)
	}
	if !claim.Held {
		return
	}
	h.grants++
	token := claim.Base + claim.created
	h.byTag[claim.Holder] = append(h.byTag[claim.Holder], token)
	if token <= n.highest {
		h.breaks("revision %d: token %d of %q was granted after %d", h.seen, token, name, n.highest)
	}
	n.highest = max(n.highest, token)
}

// judge looks at a name as it stands after a revision.
func (h *etcdHistory) judge(name string) {
	n := h.names[name]
	var first, held *etcdClaim
	for _, c := range n.claims {
		if first == nil || c.created < first.created {
			first = c
		}
		if c.Held {
			if held != nil {
				h.breaks("revision %d: two held claims on %q, made at revisions %d and %d", h.seen, name, held.created, c.created)
			}
			held = c
		}
	}
	if held != nil && first != held {
		h.breaks("revision %d: %q is held by the claim made at revision %d, though that of %d stands first", h.seen, name, held.created, first.created)
	}
	since, free := h.standsFree[name]
	switch {
	case held != nil && free:
		h.handOff = max(h.handOff, time.Since(since))
		delete(h.standsFree, name)
	case held != nil || first == nil:
		delete(h.standsFree, name)
	case !free:
		h.standsFree[name] = time.Now()
	}
}

// read returns up to which revision the history was read.
func (h *etcdHistory) read() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen
}

// catchUp waits until all that etcd has committed by now was read.
func (h *etcdHistory) catchUp(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	var until int64
	for until == 0 {
		put, err := h.client.Put(ctx, markInEtcd, "")
		if ctx.Err() != nil {
			t.Fatalf("etcd takes no writes: %v", err)
		}
		if err == nil {
			until = put.Header.Revision
		}
	}
	for h.read() < until {
		select {
		case <-h.moved:
		case <-ctx.Done():
			t.Fatalf("the history of etcd was read up to revision %d of %d", h.read(), until)
		}
	}
}

// longestFree is the longest that a queue stood without a holder, since this was last asked.
func (h *etcdHistory) longestFree() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.handOff = 0 }()
	return h.handOff
}

// violations returns what was found since this was last asked.
func (h *etcdHistory) violations() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.broken = nil }()
	return h.broken
}

// grantsTo are the tokens that claims with this holder text were granted.
func (h *etcdHistory) grantsTo(tag string) []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byTag[tag]
}

// endOf is when a held claim with this holder text was seen to be gone.
func (h *etcdHistory) endOf(tag string) (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.ends[tag]
	return at, ok
}

// totals are how many revisions were looked at and how many grants were among them.
func (h *etcdHistory) totals() (revisions, grants int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revisions, h.grants
}
