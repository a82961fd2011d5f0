package latchkey

// The types of this file are those of openapi.yaml, field by field.

// State is where a claim stands.
type State string

const (
	Queued State = "queued" // it keeps a place in the queue
	Held   State = "held"   // it was granted
)

// ClaimRequest asks for a name. See [Client.Claim].
type ClaimRequest struct {
	Name        string            `json:"name"`
	TTLSeconds  int64             `json:"ttl_seconds,omitempty"`  // 0 takes the service's default, 30. Not together with LeaseID
	LeaseID     string            `json:"lease_id,omitempty"`     // claim on this lease
	WaitSeconds int64             `json:"wait_seconds,omitempty"` // hold the request open until granted, this long at the most
	Queue       bool              `json:"queue,omitempty"`        // keep the place when the wait ends without a grant
	Holder      string            `json:"holder,omitempty"`       // shown to others: up to 255 bytes
	Metadata    map[string]string `json:"metadata,omitempty"`     // shown to others: up to 16 pairs, 2048 bytes in all

	// Key is the Idempotency-Key: 16 to 128 printable ASCII characters, fresh for each acquisition. With one the claim is sent
	// again when its answer was lost; without one it is not, unless it is on a lease.
	Key string `json:"-"`
}

// Claim is a claim on a name, as its owner sees it. In a list ID and LeaseID are empty unless it is one's own, or one administers
// the name.
type Claim struct {
	ID                string            `json:"id"` // a capability: whoever knows it can renew and release
	Name              string            `json:"name"`
	State             State             `json:"state"`
	FencingToken      int64             `json:"fencing_token,omitempty"` // only when held
	Position          int               `json:"position"`                // the claims ahead
	LeaseID           string            `json:"lease_id"`                // its own ID, unless it is on another lease
	TTLSeconds        int64             `json:"ttl_seconds"`
	RenewAfterSeconds int64             `json:"renew_after_seconds"`
	HoldLeftSeconds   *int64            `json:"hold_left_seconds,omitempty"` // for so long it is renewed still; nil: for as long as one likes
	Principal         string            `json:"principal,omitempty"`         // who claimed it, where the service asks that
	Holder            string            `json:"holder,omitempty"`
	Metadata          map[string]string `json:"metadata,omitempty"`

	// Replayed says that an earlier request made this claim, and this one found it by its key or its lease.
	Replayed bool `json:"-"`
}

// ClaimList is a page of claims, by name, and by order in the queue within a name.
type ClaimList struct {
	Locks      []Claim `json:"locks"`
	NextCursor string  `json:"next_cursor,omitempty"` // of the page after this; empty on the last
}

// LeaseRequest asks for a lease. See [Client.CreateLease].
type LeaseRequest struct {
	TTLSeconds int64             `json:"ttl_seconds,omitempty"` // 0 takes the service's default, 30
	Holder     string            `json:"holder,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
}

// LeaseInfo is a lease, or that of a lock which has its own.
type LeaseInfo struct {
	ID                string            `json:"id"` // a capability, like a claim's
	TTLSeconds        int64             `json:"ttl_seconds"`
	RenewAfterSeconds int64             `json:"renew_after_seconds"`
	FencingToken      int64             `json:"fencing_token,omitempty"`     // the lock's, when this is the lease of a lock's own
	HoldLeftSeconds   *int64            `json:"hold_left_seconds,omitempty"` // as in [Claim]
	Holder            string            `json:"holder,omitempty"`
	Metadata          map[string]string `json:"metadata,omitempty"`
}

// LeaseStatus is a lease with the TTL left and the locks held on it.
type LeaseStatus struct {
	ID                string            `json:"id"`
	TTLSeconds        int64             `json:"ttl_seconds"`
	TTLLeftSeconds    int64             `json:"ttl_left_seconds"` // when it was looked at: never count from it
	RenewAfterSeconds int64             `json:"renew_after_seconds"`
	FencingToken      int64             `json:"fencing_token,omitempty"`
	HoldLeftSeconds   *int64            `json:"hold_left_seconds,omitempty"` // as in [Claim]
	Holder            string            `json:"holder,omitempty"`
	Metadata          map[string]string `json:"metadata,omitempty"`
	Locks             []Claim           `json:"locks"` // oldest first
}

// Problem is a failure as the service tells it (RFC 9457). Branch on Code: the texts are for people.
type Problem struct {
	Type        string       `json:"type"`
	Title       string       `json:"title"`
	Status      int          `json:"status"`
	Detail      string       `json:"detail"`
	Code        Code         `json:"code"`
	Errors      []InputFault `json:"errors,omitempty"`       // with ErrInvalidRequest: each place that is at fault
	Holder      *LockHolder  `json:"holder,omitempty"`       // with ErrLockHeld; nil while the first in line is not yet granted
	QueueLength int          `json:"queue_length,omitempty"` // with ErrLockHeld: the claims that wait
	Reason      string       `json:"reason,omitempty"`       // with ErrLockBroken: what the administrator gave as the reason
}

// InputFault is one place of a request that is at fault. It has a Pointer into the body or the name of a Parameter.
type InputFault struct {
	Pointer   string `json:"pointer,omitempty"`
	Parameter string `json:"parameter,omitempty"`
	Detail    string `json:"detail"`
}

// LockHolder is who holds a lock.
type LockHolder struct {
	Holder       string            `json:"holder,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	Principal    string            `json:"principal,omitempty"` // where the service asks who calls
	FencingToken int64             `json:"fencing_token"`
}

// LeaseRenewed tells that the service renewed a lease.
type LeaseRenewed struct {
	TTLSeconds int64 `json:"ttl_seconds"`
	// RenewedAfterMS are the milliseconds between the arrival of the stream's request and the sending of the renewal.
	RenewedAfterMS int64 `json:"renewed_after_ms"`
	FencingToken   int64 `json:"fencing_token,omitempty"` // the lock's, when this is the lease of a lock's own
}

// LeaseWarning tells that the service could not renew a lease just now, and goes on trying.
type LeaseWarning struct {
	Code           Code   `json:"code"`
	Detail         string `json:"detail"`
	TTLSeconds     int64  `json:"ttl_seconds"`
	RenewedAfterMS int64  `json:"renewed_after_ms"` // of the last renewal that succeeded
}

// StreamEnd tells why a stream ends, though what it was about may well stand.
type StreamEnd struct {
	Code   Code   `json:"code"` // "time_up" when the stream has lasted as long as it may
	Detail string `json:"detail"`
}
