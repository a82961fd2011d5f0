package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// What a slice of load is about to do.
const (
	warming = iota
	measuring
	over
)

const (
	// afterFailure is a client's pause after a failed operation.
	afterFailure = 50 * time.Millisecond
	// A slice in which nothing has been done yet goes on until something is, for this many times its length.
	mostSlices = 20
)

// operation is one that a client does over and over. It returns the time that counts; none: it was done, but nothing of it
// is to be measured.
type operation func(ctx context.Context, client int) (took time.Duration, err error)

// load is how clients are made to work.
type load struct {
	clients     int
	warm, slice time.Duration
	usage       func() usage
	op          operation
	begin       func(context.Context) error // beside the clients at work, before the slice; may be nil
}

// run lets all clients work for a slice. An operation counts when it ended within it.
func (l load) run(ctx context.Context) (s sample) {
	var phase atomic.Int32
	any := make(chan struct{})
	anyDone := sync.OnceFunc(func() { close(any) })
	var mu sync.Mutex
	var times []time.Duration
	var clients sync.WaitGroup
	for i := range l.clients {
		clients.Go(func() {
			var own []time.Duration
			var bad failures
			for phase.Load() != over && ctx.Err() == nil {
				took, err := l.op(ctx, i)
				switch {
				case ctx.Err() != nil:
				case err != nil:
					bad.add(fmt.Errorf("client %d: %w", i, err))
					select {
					case <-ctx.Done():
					case <-pause(afterFailure):
					}
				case took > 0 && phase.Load() == measuring:
					own = append(own, took)
					anyDone()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, own...)
			s.merge(bad)
		})
	}
	if l.begin != nil {
		if err := l.begin(ctx); err != nil {
			phase.Store(over)
			clients.Wait()
			s.add(err)
			return s
		}
	}
	sleep(ctx, l.warm)
	before, began := l.usage(), time.Now()
	phase.Store(measuring)
	sleep(ctx, l.slice)
	select {
	case <-any:
	case <-ctx.Done():
	case <-pause(l.slice * mostSlices):
	}
	phase.Store(over)
	span, used := time.Since(began), l.usage().since(before)
	clients.Wait()
	s.done, s.figures = len(times), rates(times, span, used)
	return s
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-pause(d):
	}
}
