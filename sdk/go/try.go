package latchkey

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const mostAnswer = 16 << 20 // bytes that are read of a body

// request is one call of the API, as often as it is sent.
type request struct {
	method string
	path   string // ids need no escaping
	query  url.Values
	key    string
	body   any
	wait   time.Duration      // for so long the service may hold it open
	waits  func(*request)     // has the query or the body say what wait is; nil: it says nothing of it
	place  *place             // nil: it is no part of a call of Lock
	again  bool               // it can be sent again when its outcome is not known
	read   func([]byte) error // reads the body of a 2xx; nil if that is to be a 204
}

// waiting is r with less of a wait, in whole seconds, rounded up.
func (r request) waiting(wait time.Duration) request {
	if wait = max(0, wait+time.Second-1).Truncate(time.Second); wait < r.wait && r.waits != nil {
		r.wait = wait
		r.waits(&r)
	}
	return r
}

// into reads a body into out, if it is an answer at all: something between may have answered in the service's place.
func into[T any](out *T, sound func(T) bool) func([]byte) error {
	return func(body []byte) error {
		var got T
		if err := json.Unmarshal(body, &got); err != nil || !sound(got) {
			return errNotLatchkey
		}
		*out = got
		return nil
	}
}

// answer is a 2xx.
type answer struct {
	header  http.Header
	sent    time.Duration // on the client's clock, before the first byte left
	doubted bool          // an earlier try may have been done; told beside an error too
}

// try sends the request once, and remembers how the server did.
func (c *Client) try(ctx context.Context, server int, r request) (answer, error) {
	a, err := c.exchange(ctx, server, r)
	switch {
	case errors.Is(err, errNoToken): // no fault of the server's, which was not asked
	case err == nil || outcomeOf(err) == definite:
		c.servers.answered(server)
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errOutOfTime): // the caller's end, and no fault of the server's
	default:
		c.servers.failed(server, c.now())
		c.http.CloseIdleConnections() // they may be as dead as this one
	}
	return a, err
}

func (c *Client) exchange(ctx context.Context, server int, r request) (answer, error) {
	resp, a, err := c.send(ctx, server, r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	host := c.servers.host(server)
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return answer{}, &lineError{server: host, cause: withoutURL(err)}
	}
	if resp.StatusCode/100 != 2 {
		return answer{}, newError(resp, body)
	}
	if r.read == nil && resp.StatusCode != http.StatusNoContent {
		return answer{}, &lineError{server: host, cause: errNotLatchkey}
	}
	if r.read != nil {
		if err := r.read(body); err != nil {
			return answer{}, &lineError{server: host, cause: err}
		}
	}
	return a, nil
}

// newError reads what is not a 2xx.
func newError(resp *http.Response, body []byte) *Error {
	e := &Error{RetryAfter: retryAfter(resp.Header.Get("Retry-After"))}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "application/problem+json" && json.Unmarshal(body, &e.Problem) == nil {
		e.Document = body
	} else {
		e.Problem = Problem{}
	}
	e.Status = resp.StatusCode
	return e
}

// retryAfter reads the header's two forms.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
