package latchkey

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

var errNotLatchkey = errors.New("the answer is not one of latchkey's")

// lineError is a try without an answer.
type lineError struct {
	server string
	cause  error
}

func (e *lineError) Error() string { return "latchkey: " + e.server + ": " + e.cause.Error() }
func (e *lineError) Unwrap() error { return e.cause }

// withoutURL keeps the path, which has an id in it, out of the error's text.
func withoutURL(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// outcome is what is known of a request whose try failed.
type outcome int

const (
	definite outcome = iota // answered: sending it again would change nothing
	notDone
	unknown
)

func outcomeOf(err error) outcome {
	var told *Error
	if errors.As(err, &told) {
		return told.outcome()
	}
	var line *lineError
	if !errors.As(err, &line) {
		return definite // it could not be made
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" || errors.As(err, new(*tls.CertificateVerificationError)) {
		return notDone
	}
	return unknown
}

func (e *Error) outcome() outcome {
	switch e.Code {
	case "": // something between answered in the service's place
		if e.Status < http.StatusInternalServerError {
			return notDone
		}
		return unknown
	case ErrUnavailable, ErrOverloaded, ErrDraining, ErrTooManyWaiters, ErrRequestTimeout:
		return notDone
	case ErrPlaceLost:
		return definite
	}
	switch {
	case e.Status == http.StatusTooManyRequests:
		return notDone
	case e.Status >= http.StatusInternalServerError:
		return unknown
	}
	return definite
}

// pauseOf is how long a server asked to be left alone.
func pauseOf(err error) time.Duration {
	if told := (*Error)(nil); errors.As(err, &told) {
		return told.RetryAfter
	}
	return 0
}
