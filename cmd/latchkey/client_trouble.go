package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// troubleEvery is how often at most another trouble is told of: tries are made each second or so.
const troubleEvery = 10 * time.Second

// troubleTeller says what keeps a wait from getting on, when that begins and when it is something else, and that it goes on.
type troubleTeller struct {
	to   io.Writer
	name string
	told string    // "" while nothing is told to be wrong
	at   time.Time // when that was told last
}

func (t *troubleTeller) hear(err error) {
	if err == nil {
		if t.told != "" {
			fmt.Fprintf(t.to, "latchkey: %s: the wait goes on\n", shown(t.name))
		}
		t.told = ""
		return
	}
	if what := troubleOf(err); what != t.told && time.Since(t.at) >= troubleEvery {
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

// limited says which limit a claim that did not wait has met; it leaves other failures as they are.
func limited(name string, err error) error {
	answer := (*latchkey.Error)(nil)
	if !isRefusal(err) || errors.As(err, new(*latchkey.NotAcquiredError)) || failureCode(err) != exitNotAcquired || !errors.As(err, &answer) {
		return err
	}
	return fmt.Errorf("%s: not acquired: %w", shown(name), answered{answer})
}
