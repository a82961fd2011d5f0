package latchkey

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Code is a kind of failure that the service tells of. errors.Is finds it in an [*Error].
type Code string

func (c Code) Error() string { return "latchkey: " + string(c) }

// The codes of the service. What each one says of the outcome is in openapi.yaml.
const (
	ErrInvalidRequest       Code = "invalid_request"
	ErrUnauthorized         Code = "unauthorized" // no token or certificate that the service knows
	ErrForbidden            Code = "forbidden"    // not for this principal, with this name
	ErrNotFound             Code = "not_found"    // no such path: the base URL is wrong
	ErrLockNotFound         Code = "lock_not_found"
	ErrLeaseNotFound        Code = "lease_not_found"
	ErrMethodNotAllowed     Code = "method_not_allowed"
	ErrRequestTimeout       Code = "request_timeout"
	ErrLockHeld             Code = "lock_held"
	ErrLockQueued           Code = "lock_queued"
	ErrMaxHoldReached       Code = "max_hold_reached" // it is renewed no more, and runs out one TTL after the last renewal
	ErrLockBroken           Code = "lock_broken"      // an administrator took it away: see Reason in [Problem]
	ErrPayloadTooLarge      Code = "payload_too_large"
	ErrUnsupportedMediaType Code = "unsupported_media_type"
	ErrIdempotencyKeyReused Code = "idempotency_key_reused"
	ErrTooManyWaiters       Code = "too_many_waiters"
	ErrTooManyClaims        Code = "too_many_claims"
	ErrTooManyLeases        Code = "too_many_leases"
	ErrTooManyStreams       Code = "too_many_streams"
	ErrTooManyRequests      Code = "too_many_requests"
	ErrInternal             Code = "internal"
	ErrOverloaded           Code = "overloaded"
	ErrUnavailable          Code = "unavailable"
	ErrOutcomeUnknown       Code = "outcome_unknown"
	ErrDraining             Code = "draining"
	ErrPlaceLost            Code = "place_lost"
)

// Error is a failure that a server told of.
type Error struct {
	Problem                    // as far as the answer has one: Status always, Code only if it came from latchkey
	RetryAfter time.Duration   // 0 if the answer named none
	Document   json.RawMessage // the problem document as it came; nil if there was none
}

func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("latchkey: status %d, and no problem document of latchkey's", e.Status)
	}
	text := fmt.Sprintf("%v (%d): %s", e.Code, e.Status, e.Detail) // a code is an error, which says whose it is
	for _, f := range e.Errors {
		text += fmt.Sprintf("; %s%s %s", f.Pointer, f.Parameter, f.Detail)
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Unwrap returns the code, so that errors.Is(err, ErrLockHeld) and the like work.
func (e *Error) Unwrap() error { return e.Code }

// UnreachableError reports that no server gave a definite answer in time.
type UnreachableError struct {
	Last  error // what came of the last try: an *Error, or what is wrong with the connection
	Cause error // what ended the tries, if that was the caller's context; else nil
}

func (e *UnreachableError) Error() string {
	what := "no definite answer in time"
	if told := (*Error)(nil); errors.As(e.Last, &told) && told.Code != "" {
		what = "given up; the last answer"
	} else if e.Cause != nil {
		what = "no definite answer"
	}
	if e.Cause != nil {
		return fmt.Sprintf("latchkey: %s: %v; then: %v", what, e.Last, e.Cause)
	}
	return fmt.Sprintf("latchkey: %s: %v", what, e.Last)
}

// Unwrap returns what is known of why.
func (e *UnreachableError) Unwrap() []error {
	if e.Cause != nil {
		return []error{e.Last, e.Cause}
	}
	return []error{e.Last}
}

// NotAcquiredError reports that others had the lock for as long as it was waited for. Nothing is left of the claim, unless
// the service could not be told: then it lapses by itself.
type NotAcquiredError struct {
	Name   string
	Holder *LockHolder // nil if not known, or while the first in line is not yet granted
	// QueueLength is how many claims waited: all of them, for one that did not wait itself; else those that were ahead of this
	// one when the service last told.
	QueueLength int

	answer error // the *Error with ErrLockHeld, if there was one
}

func (e *NotAcquiredError) Error() string {
	if e.Holder != nil && e.Holder.Holder != "" {
		return fmt.Sprintf("latchkey: %q is held by %q", e.Name, e.Holder.Holder)
	}
	return fmt.Sprintf("latchkey: %q is held by another", e.Name)
}

// Unwrap returns the service's own answer, if there was one.
func (e *NotAcquiredError) Unwrap() error { return e.answer }

// ErrNotHeld is in every error that says why a lock or a lease is held no more.
var ErrNotHeld = errors.New("latchkey: not held")

// ErrReleased says that a lock is not held because it, or the lease that it is on, was released here.
var ErrReleased = fmt.Errorf("%w: it was released", ErrNotHeld)

// LostError reports that the service said that a lock or a lease is over: it ran out or was released, so somebody else may have
// it; an administrator took it away, and errors.Is finds [ErrLockBroken]; or it is renewed no more, and errors.Is finds
// [ErrMaxHoldReached]: then it stands until one TTL after its last renewal.
type LostError struct {
	Name  string // the lock's; empty for a lease
	Cause error  // the service's answer
}

// Why says it without the name, as what follows "the lock".
func (e *LostError) Why() string {
	told := (*Error)(nil)
	switch errors.As(e.Cause, &told); {
	case errors.Is(e.Cause, ErrLockBroken) && told.Reason != "":
		return "was broken by an administrator: " + told.Reason
	case errors.Is(e.Cause, ErrLockBroken):
		return "was broken by an administrator"
	case errors.Is(e.Cause, ErrMaxHoldReached):
		return "was held for as long as the service allows, and is renewed no more"
	}
	return fmt.Sprintf("is lost: %v", e.Cause)
}

func (e *LostError) Error() string { return "latchkey: " + called(e.Name) + " " + e.Why() }

// Unwrap returns ErrNotHeld and the cause.
func (e *LostError) Unwrap() []error { return []error{ErrNotHeld, e.Cause} }

// UncertainError reports that no renewal of a lock or a lease was done in time: the service could not be reached, or refused the
// token, or this process was stopped. It may still stand, or run out at any moment after [Lock.Remaining].
type UncertainError struct {
	Name  string // the lock's; empty for a lease
	Cause error  // what came of the last renewal that was tried; nil if none was
}

// Why says it without the name, as what follows "the lock".
func (e *UncertainError) Why() string {
	if e.Cause == nil {
		return "was not renewed in time"
	}
	return fmt.Sprintf("could not be renewed in time: %v", e.Cause)
}

func (e *UncertainError) Error() string { return "latchkey: " + called(e.Name) + " " + e.Why() }

// Unwrap returns ErrNotHeld and the cause.
func (e *UncertainError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrNotHeld}
	}
	return []error{ErrNotHeld, e.Cause}
}

func called(name string) string {
	if name == "" {
		return "the lease"
	}
	return fmt.Sprintf("%q", name)
}
