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
	// subject is what it is about: a name's queue, or the key of a lease.
	subject string
	// creates is the key of the claim that it may create, or "". Of one name only one travels in a batch: two would share
	// a revision. Besides that only one other of the name does.
	creates string
	// touches are the keys that one which creates none is about.
	touches   []string
	cmps      []clientv3.Cmp
	then, els []clientv3.Op
	// grants is the key of the claim that it can make held, or "": with one the epoch is compared too.
	grants string
	// urgent says that others wait for this one: it is not kept back for those under way.
	urgent bool
	// again says that an earlier attempt went unanswered: this one travels alone.
	again bool
	// patient is until when it would rather travel with others: a place in the queue of a name that is held.
	patient time.Time
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
// unanswered is repeated only when it can no longer apply; build is told of that. With bound, only that registration
// will do.
//
// It fails with ErrUnavailable if nothing was done, with ErrUnknown if nobody can say, or with a refusal of etcd's.
func (s *Store) commit(ctx context.Context, bound *registration, build func(r *registration, again bool) (part, error)) (answer, error) {
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
		p, err := build(r, again)
		if err != nil {
			return fail(err)
		}
		p.again = again
		a, behind, err := r.try(ctx, p)
		switch {
		case err == nil:
			a.again = again
			return a, nil
		case errors.Is(err, errOutdated), errors.Is(err, errUnsent):
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

// removeAll takes away what a transaction at revision put under keys in a store that turned out to be another, with
// tokens of the epoch before.
func (s *Store) removeAll(keys []string, revision int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.RequestBound)
	defer cancel()
	for _, key := range keys {
		if err := s.remove(ctx, key, revision); err != nil {
			return err
		}
	}
	return nil
}

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
