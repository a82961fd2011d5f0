package server

import (
	"context"
	"time"

	"github.com/latchkey/latchkey/store"
)

// What answers of any length may take: so many are made at one time, and another waits so long for its turn.
const (
	dearAtOnce   = 8
	dearPatience = 2 * time.Second
)

// dearly waits for the turn of a request whose answer can be long, until done is called.
func (l *limits) dearly(ctx context.Context) (done func(), err error) {
	late := time.NewTimer(dearPatience)
	defer late.Stop()
	select {
	case l.dear <- struct{}{}:
		return func() { <-l.dear }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, store.ErrOverloaded
	}
}

// dear says that the answer of an operation can be as long as there are locks.
func (o *operation) dear() bool { return o.id == "listLocks" || o.id == "getLease" }
