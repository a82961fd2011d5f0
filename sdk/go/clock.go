package latchkey

import (
	"context"
	"fmt"
	"time"
)

func sinceStart() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// wholeSeconds is d as the service wants it. It never rounds.
func wholeSeconds(what string, d time.Duration) (int64, error) {
	if d < 0 || d%time.Second != 0 {
		return 0, fmt.Errorf("latchkey: %s is %v, and must be whole seconds", what, d)
	}
	return int64(d / time.Second), nil
}
