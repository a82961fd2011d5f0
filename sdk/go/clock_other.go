//go:build !linux

package latchkey

import "time"

// newClock returns a clock that only goes forward. It may stand still while the machine sleeps.
func newClock() func() time.Duration { return sinceStart() }
