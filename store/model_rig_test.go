package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"
)

// modelReplicas are on one etcd.
const modelReplicas = 2

// modelRig drives replicas and the model side by side, and knows which numbers of the model are which ids.
type modelRig struct {
	etcd   [modelReplicas]*clientv3.Client
	prefix string
	stores [modelReplicas]*Store

	world   modelWorld
	ids     map[int]string
	numbers map[string]int
	tokens  map[int]int64
	// last is the token of the latest grant of each name, floor what every later grant is above.
	last    map[string]int64
	floor   int64
	claims  []int // all whose id was ever known
	leases  []int // of clients, all there ever were
	onLease map[string]clientv3.LeaseID
	pending map[int]modelPending
	foreign string // the id of a lock in another store
}

// modelPending is a request that waits in the background.
type modelPending struct {
	done     <-chan result
	leave    context.CancelFunc
	replayed bool
}

func newModelRig(t *rapid.T, etcd [modelReplicas]*clientv3.Client, foreign string) *modelRig {
	r := &modelRig{
		etcd: etcd, prefix: "/model/" + newNonce().text() + "/", world: newModelWorld(), foreign: foreign,
		ids: map[int]string{}, numbers: map[string]int{}, tokens: map[int]int64{}, last: map[string]int64{}, pending: map[int]modelPending{},
	}
	for at := range r.stores {
		r.open(t, at)
	}
	return r
}

// modelWaitingTTL and modelTTLs are so long that nothing runs out by itself; one of the TTLs is pooled, one is not.
const modelWaitingTTL = 10 * time.Minute

var modelTTLs = []time.Duration{time.Minute, time.Hour}

func (r *modelRig) open(t *rapid.T, at int) {
	ctx, cancel := modelBound()
	defer cancel()
	s, err := Open(ctx, r.etcd[at], Config{
		Prefix: r.prefix, WaitingTTL: modelWaitingTTL, RequestBound: within, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatalf("open replica %d: %v", at, err)
	}
	r.stores[at] = s
}

func (r *modelRig) shut(t *rapid.T, at int) {
	ctx, cancel := modelBound()
	defer cancel()
	if err := r.stores[at].Close(ctx); err != nil {
		t.Fatalf("close replica %d: %v", at, err)
	}
	r.stores[at] = nil
}

// close leaves nothing behind, however the test ends.
func (r *modelRig) close() {
	for _, p := range r.pending {
		p.leave()
	}
	ctx, cancel := modelBound()
	defer cancel()
	for _, s := range r.stores {
		if s != nil {
			_ = s.Close(ctx) // shut has told of it if it was to
		}
	}
	_, _ = r.etcd[0].Delete(ctx, r.prefix, clientv3.WithPrefix())
}

func modelBound() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*within)
}

// took is a command's end: one of the outcomes that the model allows, or the test fails.
func (r *modelRig) took(t *rapid.T, outcomes []modelOutcome, l Lock, err error) {
	var faults []string
	for _, o := range outcomes {
		fault := r.lockAnswerDiffers(o.world, o.answer, l, err)
		if fault == "" {
			r.goOn(t, o, l)
			return
		}
		faults = append(faults, fault)
	}
	t.Logf("got %+v, %v", l, err)
	t.Fatalf("the answer is none of those allowed: %s", strings.Join(faults, "; or "))
}

// did is took for a command that answers no lock.
func (r *modelRig) did(t *rapid.T, outcomes []modelOutcome, err error) {
	r.took(t, outcomes, Lock{}, err)
}

// goOn makes the outcome the state of the model, and waits until the replicas are there too.
func (r *modelRig) goOn(t *rapid.T, o modelOutcome, l Lock) {
	r.world = o.world
	if l.ID != "" {
		r.note(t, o.answer.claim, l)
	}
	r.endedAll(t, o.ends)
	r.converge(t, o.soon || o.answer.what == isWaiting)
}

// note remembers what a claim was told.
func (r *modelRig) note(t *rapid.T, no int, l Lock) {
	if fault := r.know(no, l.ID); fault != "" {
		t.Fatal(fault)
	}
	if l.State != Held {
		return
	}
	if fault := r.granted(no, l.Name, l.Token); fault != "" {
		t.Fatal(fault)
	}
}

// know binds a number to an id, once.
func (r *modelRig) know(no int, id string) string {
	known, had := r.ids[no]
	other, taken := r.numbers[id]
	switch {
	case had && known != id:
		return fmt.Sprintf("claim %d has another id than before", no)
	case taken && other != no:
		return fmt.Sprintf("claims %d and %d have one id", other, no)
	case !had:
		r.ids[no], r.numbers[id] = id, no
		r.claims = append(r.claims, no)
	}
	return ""
}

// granted notes a claim's token: above all that were before on the name, and the same ever after.
func (r *modelRig) granted(no int, name string, token int64) string {
	known, had := r.tokens[no]
	switch {
	case had && known != token:
		return fmt.Sprintf("the token of claim %d has changed", no)
	case !had && (token <= r.last[name] || token <= r.floor):
		return fmt.Sprintf("the token of claim %d is not above those before", no)
	case !had:
		r.tokens[no], r.last[name] = token, token
	}
	return ""
}

// background starts a request that waits.
func (r *modelRig) background(no int, replayed bool, call func(context.Context) (Lock, error)) {
	ctx, leave := context.WithCancel(context.Background())
	r.pending[no] = modelPending{inBackground(func() (Lock, error) { return call(ctx) }), leave, replayed}
}

func (r *modelRig) endedAll(t *rapid.T, ends map[int]modelAnswer) {
	for _, no := range slices.Sorted(maps.Keys(ends)) {
		r.ended(t, no, ends[no])
	}
}

// ended waits for the answer of a request that waited.
func (r *modelRig) ended(t *rapid.T, no int, want modelAnswer) {
	p := r.pending[no]
	delete(r.pending, no)
	defer p.leave()
	var got result
	select {
	case got = <-p.done:
	case <-time.After(within):
		t.Fatalf("the request that waited as %d got no answer, want it %s", no, want.what)
	}
	want.replayed = p.replayed
	if fault := r.lockAnswerDiffers(r.world, want, got.lock, got.err); fault != "" {
		t.Logf("got %+v, %v", got.lock, got.err)
		t.Fatalf("the request that waited as %d: %s", no, fault)
	}
	if got.err == nil {
		r.note(t, want.claim, got.lock)
	}
}

// lockAnswerDiffers says how an answer is not the one wanted. What it says holds no ids and no tokens, so that it is the
// same whenever the commands are repeated.
func (r *modelRig) lockAnswerDiffers(w modelWorld, want modelAnswer, l Lock, err error) string {
	var busy *HeldError
	switch want.what {
	case isFailed:
		if err == nil || !want.failsWith(err) {
			return fmt.Sprintf("got error %v, want one of %v", modelErr(err), want.errs)
		}
		return ""
	case isBusy:
		if !errors.As(err, &busy) {
			return fmt.Sprintf("got error %v, want busy", modelErr(err))
		}
		return r.busyDiffers(w, want, busy)
	}
	if err != nil {
		return fmt.Sprintf("got error %v, want %s", modelErr(err), want.what)
	}
	if want.what == isDone || want.what == isWaiting {
		return ""
	}
	return r.lockDiffers(w, want, l)
}

// modelErr is an error without what differs each time.
func modelErr(err error) error {
	for _, ours := range []error{
		ErrNoLock, ErrNoLease, ErrLockQueued, ErrKeyReused, ErrPlaceLost, ErrDraining, ErrUnknown, ErrUnavailable, context.Canceled,
	} {
		if errors.Is(err, ours) {
			return ours
		}
	}
	return err
}

func (r *modelRig) lockDiffers(w modelWorld, want modelAnswer, l Lock) string {
	c, _ := w.claim(want.claim)
	state := Queued
	if want.what == isHeld {
		state = Held
	}
	leaseID := l.ID
	if c.wish.lease != 0 {
		leaseID = r.ids[c.wish.lease]
	}
	known := r.ids[c.no]
	for _, f := range []struct {
		what string
		ok   bool
	}{
		{"the name", l.Name == c.wish.name},
		{fmt.Sprintf("the state (want %s)", want.what), l.State == state},
		{fmt.Sprintf("the position %d (want %d)", l.Position, want.position), l.Position == want.position || want.position == somewhere},
		{"that it is replayed", l.Replayed == want.replayed},
		{"the id", l.ID != "" && (known == "" || l.ID == known)},
		{"the lease", l.LeaseID == leaseID},
		{"the TTL", l.TTL == r.ttlOf(c.wish)},
		{"the holder", l.Holder == c.wish.holder && l.Metadata["of"] == c.wish.holder && len(l.Metadata) == 1},
		{"the token", (l.Token > 0) == (state == Held) && (r.tokens[c.no] == 0 || l.Token == r.tokens[c.no])},
	} {
		if !f.ok {
			return fmt.Sprintf("of claim %d, %s differs", c.no, f.what)
		}
	}
	return ""
}

func (r *modelRig) ttlOf(wish modelWish) time.Duration {
	if wish.lease != 0 {
		return r.world.leases[wish.lease].ttl
	}
	return wish.ttl
}

func (r *modelRig) busyDiffers(w modelWorld, want modelAnswer, got *HeldError) string {
	switch {
	case got.QueueLength != want.waiting:
		return fmt.Sprintf("busy, with %d waiting: want %d", got.QueueLength, want.waiting)
	case (got.Holder != nil) != (want.holder != 0):
		return fmt.Sprintf("busy, with a holder: %v, want %v", got.Holder != nil, want.holder != 0)
	case got.Holder == nil:
		return ""
	}
	c, _ := w.claim(want.holder)
	if h := got.Holder; h.ID != "" || h.LeaseID != "" || h.Name != c.wish.name || h.Holder != c.wish.holder || h.State != Held ||
		r.tokens[c.no] != 0 && h.Token != r.tokens[c.no] {
		return fmt.Sprintf("busy, with another holder than claim %d, or its ids", c.no)
	}
	return ""
}

// leaseDiffers says how a lease is not that of a client, or of the claim that is held on its own.
func (r *modelRig) leaseDiffers(no int, want modelAnswer, l Lease, w modelWorld) string {
	wish, token := w.leases[no], int64(0)
	if want.what == isHeld {
		c, _ := w.claim(no)
		wish, token = c.wish, r.tokens[no]
	}
	if l.ID != r.ids[no] || l.TTL != wish.ttl || l.Holder != wish.holder || l.Token != token {
		return fmt.Sprintf("lease %d is shown as another", no)
	}
	return ""
}
