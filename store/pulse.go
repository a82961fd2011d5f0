package store

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// pulseEvery is how often a replica looks at the store by itself.
const pulseEvery = time.Second

// run does what a registration needs done regularly, until it is over.
func (r *registration) run() {
	var work sync.WaitGroup
	work.Go(r.presence.run)
	work.Go(func() { r.every(countEvery, r.count) })
	work.Go(func() { r.every(tellEvery, r.tell) })
	r.every(pulseEvery, r.pulse)
	work.Wait()
}

func (r *registration) every(d time.Duration, do func(context.Context)) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-r.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx, r.s.cfg.RequestBound)
		do(ctx)
		cancel()
	}
}

// pulse looks once: at the fence and the epoch, which also shows that etcd answers; at the words of the other replicas; at
// the head of every line, as watches have been the buggiest part of etcd; and at the clients' leases that claims here wait
// on.
func (r *registration) pulse(ctx context.Context) {
	r.presence.checkLate()
	r.pool.prune()
	heads, leases := r.watched()
	ops := []clientv3.Op{
		clientv3.OpGet(r.key), clientv3.OpGet(r.s.keys.epoch()), clientv3.OpGet(r.s.keys.tallies(), clientv3.WithPrefix()),
	}
	first := len(ops)
	for _, h := range heads {
		ops = append(ops, clientv3.OpGet(h.st.key, clientv3.WithKeysOnly()))
	}
	for _, l := range leases {
		ops = append(ops, clientv3.OpGet(r.s.keys.leaseOf(l), clientv3.WithKeysOnly()))
	}
	var found []*mvccpb.KeyValue // of each key, nil if it is not there
	for len(ops) > 0 {
		n := min(len(ops), readsAtOnce)
		got, err := r.s.read(ctx, ops[:n]...)
		if err != nil {
			return
		}
		if len(found) == 0 {
			r.look(got.ranges)
			r.s.hear(got.ranges[2], got.header.Revision)
		}
		for _, at := range got.ranges {
			found = append(found, firstOf(at.Kvs))
		}
		ops = ops[n:]
	}
	r.answeredNow()
	for i, h := range heads {
		h.line.doubt(h.st, found[first+i])
	}
	ended := map[string]bool{}
	for i, l := range leases {
		ended[l] = found[first+len(heads)+i] == nil
	}
	r.endWaitsOn(ended)
}

func firstOf(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}

type head struct {
	line *line
	st   standing
}

// watched are the heads of the lines, and the clients' leases that places in them are to be held on.
func (r *registration) watched() (heads []head, leases []string) {
	seen := map[string]bool{}
	for _, l := range r.sweep() {
		l.mu.Lock()
		if h := l.view.head(); l.whole && h != nil {
			heads = append(heads, head{l, *h})
		}
		for _, p := range l.places {
			if id := p.st.ClientLease; id != "" && !seen[id] {
				seen[id] = true
				leases = append(leases, id)
			}
		}
		l.mu.Unlock()
	}
	return heads, leases
}

// endWaitsOn ends the waits of claims whose client's lease has ended, and takes the claims out.
func (r *registration) endWaitsOn(ended map[string]bool) {
	r.eachPlace(func(p *place) {
		if ended[p.st.ClientLease] && p.open() {
			r.abandon(p.st)
			p.finish(ErrNoLease)
		}
	})
}

// leave is the end of a replica that is closed: its fence goes, what waits here keeps its place for one waiting TTL.
func (r *registration) leave(ctx context.Context) {
	r.presence.renewOnce(ctx)
	r.s.tidy.revoke(r.onLease())
}
