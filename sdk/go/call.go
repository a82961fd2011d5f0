package latchkey

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	leastPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
	leastTry   = time.Second // what a try gets at least, as far as there is time
)

var (
	errOutOfTime     = errors.New("no answer in time")
	errAskedForPause = errors.New("it asked to be left alone for longer")
)

// call sends the request until it has a definite answer, as far as its outcome allows that. It returns an *Error, an
// *UnreachableError, or why the request could not be made or was given up.
func (c *Client) call(ctx context.Context, r request) (answer, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, r.wait+c.timeout, errOutOfTime)
	defer cancel()
	began, wait, asked := c.now(), r.wait, map[int]bool{}
	pauses := backoff{most: mostPause}
	var last error
	var doubted bool
	notUntil := map[int]time.Duration{} // for this call alone: what one name is refused another may get
	for {
		server, pause := c.servers.next(c.now(), notUntil)
		if !sleep(bounded, pause) {
			if last == nil && ctx.Err() == nil {
				last = &lineError{c.servers.host(server), errAskedForPause}
			}
			return answer{doubted: doubted}, givenUp(ctx, last)
		}
		r = r.waiting(wait - (c.now() - began)) // what a silent server took is not waited for again
		a, err := c.tryWithin(bounded, boundOf(bounded, r, c.servers.untried(asked)), server, r)
		asked[server] = true
		a.doubted = doubted
		if err == nil {
			r.place.heard(server, nil)
			return a, nil
		}
		o := outcomeOf(err)
		doubted = doubted || o == unknown
		notUntil[server] = c.now() + r.place.heeded(pauseOf(err), doubted)
		if ctx.Err() == nil { // else it says no more than that the caller went
			last = err
			r.place.heard(server, err)
		}
		switch {
		case o == definite:
			return a, err
		case bounded.Err() == nil && o == unknown && !r.again:
			return answer{doubted: true}, public(err)
		case r.place.over() || !sleep(bounded, pauses.next()):
			return answer{doubted: doubted}, givenUp(ctx, last)
		}
	}
}

// boundOf leaves a silent server, beyond the wait, its share of the time that there is, and the rest to those that were not asked
// yet; half of it at most, for a second try.
func boundOf(bounded context.Context, r request, untried int) time.Duration {
	end, _ := bounded.Deadline()
	return r.wait + r.place.patience(max((time.Until(end)-r.wait)/time.Duration(max(untried, 2)), leastTry))
}

// tryWithin is one try with a bound.
func (c *Client) tryWithin(ctx context.Context, bound time.Duration, server int, r request) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, errOutOfTime)
	defer cancel()
	return c.try(ctx, server, r)
}

// givenUp says why there is no answer: last is what came of the last try, nil if the caller went before one failed.
func givenUp(ctx context.Context, last error) error {
	if last == nil {
		return fmt.Errorf("latchkey: given up: %w", endOf(ctx))
	}
	return &UnreachableError{Last: last, Cause: endOf(ctx)}
}

// public is the error of a single try as a caller may see it.
func public(err error) error {
	if told := (*Error)(nil); errors.As(err, &told) && told.Code != "" {
		return err
	}
	return &UnreachableError{Last: err}
}

// endOf is why ctx ended, nil if it did not. It matches context.Canceled or context.DeadlineExceeded, whatever the cause.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// backoff are pauses of full jitter whose bound doubles.
type backoff struct {
	bound, most time.Duration
}

func (b *backoff) next() time.Duration {
	b.bound = min(max(2*b.bound, leastPause), b.most)
	return rand.N(b.bound)
}
