package store

import (
	"context"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestRepeatOfAClaimWhoseTurnHasComeIsGranted repeats, without a wait, a claim whose client gave up: by then it is first
// in line and nobody holds the lock, so the answer is not that somebody does.
func TestRepeatOfAClaimWhoseTurnHasComeIsGranted(t *testing.T) {
	const key = "0123456789abcdef"
	for at, replica := range map[string]func(a, b *Store) *Store{
		"the replica that serves it": func(a, _ *Store) *Store { return a },
		"another":                    func(_, b *Store) *Store { return b },
	} {
		t.Run("at "+at, func(t *testing.T) {
			a, b := pair(t)
			held := mustHold(t, b, Claim{Name: "x"})
			ctx, giveUp := context.WithCancel(ctxFor(t))
			defer giveUp()
			wait := inBackground(func() (Lock, error) {
				return a.Claim(ctx, Claim{Name: "x", TTL: 30 * time.Second, Wait: within, Key: key})
			})
			mine := queuedUp(t, b, "x", 2)[1]
			giveUp()
			if _, err := get(t, wait); err == nil {
				t.Fatal("the wait that was given up succeeded")
			}
			mustRelease(t, b, held)
			l, err := replica(a, b).Claim(ctxFor(t), Claim{Name: "x", TTL: 30 * time.Second, Key: key})
			if err != nil || l.State != Held || !l.Replayed || l.ID != mine.ID {
				t.Errorf("got %+v, %v, want the claim held that stood first", l, err)
			}
		})
	}
}

// TestRepeatIsGrantedWhereTheViewIsBehind repeats it at a replica that has not heard of the release.
func TestRepeatIsGrantedWhereTheViewIsBehind(t *testing.T) {
	const key = "0123456789abcdef"
	faults := etcdtest.NewFaults(t)
	a, b := open(t, etcdtest.Shared(t).Client(t, faults)), open(t, shared(t))
	held := mustHold(t, b, Claim{Name: "x"})
	ctx, giveUp := context.WithCancel(ctxFor(t))
	defer giveUp()
	wait := inBackground(func() (Lock, error) {
		return a.Claim(ctx, Claim{Name: "x", TTL: 30 * time.Second, Wait: within, Key: key})
	})
	eventually(t, "a watches the name", func() bool { return current(t, a).waiting("x") == 2 })
	giveUp()
	if _, err := get(t, wait); err == nil {
		t.Fatal("the wait that was given up succeeded")
	}
	faults.Every(etcdtest.WatchReplies(nil)).LoseReply()
	mustRelease(t, b, held)
	l, err := a.Claim(ctxFor(t), Claim{Name: "x", TTL: 30 * time.Second, Key: key})
	if err != nil || l.State != Held || !l.Replayed {
		t.Errorf("got %+v, %v, want the claim held that stood first", l, err)
	}
}
