package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// Exit codes of all commands but those of the service, which have two of their own: those of sysexits.h where it has one.
const (
	exitUsage       = 64 // EX_USAGE
	exitUnreachable = 69 // EX_UNAVAILABLE
	exitNotTold     = 74 // EX_IOERR
	exitNotAcquired = 75 // EX_TEMPFAIL
	exitLost        = 76
	exitNotAllowed  = 77 // EX_NOPERM

	exitCannotRun = 126 // as shells do
	exitNoCommand = 127
	exitSignal    = 128 // and the signal's number
)

// clientExitHelp is told by every command of a client.
const clientExitHelp = "Exit codes: 0 done; 64 bad usage; 69 no server could be reached, or none gave a definite answer in time; " +
	"74 what was to be printed could not be written, and a lock that was acquired is released again; 75 not acquired: another holds the lock, it is still queued, or a limit of the service is reached; 76 no such lock stands: it was " +
	"released, lost, broken by an administrator, or never was; 77 not allowed: the token or certificate is refused, or may not do this; " +
	"128 and the number of the signal by which it was stopped."

// exitError ends the program with a code of its own.
type exitError struct {
	code  int
	cause error // nil: there is nothing to say
}

func (e *exitError) Error() string {
	if e.cause == nil {
		return ""
	}
	return e.cause.Error()
}

func (e *exitError) Unwrap() error { return e.cause }

// exitCode is what the program ends with after run has returned err.
func exitCode(err error) int {
	if own := (*exitError)(nil); errors.As(err, &own) {
		return own.code
	}
	if start := (*startError)(nil); errors.As(err, &start) {
		return exitBadStart
	}
	return exitBadEnd
}

// clientCommand is a command whose exit codes are those of a client.
type clientCommand interface {
	command
	ofClient()
}

// signalled is a signal as the cause of an end.
type signalled struct{ os.Signal }

func (s signalled) Error() string { return "stopped by the signal " + s.String() }

// code is what a shell tells of a process that the signal ended.
func (s signalled) code() int {
	if number, ok := s.Signal.(syscall.Signal); ok {
		return exitSignal + int(number)
	}
	return exitBadEnd
}

// clientEnd is what a command of a client ends with when the service, or a signal, gave it err.
func clientEnd(stop context.Context, err error) error {
	if err == nil {
		return nil
	}
	if told := (signalled{}); stop.Err() != nil && errors.As(context.Cause(stop), &told) {
		return &exitError{told.code(), nil}
	}
	return &exitError{failureCode(err), plain{err}}
}

// notTold is the end of a command that could not say what it had to say.
func notTold(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitNotTold, fmt.Errorf("the answer could not be written: %w", plain{err})}
}

// failureCode is the exit code for a failure that the service told, or for its silence.
func failureCode(err error) int {
	for code, targets := range failureCodes {
		if slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) }) {
			return code
		}
	}
	if errors.As(err, new(*latchkey.NotAcquiredError)) {
		return exitNotAcquired
	}
	if told := (*latchkey.Error)(nil); errors.As(err, &told) && told.Status/100 == 4 && told.Code != "" && told.Code != latchkey.ErrRequestTimeout {
		return exitUsage
	}
	return exitUnreachable
}

// failureCodes are the exit codes of failures that are told apart. No failure is of two.
var failureCodes = map[int][]error{
	exitNotAcquired: {
		latchkey.ErrLockHeld, latchkey.ErrLockQueued, latchkey.ErrTooManyWaiters, latchkey.ErrTooManyClaims,
		latchkey.ErrTooManyLeases, latchkey.ErrTooManyStreams, latchkey.ErrTooManyRequests,
	},
	exitLost: {
		latchkey.ErrNotHeld, latchkey.ErrLockNotFound, latchkey.ErrLeaseNotFound, latchkey.ErrLockBroken, latchkey.ErrMaxHoldReached,
	},
	exitNotAllowed: {latchkey.ErrUnauthorized, latchkey.ErrForbidden},
}

// plain says an error of the SDK's without the name that it puts before each.
type plain struct{ error }

func (p plain) Error() string { return withoutPackage(p.error.Error()) }
func (p plain) Unwrap() error { return p.error }
