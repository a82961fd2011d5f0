package store

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Who says that it holds a name, and asks for it under another key, waits like anybody else, and takes nothing away.
func TestAnotherKeyOfTheHolderIsAnotherClaim(t *testing.T) {
	a, b := pair(t)
	const first, second = "first-key-0123456789", "second-key-0123456789"
	mine := Claim{Name: "x", TTL: 30 * time.Second, Holder: "the same"}
	with := func(key string, wait time.Duration) Claim {
		c := mine
		c.Key, c.Wait = key, wait
		return c
	}
	held := mustHold(t, a, with(first, 0))
	for _, s := range []*Store{a, b} {
		for _, wait := range []time.Duration{0, 500 * time.Millisecond} {
			begun := time.Now()
			_, err := s.Claim(ctxFor(t), with(second, wait))
			if busy := wantBusy(t, "another key of the holder", err); busy.Holder == nil || busy.Holder.Token != held.Token {
				t.Errorf("got %+v, want the holder with token %d", busy, held.Token)
			}
			if took := time.Since(begun); took < wait {
				t.Errorf("a wait of %v was over after %v", wait, took)
			}
		}
		if again := mustHold(t, s, with(first, within)); !again.Replayed || again.ID != held.ID || again.Token != held.Token {
			t.Errorf("the key again: got %+v, want %+v", again, held)
		}
	}
	wantSoleHolder(t, b, held)
	wait := claimInBackground(t, b, with(second, within))
	queuedUp(t, a, "x", 2)
	mustRelease(t, a, held)
	if next := getHeld(t, wait); next.Replayed || next.ID == held.ID || next.Token <= held.Token {
		t.Errorf("got %+v after %+v", next, held)
	}
}

// Waits that are broken off, whenever, leave nothing that a later request would share: not their place, and not their wait.
func TestCancelledWaitsLeaveNothingToWaitOn(t *testing.T) {
	const waits, soon = 20, 5 * time.Second
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x", TTL: 60 * time.Second})
	for _, s := range []*Store{a, b} {
		var all sync.WaitGroup
		for i := range waits {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(ctxFor(t), time.Duration(i*i)*time.Millisecond)
				defer cancel()
				if l, err := s.Claim(ctx, Claim{Name: "x", TTL: 30 * time.Second, Wait: within}); err == nil {
					t.Errorf("a wait that was broken off: got %+v", l)
				}
			})
		}
		all.Wait()
		for what, call := range map[string]func() error{
			"try": func() error {
				_, err := s.Claim(ctxFor(t), Claim{Name: "x", TTL: 30 * time.Second})
				wantBusy(t, "a try", err)
				return nil
			},
			"look":  func() error { return errOf(s.Look(ctxFor(t), held.ID)) },
			"ask":   func() error { return errOf(s.Ask(ctxFor(t), held.ID, within, time.Now())) },
			"renew": func() error { return errOf(s.Renew(ctxFor(t), held.ID, time.Now())) },
		} {
			begun := time.Now()
			if err := call(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if took := time.Since(begun); took > soon {
				t.Errorf("%s after %d waits that were broken off took %v", what, waits, took)
			}
		}
		queuedUp(t, s, "x", 1)
	}
	mustRelease(t, b, held)
	begun := time.Now()
	mustHold(t, a, Claim{Name: "x", Wait: within})
	if took := time.Since(begun); took > soon {
		t.Errorf("the name was free, and taken after %v", took)
	}
}
