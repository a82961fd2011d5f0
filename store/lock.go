package store

import "time"

// State says how far a claim has come.
type State int

const (
	// Queued is a claim that keeps a place in its name's queue.
	Queued State = iota
	// Held is a claim that has been granted; it stays held until it is gone.
	Held
)

// Lock is one claim on one name, as its owner may see it.
type Lock struct {
	// ID names this one claim for ever. It is a capability: only the owner is told it.
	ID    string
	Name  string
	State State
	// Token is the fencing token, 0 until held. It never changes while the lock is held.
	Token int64
	// Position counts the claims ahead.
	Position int
	// LeaseID is the client's lease the claim is on, or ID when it has its own.
	LeaseID string
	TTL     time.Duration
	// Owner is the principal whose it is; "" without authentication.
	Owner    string
	Holder   string
	Metadata map[string]string
	// HoldEnds is after when it is renewed no more; zero if there is no such time.
	HoldEnds time.Time
	// Replayed says that an earlier request made this claim, and this one found it by its key or its lease.
	Replayed bool
	// Here says that it was made through this replica, as far as that is noted: see Share.
	Here bool
	// Revision is etcd's, when this was seen: it grows with every change of the lock.
	Revision int64
	// untold says that nobody but the caller of Claim can know of it.
	untold bool
}

// Claim is what a client asks for. The store trusts none of it.
type Claim struct {
	Name string
	// TTL is for a lease of the lock's own; LeaseID puts it on a client's lease instead, and then TTL is 0.
	TTL     time.Duration
	LeaseID string
	// Wait is how long to wait for the grant: 0 is a try.
	Wait time.Duration
	// Queue keeps the place when the wait ends without a grant.
	Queue    bool
	Holder   string
	Metadata map[string]string
	// Key is the client's idempotency key, or "".
	Key string
	// Arrived is when the request arrived: nothing is sent to etcd for it later than the request's bound after that.
	Arrived time.Time
}

// Lease is a lease of a client's own, or that of a held lock which has its own (then ID is the lock's).
type Lease struct {
	ID       string
	TTL      time.Duration
	Holder   string
	Metadata map[string]string
	// HoldEnds is after when it is renewed no more; zero if there is no such time.
	HoldEnds time.Time
	// Left is the TTL left, between 0 and TTL. Only GetLease fills it.
	Left time.Duration
	// Locks are those held on it, oldest first. Only GetLease fills it.
	Locks []Lock
	// Token is the fencing token if the lease is a lock's own, else 0.
	Token int64
}

// Kept is one report of a lease that the store keeps alive for its client.
type Kept struct {
	Lease Lease
	// Sent is when the last proven renewal was sent. The lease runs at least one TTL from then.
	Sent time.Time
	// Err is why renewing has just failed; Sent is then that of the last one which did not. Nil when it went well.
	Err error
}

// Filter chooses claims to list: all those of Name, or all whose name begins with Prefix, or all.
type Filter struct {
	Name   string
	Prefix string
	// Within restricts the list to names in any of these ranges, if not nil.
	Within []Names
	// State restricts the list to claims in that state, if not nil.
	State *State
	// Cursor is Page.Next of the page before, or "".
	Cursor string
	// Limit bounds the page: 1 to 1000.
	Limit int
}

// Names is a range of names: the one that is Exact, or all that begin with Begins ("" is all).
type Names struct{ Exact, Begins string }

// Page is a part of a list, by name and then by order in the queue.
type Page struct {
	Locks []Lock
	// Next is the cursor of the page after this, or "" on the last. A page can be short, even empty, and yet have a next.
	Next string
}
