package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

var errNo = errors.New("no")

func shortLoad(n int, op operation) load {
	return load{
		clients: n, warm: 5 * time.Millisecond, slice: 20 * time.Millisecond,
		usage: func() usage { return usage{} }, op: op,
	}
}

func TestFailedOperationsAreNotDone(t *testing.T) {
	s := shortLoad(2, func(_ context.Context, client int) (time.Duration, error) {
		time.Sleep(time.Millisecond)
		if client == 1 {
			return time.Hour, errNo
		}
		return time.Millisecond, nil
	}).run(t.Context())
	if s.done == 0 || s.figures[p99] != 1000 {
		t.Errorf("%d operations done, p99 %v µs, want those of client 0 alone", s.done, s.figures[p99])
	}
	if s.failed == 0 || !errors.Is(s.first, errNo) {
		t.Errorf("%d failed, the first with %v", s.failed, s.first)
	}
	var c cell
	c.take(s)
	c.take(sample{failures: failures{failed: 1, first: errors.New("later")}})
	r := result{Cells: []cell{c}}
	if err := r.failures(); c.Failed != s.failed+1 || c.Failure != s.first.Error() || !errors.Is(err, errFailed) {
		t.Errorf("%d failed with %q, want %d with the first: %v", c.Failed, c.Failure, s.failed+1, err)
	}
}

func TestSliceGoesOnUntilSomethingIsDone(t *testing.T) {
	s := shortLoad(1, func(context.Context, int) (time.Duration, error) {
		time.Sleep(40 * time.Millisecond)
		return 40 * time.Millisecond, nil
	}).run(t.Context())
	if s.done == 0 {
		t.Error("nothing is done")
	}
}

// inTurn is a lock without a service.
type inTurn struct {
	client
	lock chan struct{}
}

func (c inTurn) acquire(context.Context, string) error {
	c.lock <- struct{}{}
	return nil
}

func (c inTurn) release(context.Context) error {
	time.Sleep(handedOver)
	<-c.lock
	return nil
}

const handedOver = 2 * time.Millisecond

func TestHandOffIsFromReleaseSentToGrantReceived(t *testing.T) {
	c := inTurn{lock: make(chan struct{}, 1)}
	took := make(chan time.Duration)
	pass := passOn(crew{c, c}, "a")
	go func() {
		for range 3 {
			d, _ := pass(t.Context(), 0)
			took <- d
		}
	}()
	if first := <-took; first != 0 {
		t.Errorf("the first grant, before which nobody held the lock, took %v, want nothing", first)
	}
	for range 2 {
		if d := <-took; d < handedOver {
			t.Errorf("a hand-off took %v, want at least the %v of the release", d, handedOver)
		}
	}
}
