package latchkey

import "context"

// heldContext ends with its parent, or when what it is for is held no more. It asks the clock before it says that it has not
// ended, so that a process that was stopped learns it before it goes on.
type heldContext struct {
	context.Context
	cancel context.CancelCauseFunc
	check  func() error
}

// newHeldContext returns a context that ends with parent or with held, the context of what is held.
func newHeldContext(parent, held context.Context, check func() error) context.Context {
	inner, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	context.AfterFunc(inner, func() { stop() })
	return heldContext{inner, cancel, check}
}

func (c heldContext) Err() error {
	c.look()
	return c.Context.Err()
}

func (c heldContext) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

func (c heldContext) look() {
	if err := c.check(); err != nil {
		c.cancel(err)
	}
}
