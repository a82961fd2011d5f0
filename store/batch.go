package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Transactions that are under way at the same time travel together, nested in one of etcd's: that costs one proposal,
// one entry of etcd's log and one disk commit for all. Etcd evaluates the compares of all before it applies any, so
// they must not be about one key, nor make two claims of one name, which would share a revision; and what it refuses in
// one it refuses in all, before anything is applied, so then they are sent apart.

const (
	// batchesAtOnce is how many batches are under way together.
	batchesAtOnce = 1
	// batchesInCrowd is how many more are while many claim one name, of which a batch takes only one: etcd takes what it
	// is asked meanwhile to its log together.
	batchesInCrowd = 3
	// repeatsAtOnce is how many of those that went unanswered are under way again, each alone and beside the batches: among
	// those that it went with may be one that never arrives.
	repeatsAtOnce = 16
	// maxBatch bounds a batch. Etcd takes 128 operations, and counts those of the levels above with the nested ones.
	maxBatch = 96
	// maxBatchBytes keeps a batch well below the 1.5 MiB that etcd takes.
	maxBatchBytes = 1 << 20
	// queueingPatience is how long a claim that is only to be queued waits for others to travel with: alone it would be in
	// the way of the release that its name waits for.
	queueingPatience = time.Millisecond
)

// passenger is a part on its way to etcd.
type passenger struct {
	ctx   context.Context
	part  part
	bytes int
	// behind is the fence that it was last sent behind.
	behind atomic.Int64
	done   chan arrival
}

func (p *passenger) refuse() { p.done <- arrival{err: errUnsent} }

// arrival is what became of a passenger.
type arrival struct {
	answer
	err error
}

// errUnsent: it was not sent, so nothing was done.
var errUnsent = errors.New("not sent to etcd")

func (r *registration) newBatches() convoy[*passenger] {
	return convoy[*passenger]{
		atOnce:  batchesAtOnce,
		inCrowd: batchesInCrowd,

		load:   loadBatch,
		carry:  r.carryBatch,
		refuse: (*passenger).refuse,
		spawn:  r.spawn,

		patience: func(p *passenger) time.Time { return p.part.patient },
		turn: func(p *passenger) string {
			if p.part.creates == "" {
				return ""
			}
			return p.part.subject
		},
		// What frees a lock, grants it or keeps a place is not kept waiting by thousands of new claims.
		first: func(p *passenger) bool { return p.part.creates == "" },
	}
}

// newRepeats carries what goes again.
func (r *registration) newRepeats() convoy[*passenger] {
	return convoy[*passenger]{
		atOnce: repeatsAtOnce,

		load:   func(waiting []*passenger) (batch, left []*passenger) { return waiting[:1:1], waiting[1:] },
		carry:  r.carryBatch,
		refuse: (*passenger).refuse,
		spawn:  r.spawn,
	}
}

// try sends a part once, behind the fence, which it returns. errUnsent, errOutdated and what etcd refused was not done;
// after any other error nobody knows.
func (r *registration) try(ctx context.Context, p part) (answer, int64, error) {
	at := &passenger{ctx: ctx, part: p, bytes: weigh(p.cmps, p.then, p.els), done: make(chan arrival, 1)}
	way := &r.batches
	if p.again {
		way = &r.repeats
	}
	way.add(at, p.urgent)
	select {
	case got := <-at.done:
		return got.answer, at.behind.Load(), got.err
	case <-ctx.Done():
	}
	if way.withdraw(at) {
		return answer{}, 0, errUnsent
	}
	select {
	case got := <-at.done: // it was left out, or has just come
		return got.answer, at.behind.Load(), got.err
	default:
	}
	return answer{}, at.behind.Load(), context.Cause(ctx)
}

// loadBatch takes those that can go together.
func loadBatch(waiting []*passenger) (batch, left []*passenger) {
	aboard := make(companions, min(len(waiting), maxBatch))
	bytes := 0
	for i, p := range waiting {
		if len(batch) == maxBatch {
			left = append(left, waiting[i:]...)
			break
		}
		full := len(batch) > 0 && bytes+p.bytes > maxBatchBytes
		if !aboard.admit(p.part, full) {
			left = append(left, p)
			continue
		}
		batch = append(batch, p)
		bytes += p.bytes
	}
	return batch, left
}

// companions are, of each subject, those that are in a batch: at most one that creates a claim and one that does not.
type companions map[string]company

type company struct{ creator, other *part }

// admit lets one in that fits, unless the batch is full for it. What is kept back keeps back what comes later about the
// same: nothing overtakes.
func (c companions) admit(p part, full bool) bool {
	there := c[p.subject]
	switch {
	case p.creates == "" && there.other != nil, p.creates != "" && there.creator != nil, full,
		there.creator != nil && p.writes(there.creator.creates), there.other != nil && there.other.writes(p.creates):
		c[p.subject] = company{&p, &p}
		return false
	case p.creates == "":
		there.other = &p
	default:
		there.creator = &p
	}
	c[p.subject] = there
	return true
}

// writes reports whether a part that creates no claim can touch that key.
func (p *part) writes(key string) bool { return key != "" && slices.Contains(p.touches, key) }

// board notes the fence that the batch is sent behind, and leaves out those that nobody waits for any more. In this
// order: whoever sees that a passenger may have been sent raises the fence above that.
func (r *registration) board(batch []*passenger) []*passenger {
	fence := r.behind()
	return slices.DeleteFunc(batch, func(p *passenger) bool {
		p.behind.Store(fence)
		if p.ctx.Err() == nil {
			return false
		}
		p.refuse()
		return true
	})
}

// carryBatch sends a batch and tells each of its passengers what became of it.
func (r *registration) carryBatch(batch []*passenger) {
	batch = r.board(batch)
	if len(batch) == 0 {
		return
	}
	got, err := r.sendBatch(batch)
	if len(batch) > 1 && ofOne(err) {
		r.carryApart(batch)
		return
	}
	for i, p := range batch {
		if err != nil {
			p.done <- arrival{err: err}
			continue
		}
		p.done <- arrival{answer: got[i]}
	}
}

// carryApart sends a refused batch in halves, until only what etcd refuses alone is refused.
func (r *registration) carryApart(batch []*passenger) {
	half := len(batch) / 2
	var work sync.WaitGroup
	work.Go(func() { r.carryBatch(slices.Clone(batch[:half])) })
	r.carryBatch(slices.Clone(batch[half:]))
	work.Wait()
}

// sendBatch sends a batch once. One compare of the fence is for all, and one of the epoch if any can make a claim held.
func (r *registration) sendBatch(batch []*passenger) ([]answer, error) {
	k := r.s.keys
	cmps := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(r.key), "=", batch[0].behind.Load())}
	then := make([]clientv3.Op, len(batch))
	var grants []string
	for i, p := range batch {
		then[i] = clientv3.OpTxn(p.part.cmps, p.part.then, p.part.els)
		if p.part.grants != "" {
			grants = append(grants, p.part.grants)
		}
	}
	if len(grants) > 0 {
		cmps = append(cmps, clientv3.Compare(clientv3.Value(k.epoch()), "=", r.epoch.value))
	}
	r.s.metrics.batches.Observe(float64(len(batch)))
	ctx := context.Background()
	if len(batch) == 1 {
		ctx = batch[0].ctx
	}
	resp, err := r.s.send(ctx, cmps, then, []clientv3.Op{clientv3.OpGet(r.key), clientv3.OpGet(k.epoch())})
	if err == nil && len(grants) > 0 && errors.Is(context.Cause(r.ctx), errReplaced) {
		err = errReplaced // another answer told, while this one was in flight
	}
	if errors.Is(err, errReplaced) && resp.Succeeded {
		if err := r.s.removeAll(grants, resp.Header.Revision); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	if !resp.Succeeded {
		r.look(rangesOf(resp.Responses))
		return nil, errOutdated
	}
	answers := make([]answer, len(batch))
	for i, op := range resp.Responses {
		inner := op.GetResponseTxn()
		answers[i] = answer{
			ok: inner.Succeeded, ops: inner.Responses, revision: resp.Header.Revision, term: resp.Header.RaftTerm, reg: r,
		}
	}
	return answers, nil
}

// weigh is about how many bytes a transaction has.
func weigh(cmps []clientv3.Cmp, branches ...[]clientv3.Op) int {
	const overhead = 32
	bytes := overhead
	for i := range cmps {
		bytes += overhead + len(cmps[i].KeyBytes())
	}
	for _, ops := range branches {
		for _, op := range ops {
			bytes += overhead + len(op.KeyBytes()) + len(op.RangeBytes()) + len(op.ValueBytes())
			if op.IsTxn() {
				bytes += weigh(op.Txn())
			}
		}
	}
	return bytes
}
