package server

import (
	"context"
	"sync"
	"time"

	"github.com/latchkey/latchkey/store"
)

// What answers of any length may take: so many are made at one time, half of them at the most for one principal, whose
// slow readers then are in nobody else's way; and another waits so long for its turn.
const (
	dearAtOnce   = 8
	dearOfOne    = dearAtOnce / 2
	dearPatience = 2 * time.Second
)

// turns are those that such answers take. Where nobody is asked who they are, all may have all.
type turns struct {
	all chan struct{}

	mu sync.Mutex
	of map[string]*share
}

// share are the turns of one principal that has or wants one.
type share struct {
	turns chan struct{}
	users int
}

func newTurns() turns {
	return turns{all: make(chan struct{}, dearAtOnce), of: map[string]*share{}}
}

// take waits for a turn, until done is called.
func (t *turns) take(ctx context.Context, who string) (done func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dearPatience, store.ErrOverloaded)
	defer cancel()
	own, leave := t.join(who)
	if err := enter(ctx, own); err != nil {
		leave()
		return nil, err
	}
	if err := enter(ctx, t.all); err != nil {
		<-own
		leave()
		return nil, err
	}
	return func() { <-t.all; <-own; leave() }, nil
}

func enter(ctx context.Context, turns chan struct{}) error {
	select {
	case turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// join is the share of a principal, which is kept until all that joined it leave.
func (t *turns) join(who string) (own chan struct{}, leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of[who]
	if s == nil {
		most := dearOfOne
		if who == "" {
			most = dearAtOnce
		}
		s = &share{turns: make(chan struct{}, most)}
		t.of[who] = s
	}
	s.users++
	return s.turns, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(t.of, who)
		}
	}
}

// dear says that the answer of an operation can be as long as there are locks.
func (o *operation) dear() bool { return o.id == "listLocks" || o.id == "getLease" }
