package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/server/access"
	"github.com/latchkey/latchkey/store"
)

// What can be wrong before the store is asked.
var (
	errNoRoute     = errors.New("no such path")
	errMethod      = errors.New("no such method on this path")
	errMediaType   = errors.New("the body is not JSON")
	errBodyTooSlow = errors.New("the body took too long to arrive")
	errPanic       = errors.New("a handler panicked")
	errManyStreams = errors.New("as many streams are open as may be")
)

// bodyTooLargeError reports a body over the limit, in bytes.
type bodyTooLargeError struct{ limit int64 }

func (e *bodyTooLargeError) Error() string {
	return fmt.Sprintf("the body is larger than %d bytes", e.limit)
}

// inputError reports every place of a request that is at fault.
type inputError struct{ faults []api.InputFault }

func (e *inputError) Error() string {
	if len(e.faults) == 1 {
		return "the request has a fault"
	}
	return fmt.Sprintf("the request has %d faults", len(e.faults))
}

// failure is one row of the table of failures.
type failure struct {
	status int
	code   string
	title  string
	detail string
}

// gone tells a claim or a lease that is over from a trouble that it may outlive.
func (f failure) gone() bool {
	return f.status == http.StatusNotFound || f.status == http.StatusGone || f.code == "place_lost"
}

var outcomeUnknown = failure{http.StatusServiceUnavailable, "outcome_unknown", "The outcome is unknown",
	"the store did not answer in time: it may or may not have been done; " +
		"send the request again, a claim with the same Idempotency-Key"}

// failureOf is the table of failures: the one place where an error becomes a status.
func failureOf(err error) failure {
	var (
		input    *inputError
		refused  *store.InputError
		held     *store.HeldError
		tooLarge *bodyTooLargeError
		may      *forbiddenError
		limit    *limitError
		broken   *store.BrokenError
	)
	switch {
	case errors.As(err, &input):
		return failure{http.StatusBadRequest, "invalid_request", "The request is not valid", input.Error()}
	case errors.As(err, &refused), errors.Is(err, store.ErrBadCursor):
		return failure{http.StatusBadRequest, "invalid_request", "The request is not valid", "the request has a fault"}
	case errors.Is(err, access.ErrNoCredentials), errors.Is(err, access.ErrBadCredentials):
		return failure{http.StatusUnauthorized, "unauthorized", "Not authenticated",
			"send a token that this server knows as Authorization: Bearer, or use a client certificate"}
	case errors.As(err, &may):
		return failure{http.StatusForbidden, "forbidden", "Not allowed", may.Error()}
	case errors.Is(err, errNoRoute):
		return failure{http.StatusNotFound, "not_found", "No such path", "there is nothing at this path"}
	case errors.Is(err, store.ErrNoLock):
		return failure{http.StatusNotFound, "lock_not_found", "No such lock",
			"no such claim stands: it was released, ran out or lapsed, or never was"}
	case errors.Is(err, store.ErrOnLease):
		return failure{http.StatusNotFound, "lease_not_found", "No such lease",
			"this lock has no lease of its own, and stands on the one that is its lease_id: renew, look at or end that one"}
	case errors.Is(err, store.ErrNoLease):
		return failure{http.StatusNotFound, "lease_not_found", "No such lease",
			"no such lease stands: it was ended, ran out, or never was"}
	case errors.Is(err, errMethod):
		return failure{http.StatusMethodNotAllowed, "method_not_allowed", "The method is not allowed",
			"this path does not have this method: see Allow"}
	case errors.Is(err, errBodyTooSlow):
		return failure{http.StatusRequestTimeout, "request_timeout", "The request took too long to arrive",
			"the body did not arrive in time"}
	case errors.As(err, &held):
		return failure{http.StatusConflict, "lock_held", "The lock is held", "another claim has this name"}
	case errors.Is(err, store.ErrLockQueued):
		return failure{http.StatusConflict, "lock_queued", "The lock is still queued",
			"the lock is not held yet, so it has no lease to renew: ask for it at GET /locks/{id}?wait_seconds="}
	case errors.Is(err, store.ErrMaxHold):
		return failure{http.StatusConflict, "max_hold_reached", "Held for as long as it may be",
			"it was held for as long as this server allows: it is renewed no more and runs out"}
	case errors.As(err, &broken):
		return failure{http.StatusGone, "lock_broken", "The lock was broken", "an administrator took this lock away"}
	case errors.As(err, &tooLarge):
		return failure{http.StatusRequestEntityTooLarge, "payload_too_large", "The body is too large", tooLarge.Error()}
	case errors.Is(err, errMediaType):
		return failure{http.StatusUnsupportedMediaType, "unsupported_media_type", "The body is not JSON",
			"send the body as application/json, uncompressed: with curl, use --json"}
	case errors.Is(err, store.ErrKeyReused):
		return failure{http.StatusUnprocessableEntity, "idempotency_key_reused",
			"The idempotency key stands for another claim",
			"the key stands for a claim on this name that asked for another TTL, lease, holder or metadata: " +
				"use a fresh key for each acquisition"}
	case errors.Is(err, store.ErrTooManyWaiters):
		return failure{http.StatusTooManyRequests, "too_many_waiters", "The queue is full",
			"the queue of this name is full"}
	case errors.As(err, &limit):
		return failure{http.StatusTooManyRequests, limit.code, limit.title, limit.detail}
	case errors.Is(err, store.ErrOverloaded), errors.Is(err, errManyStreams):
		return failure{http.StatusServiceUnavailable, "overloaded", "Overloaded",
			"this replica does as much at a time as it may"}
	case errors.Is(err, store.ErrDraining):
		return failure{http.StatusServiceUnavailable, "draining", "Going away",
			"this replica is going away: come back through another"}
	case errors.Is(err, store.ErrPlaceLost):
		return failure{http.StatusServiceUnavailable, "place_lost", "The place was lost",
			"the claim vanished while it was waited on: claim again"}
	case errors.Is(err, store.ErrUnknown):
		return outcomeUnknown
	case errors.Is(err, access.ErrCannotTell):
		return failure{http.StatusServiceUnavailable, "unavailable", "Unavailable",
			"who you are cannot be found out now: the keys of the issuer are out of reach"}
	case errors.Is(err, store.ErrUnavailable):
		return failure{http.StatusServiceUnavailable, "unavailable", "Unavailable", "the store cannot be used now"}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return outcomeUnknown // the store has not sorted it
	default:
		return failure{http.StatusInternalServerError, "internal", "Internal error",
			"the service has a fault: it was logged"}
	}
}

// problemOf says an error in the contract's words. The operation tells where a value came from that the store refused.
func problemOf(err error, op *operation) api.Problem {
	f := failureOf(err)
	p := api.Problem{
		Type:  "/openapi.yaml#/components/examples/" + f.code,
		Title: f.title, Status: f.status, Detail: f.detail, Code: f.code,
	}
	var (
		input   *inputError
		refused *store.InputError
		held    *store.HeldError
		broken  *store.BrokenError
	)
	switch {
	case errors.As(err, &input):
		p.Errors = input.faults
	case errors.As(err, &broken):
		p.Reason = broken.Reason
	case errors.As(err, &refused):
		p.Errors = []api.InputFault{faultIn(op, refused)}
	case errors.Is(err, store.ErrBadCursor):
		p.Errors = []api.InputFault{{Parameter: "cursor", Detail: "must be the next_cursor of a page with the same filters"}}
	case errors.As(err, &held):
		p.QueueLength = &held.QueueLength
		if h := held.Holder; h != nil {
			p.Holder = &api.LockHolder{FencingToken: h.Token, Principal: h.Owner, Holder: h.Holder, Metadata: h.Metadata}
		}
	}
	return p
}

// faultIn finds the place in the request of a value that the store refused.
func faultIn(op *operation, refused *store.InputError) api.InputFault {
	field := map[string]string{
		"Name": "name", "Prefix": "prefix", "TTL": "ttl_seconds", "LeaseID": "lease_id", "Holder": "holder",
		"Metadata": "metadata", "Key": idempotencyKey, "Limit": "limit", "Wait": "wait_seconds",
	}[refused.Field]
	fault := api.InputFault{Detail: refused.Reason}
	if op.body != nil && op.body.Properties[field] != nil {
		pointer := "/" + field
		fault.Pointer = &pointer
	} else {
		fault.Parameter = field
	}
	return fault
}

// fail answers with the problem that err is. An answer that has begun is left as it is.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	ex := exchangeOf(r.Context())
	ex.cause = err
	if ex.status != 0 {
		return
	}
	problem := problemOf(err, ex.operation)
	ex.code = problem.Code
	if problem.Code == "overloaded" {
		s.holdBack(r.Context())
	}
	if problem.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="latchkey"`)
	}
	if seconds := s.retryAfter(err, problem); seconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	if werr := writeJSON(w, problem.Status, "application/problem+json", problem); werr != nil {
		ex.cause = errors.Join(err, werr)
	}
}

// holdBack lets who is refused wait for a little. Nothing is kept for them meanwhile but their line, while those who come
// back at once, as many do, would take the time of all who are served.
func (s *Server) holdBack(ctx context.Context) {
	pause := time.NewTimer(s.cfg.OverloadPause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
}

// failUnread answers a request that the generated code could not read though the guard let it pass.
func (s *Server) failUnread(w http.ResponseWriter, r *http.Request, err error) {
	var (
		format   *api.InvalidParamFormatError
		repeated *api.TooManyValuesForParamError
	)
	pointer := ""
	fault := api.InputFault{Pointer: &pointer, Detail: "cannot be read"}
	switch {
	case errors.As(err, &format):
		fault = api.InputFault{Parameter: format.ParamName, Detail: "cannot be read"}
	case errors.As(err, &repeated):
		fault = api.InputFault{Parameter: repeated.ParamName, Detail: "must be given once"}
	}
	s.fail(w, r, &inputError{[]api.InputFault{fault}})
}

// longQueue is the queue length from which on a refused try is not put off any longer.
const longQueue = 8

// retryAfter is in seconds, and 0 where there is nothing to wait for.
func (s *Server) retryAfter(err error, problem api.Problem) int {
	var held *store.HeldError
	switch {
	case errors.As(err, &held):
		return s.vary(min(held.QueueLength, longQueue))
	case problem.Status == http.StatusConflict, problem.Status == http.StatusTooManyRequests,
		problem.Status == http.StatusServiceUnavailable:
		return s.vary(0)
	}
	return 0
}

// vary returns the configured RetryAfter in seconds, longer by up to as much again and up to more seconds, so that those
// who were refused together do not come back together.
func (s *Server) vary(more int) int {
	base := max(1, int(s.cfg.RetryAfter/time.Second))
	return base + rand.IntN(base+more+1)
}

// writeJSON writes a whole answer, and flushes it: only that tells of a client that is gone.
func writeJSON(w http.ResponseWriter, status int, mediaType string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return writeWhole(w, status, mediaType, append(text, '\n'))
}

func writeWhole(w http.ResponseWriter, status int, mediaType string, body []byte) error {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
