package etcdtest

import (
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// The calls of etcd's API that locks are made of.
const (
	MethodRange           = pb.KV_Range_FullMethodName
	MethodPut             = pb.KV_Put_FullMethodName
	MethodDeleteRange     = pb.KV_DeleteRange_FullMethodName
	MethodTxn             = pb.KV_Txn_FullMethodName
	MethodLeaseGrant      = pb.Lease_LeaseGrant_FullMethodName
	MethodLeaseRevoke     = pb.Lease_LeaseRevoke_FullMethodName
	MethodLeaseKeepAlive  = pb.Lease_LeaseKeepAlive_FullMethodName
	MethodLeaseTimeToLive = pb.Lease_LeaseTimeToLive_FullMethodName
	MethodWatch           = pb.Watch_Watch_FullMethodName
)

// Call is what a [Match] decides on. A unary call is matched once, by its Request. A stream is matched at its opening
// (neither Request nor Reply), by each message sent (Request) and by each message received (Reply).
type Call struct {
	Method  string
	Request any
	Reply   any
}

// Match says whether a fault concerns a call. It must not change it, and may be asked by many goroutines.
type Match func(Call) bool

// And matches what both match.
func (m Match) And(n Match) Match { return func(c Call) bool { return m(c) && n(c) } }

// Any matches every call.
func Any(Call) bool { return true }

// Method matches the calls of one method.
func Method(name string) Match { return func(c Call) bool { return c.Method == name } }

// Txns matches transactions that ok accepts, all if ok is nil. Ranges, Puts and the others do the same for theirs.
func Txns(ok func(*pb.TxnRequest) bool) Match { return requests(ok) }

func Ranges(ok func(*pb.RangeRequest) bool) Match              { return requests(ok) }
func Puts(ok func(*pb.PutRequest) bool) Match                  { return requests(ok) }
func KeepAlives(ok func(*pb.LeaseKeepAliveRequest) bool) Match { return requests(ok) }
func Watches(ok func(*pb.WatchRequest) bool) Match             { return requests(ok) }
func WatchReplies(ok func(*pb.WatchResponse) bool) Match       { return replies(ok) }
func KeepAliveReplies(ok func(*pb.LeaseKeepAliveResponse) bool) Match {
	return replies(ok)
}

func requests[R any](ok func(R) bool) Match {
	return func(c Call) bool {
		r, is := c.Request.(R)
		return is && (ok == nil || ok(r))
	}
}

func replies[R any](ok func(R) bool) Match {
	return func(c Call) bool {
		r, is := c.Reply.(R)
		return is && (ok == nil || ok(r))
	}
}

// Writes matches what may change a key: a put, a delete, a transaction with either in any of its branches.
func Writes(c Call) bool {
	return anyOp(c.Request, func(op any) bool {
		switch op.(type) {
		case *pb.PutRequest, *pb.DeleteRangeRequest:
			return true
		}
		return false
	})
}

// Touches matches calls that name a key beginning with prefix, be it in a compare deep in a transaction.
func Touches(prefix string) Match {
	has := func(key []byte) bool { return strings.HasPrefix(string(key), prefix) }
	return func(c Call) bool {
		return anyOp(c.Request, func(op any) bool {
			switch r := op.(type) {
			case *pb.PutRequest:
				return has(r.Key)
			case *pb.DeleteRangeRequest:
				return has(r.Key)
			case *pb.RangeRequest:
				return has(r.Key)
			case *pb.Compare:
				return has(r.Key)
			}
			return false
		})
	}
}

// anyOp asks ok about a request and, if that is a transaction, about every compare and operation in it.
func anyOp(request any, ok func(op any) bool) bool {
	txn, is := request.(*pb.TxnRequest)
	if !is {
		return ok(request)
	}
	for _, cmp := range txn.Compare {
		if ok(cmp) {
			return true
		}
	}
	for _, branch := range [][]*pb.RequestOp{txn.Success, txn.Failure} {
		for _, op := range branch {
			if anyOp(unwrap(op), ok) {
				return true
			}
		}
	}
	return false
}

func unwrap(op *pb.RequestOp) any {
	switch r := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return r.RequestRange
	case *pb.RequestOp_RequestPut:
		return r.RequestPut
	case *pb.RequestOp_RequestDeleteRange:
		return r.RequestDeleteRange
	case *pb.RequestOp_RequestTxn:
		return r.RequestTxn
	}
	return nil
}
