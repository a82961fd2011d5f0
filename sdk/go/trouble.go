package latchkey

import (
	"errors"
	"slices"
)

// trouble tells that a call of Lock does not get on, and when it does again. That one server fails is none while another does
// what is asked.
type trouble struct {
	to     func(error)
	failed []error // by server: what came of the last try there; nil if none was made since one succeeded
	told   bool
}

func newTrouble(servers int, to func(error)) *trouble {
	return &trouble{to: to, failed: make([]error, servers)}
}

// heard takes what came of a try at a server.
func (t *trouble) heard(server int, err error) {
	switch t.failed[server] = err; {
	case err == nil:
		clear(t.failed)
		if t.told {
			t.tell(nil)
		}
	case !slices.Contains(t.failed, nil):
		t.tell(t.worst())
	}
}

func (t *trouble) tell(err error) {
	if t.told = err != nil; t.to != nil {
		t.to(err)
	}
}

// worst is what the service says, if it says anything, before what is wrong with a line; and of equals always the same one, so
// that it does not change from try to try.
func (t *trouble) worst() error {
	says := slices.IndexFunc(t.failed, func(err error) bool {
		told := (*Error)(nil)
		return errors.As(err, &told) && told.Code != ""
	})
	return t.failed[max(0, says)]
}
