package store

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Linearizable reads of single keys that are under way at the same time travel together: one read proves a bunch of
// renewals.

const (
	// glancesAtOnce is how many bunches are under way together.
	glancesAtOnce = 2
	// maxGlances bounds a bunch: etcd takes 128 operations.
	maxGlances = 120
)

// glance is a read on its way to etcd.
type glance struct {
	ctx  context.Context
	op   clientv3.Op
	done chan sighting
}

// sighting is what a glance has found.
type sighting struct {
	at     *pb.RangeResponse
	header *pb.ResponseHeader
	err    error
}

func (r *registration) newGlances() convoy[*glance] {
	return convoy[*glance]{
		atOnce: glancesAtOnce,
		load: func(waiting []*glance) (bunch, left []*glance) {
			n := min(len(waiting), maxGlances)
			return waiting[:n:n], waiting[n:]
		},
		carry:  r.carryGlances,
		refuse: func(g *glance) { g.done <- sighting{err: errUnsent} },
		spawn:  r.spawn,
	}
}

func (r *registration) carryGlances(bunch []*glance) {
	ops := make([]clientv3.Op, len(bunch))
	for i, g := range bunch {
		ops[i] = g.op
	}
	ctx := context.Background()
	if len(bunch) == 1 {
		ctx = bunch[0].ctx
	}
	resp, err := r.s.send(ctx, nil, ops, nil)
	for i, g := range bunch {
		if err != nil {
			g.done <- sighting{err: err}
			continue
		}
		g.done <- sighting{resp.Responses[i].GetResponseRange(), resp.Header, nil}
	}
}

// readKey reads one key, together with what others read just then, until it is answered or ctx ends. It is sent after
// the call.
func (s *Store) readKey(ctx context.Context, key string, opts ...clientv3.OpOption) (*pb.RangeResponse, *pb.ResponseHeader, error) {
	op := clientv3.OpGet(key, opts...)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		r := s.registration()
		if r == nil {
			got, err := s.read(ctx, op)
			if err != nil {
				return nil, nil, err
			}
			return got.ranges[0], got.header, nil
		}
		g := &glance{ctx, op, make(chan sighting, 1)}
		r.glances.add(g, false)
		var got sighting
		select {
		case got = <-g.done:
		case <-ctx.Done():
			r.glances.withdraw(g)
			got.err = context.Cause(ctx)
		}
		switch {
		case got.err == nil:
			return got.at, got.header, nil
		case certain(got.err) || ctx.Err() != nil:
			return nil, nil, unavailable(got.err)
		}
		sleep(ctx, pause)
	}
}
