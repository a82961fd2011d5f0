package store

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// part is one transaction of ours, to be sent behind the fence.
type part struct {
	cmps      []clientv3.Cmp
	then, els []clientv3.Op
	// grants is the key of the claim that it can make held, or "": with one the epoch is compared too.
	grants string
}

// answer is what etcd said to a part.
type answer struct {
	ok       bool // the part's compares held
	ops      []*pb.ResponseOp
	revision int64
	term     uint64
	// again says that an earlier attempt went unanswered: what was found may be one's own doing.
	again bool
	reg   *registration
}

// commit sends the part that build makes behind the fence, until it is answered or ctx ends. An attempt that goes
// unanswered is repeated only when it can no longer apply. With bound, only that registration will do.
//
// It fails with ErrUnavailable if nothing was done, with ErrUnknown if nobody can say, or with a refusal of etcd's.
func (s *Store) commit(ctx context.Context, bound *registration, build func(*registration) part) (answer, error) {
	again := false
	fail := func(err error) (answer, error) {
		if again {
			return answer{again: true, reg: bound}, unknown(err)
		}
		return answer{reg: bound}, unavailable(err)
	}
	for {
		r := bound
		if r == nil {
			var err error
			if r, err = s.registered(ctx); err != nil {
				return fail(err)
			}
		}
		if ctx.Err() != nil {
			return fail(context.Cause(ctx))
		}
		if r.ctx.Err() != nil {
			if bound != nil {
				return fail(context.Cause(r.ctx))
			}
			continue
		}
		behind := r.behind()
		a, err := r.try(ctx, behind, build(r))
		switch {
		case err == nil:
			a.again = again
			return a, nil
		case errors.Is(err, errOutdated):
			continue // nothing was applied: what the fence or the epoch is now is known
		case errors.Is(err, errReplaced):
			again = true // what it made held in the other store is removed; what it deleted is not put back
			continue
		case again && certain(err) && !errors.Is(err, rpctypes.ErrLeaseNotFound):
			return fail(err) // this attempt was refused; an earlier one may have been applied
		case certain(err):
			return answer{again: again, reg: r}, err
		}
		again = true
		if err := r.raise(ctx, behind); err != nil && (bound != nil || ctx.Err() != nil) {
			return fail(err)
		}
	}
}

// errOutdated: the fence or the epoch is no longer the one compared, so nothing was applied.
var errOutdated = errors.New("fence or epoch have moved")

// try sends a part once, behind the fence.
func (r *registration) try(ctx context.Context, behind int64, p part) (answer, error) {
	cmps := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(r.key), "=", behind)}
	if p.grants != "" {
		cmps = append(cmps, clientv3.Compare(clientv3.Value(r.s.keys.epoch()), "=", r.epoch.value))
	}
	resp, err := r.s.send(ctx, cmps,
		[]clientv3.Op{clientv3.OpTxn(p.cmps, p.then, p.els)},
		[]clientv3.Op{clientv3.OpGet(r.key), clientv3.OpGet(r.s.keys.epoch())})
	if err == nil && p.grants != "" && errors.Is(context.Cause(r.ctx), errReplaced) {
		err = errReplaced // another answer told, while this one was in flight
	}
	if errors.Is(err, errReplaced) && resp.Succeeded && p.grants != "" {
		if err := r.s.remove(ctx, p.grants, resp.Header.Revision); err != nil {
			return answer{}, err
		}
	}
	if err != nil {
		return answer{}, err
	}
	if !resp.Succeeded {
		r.look(rangesOf(resp.Responses))
		return answer{}, errOutdated
	}
	inner := resp.Responses[0].GetResponseTxn()
	return answer{ok: inner.Succeeded, ops: inner.Responses, revision: resp.Header.Revision, term: resp.Header.RaftTerm, reg: r}, nil
}

// remove takes away what a transaction at revision put under key in a store that turned out to be another, with a
// token of the epoch before.
func (s *Store) remove(ctx context.Context, key string, revision int64) error {
	for {
		_, err := s.send(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", revision)},
			[]clientv3.Op{clientv3.OpDelete(key)}, nil)
		if err == nil || ctx.Err() != nil {
			return err
		}
		sleep(ctx, 20*time.Millisecond)
	}
}
