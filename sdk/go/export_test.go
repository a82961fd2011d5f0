package latchkey

import (
	"sync/atomic"
	"time"
)

// Jumping gives the client, before it is used, a clock that can jump as it does when the machine has slept: no timer hears.
func (c *Client) Jumping() (jump func(time.Duration)) {
	var jumped atomic.Int64
	now := c.now
	c.now = func() time.Duration { return now() + time.Duration(jumped.Load()) }
	return func(d time.Duration) { jumped.Add(int64(d)) }
}
