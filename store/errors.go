package store

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// What a call can end in besides success. Every error of the store is, or wraps, one of these.
var (
	// ErrNoLock: no such claim stands. It was released, ran out or lapsed, or never was.
	ErrNoLock = errors.New("no such lock")
	// ErrNoLease: no such lease stands.
	ErrNoLease = errors.New("no such lease")
	// ErrOnLease: a lock that stands has no lease of its own, for it is on one of its client's.
	ErrOnLease = fmt.Errorf("%w of its own: the lock is on one of its client's", ErrNoLease)
	// ErrLockQueued: the lock is not held yet, so there is no lease of its own to renew.
	ErrLockQueued = errors.New("the lock is still queued")
	// ErrKeyReused: the idempotency key stands for a claim that asked for something else.
	ErrKeyReused = errors.New("the idempotency key stands for another claim")
	// ErrPlaceLost: the claim vanished while the caller waited on it.
	ErrPlaceLost = errors.New("the place in the queue was lost")
	// ErrBadCursor: the cursor is none of ours, or of another list.
	ErrBadCursor = errors.New("no such cursor")
	// ErrTooManyWaiters: the name's queue is full. Nothing was done.
	ErrTooManyWaiters = errors.New("the queue of this name is full")
	// ErrOverloaded: this replica serves as many waiters, or sends as many claims, as it may at a time. Nothing was done.
	ErrOverloaded = errors.New("this replica does as much at a time as it may")
	// ErrDraining: this replica is going away and granted nothing. A claim that somebody can find keeps its place.
	ErrDraining = errors.New("this replica is going away")
	// ErrUnavailable: etcd cannot be used now. Nothing was done.
	ErrUnavailable = errors.New("etcd cannot be used now")
	// ErrUnknown: etcd did not answer in time. It may or may not have been done.
	ErrUnknown = errors.New("etcd did not answer in time: it may or may not have been done")
)

// HeldError reports that another claim has the name. Nothing of the caller's stands.
type HeldError struct {
	// Holder is the claim that holds it, without ID and LeaseID; nil while the first in line is not yet granted.
	Holder *Lock
	// QueueLength counts the claims that wait, the holder's not among them.
	QueueLength int
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("the lock is held, %d wait", e.QueueLength)
}

// InputError reports a value that the store cannot keep. Nothing was done.
type InputError struct {
	// Field is the one at fault, as Claim spells it: Name, TTL, Holder, Metadata, Key, Limit.
	Field string
	// Reason says what is allowed, with the bound.
	Reason string
}

func (e *InputError) Error() string { return e.Field + " " + e.Reason }

func badTTL(least, most time.Duration) error {
	return &InputError{"TTL", fmt.Sprintf("must be from %d to %d seconds", int(least.Seconds()), int(most.Seconds()))}
}

// What stays inside.
var (
	// errForeign: something under the prefix that this version cannot read.
	errForeign = fmt.Errorf("%w: the store holds what this version cannot read", ErrUnavailable)
	// errWaitOver: the time that a request wanted to wait is over.
	errWaitOver = errors.New("the wait is over")
	// errReplaced: etcd is not the store it was: wiped, restored, or another.
	errReplaced = fmt.Errorf("%w: the store was replaced or restored", ErrUnavailable)
	// errOtherEpoch: somebody began a new epoch.
	errOtherEpoch = fmt.Errorf("%w: a new epoch began", ErrUnavailable)
	// errFenceGone: this replica was cut off for so long that its registration ran out.
	errFenceGone = fmt.Errorf("%w: this replica's registration ran out", ErrUnavailable)
	// errClosed: the store is closed.
	errClosed = fmt.Errorf("%w: closed", ErrUnavailable)
)

// unavailable sorts a failure that certainly changed nothing.
func unavailable(err error) error {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// unavailableUnlessOurs sorts a failure that has not been sorted yet: a refusal of etcd's.
func unavailableUnlessOurs(err error) error {
	for _, ours := range []error{ErrUnknown, ErrNoLease, ErrNoLock, ErrTooManyWaiters, ErrOverloaded} {
		if errors.Is(err, ours) {
			return err
		}
	}
	return unavailable(err)
}

// unknown sorts a failure after which nobody can say what was done.
func unknown(err error) error {
	if errors.Is(err, ErrUnknown) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// certain reports that etcd refused: what was sent was not applied, and never will be.
func certain(err error) bool {
	for _, refusal := range []error{
		rpctypes.ErrLeaseNotFound, rpctypes.ErrNoSpace, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyRequests,
		rpctypes.ErrTooManyOps, rpctypes.ErrDuplicateKey, rpctypes.ErrEmptyKey, rpctypes.ErrPermissionDenied,
		rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision, rpctypes.ErrAuthFailed,
		rpctypes.ErrUserNotFound, rpctypes.ErrCorrupt, rpctypes.ErrNotCapable,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// ofOne reports a refusal that can be the fault of one transaction among those of a batch.
func ofOne(err error) bool {
	for _, refusal := range []error{
		rpctypes.ErrLeaseNotFound, rpctypes.ErrNoSpace, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps,
		rpctypes.ErrDuplicateKey, rpctypes.ErrPermissionDenied,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
