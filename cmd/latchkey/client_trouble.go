package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// troubleEvery is how often at most another trouble is told of: tries are made each second or so.
const troubleEvery = 10 * time.Second

// troubleTeller says what keeps a claim from getting on, when that begins and when it is something else, and that it goes on.
type troubleTeller struct {
	to   io.Writer
	name string
	told string    // "" while nothing is told to be wrong
	at   time.Time // when that was told last

	atLimit func()          // has a claim that does not wait end at a limit, for which it would be tried until --timeout; else nil
	limit   *latchkey.Error // that limit
}

func (t *troubleTeller) hear(err error) {
	switch {
	case t.atLimit != nil && isLimit(err) && errors.As(err, &t.limit):
		t.atLimit()
	case err != nil:
		t.tell(troubleOf(err))
	case t.told != "":
		t.told = ""
		fmt.Fprintf(t.to, "latchkey: %s: going on\n", shown(t.name))
	}
}

func (t *troubleTeller) tell(what string) {
	if what != t.told && time.Since(t.at) >= troubleEvery {
		t.told, t.at = what, time.Now()
		fmt.Fprintf(t.to, "latchkey: %s: %s; trying on\n", shown(t.name), what)
	}
}

// troubleOf is what the service says; else what is wrong with the way there, which has neither addresses nor ports in it, as
// those change from try to try.
func troubleOf(err error) string {
	answer := (*latchkey.Error)(nil)
	switch told := errors.As(err, &answer); {
	case told && answer.Code != "":
		return answered{answer}.Error()
	case told: // by something between
		err = answer
	default:
		err = innermost(err)
	}
	return fmt.Sprintf("no server answers (%v)", plain{err})
}

func innermost(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// answered says a failure as the service told it.
type answered struct{ answer *latchkey.Error }

func (a answered) Error() string {
	return fmt.Sprintf("the service says %s: %s", string(a.answer.Code), a.answer.Detail)
}

func (a answered) Unwrap() error { return a.answer }

// isLimit says whether the service refused because there is as much as there may be. That ends when something else does, and not
// by itself in a moment, as a rate does.
func isLimit(err error) bool {
	return slices.ContainsFunc([]error{latchkey.ErrTooManyClaims, latchkey.ErrTooManyLeases, latchkey.ErrTooManyWaiters}, func(limit error) bool {
		return errors.Is(err, limit)
	})
}
