package latchkey

import (
	"context"
	"errors"
	"log/slog"
)

// leave gives back what an acquisition that failed may have left, and returns its failure as the caller is to see it.
func (a *acquisition) leave(ctx context.Context, failure error) error {
	bounded, cancel := detached(ctx, leaveBound)
	defer cancel()
	left := a.undo(bounded)
	if left != nil {
		a.c.log.Info("a claim could not be given back: it lapses by itself", slog.String("lock", a.asked.Name), slog.Any("error", left))
	}
	told, unreachable := (*Error)(nil), (*UnreachableError)(nil)
	switch {
	case errors.As(failure, &told) && told.Code == ErrLockHeld:
		return &NotAcquiredError{Name: a.asked.Name, Holder: told.Holder, QueueLength: told.QueueLength, answer: failure}
	case ctx.Err() != nil && !errors.Is(failure, ctx.Err()):
		return givenUp(ctx, nil)
	case ctx.Err() != nil || !errors.Is(failure, errWaitOver):
		return failure
	case errors.As(left, &unreachable):
		return &UnreachableError{Last: unreachable.Last}
	}
	return &NotAcquiredError{Name: a.asked.Name, Holder: a.holder(bounded), QueueLength: max(0, a.claim.Position-1)}
}

// undo removes the claim. One whose id was never told is tried for once more, without a wait, to learn it.
func (a *acquisition) undo(ctx context.Context) error {
	id := a.claim.ID
	if id == "" && !a.doubted {
		return nil
	}
	if id == "" {
		again := a.asked
		again.Queue = false
		claim, err := a.c.Claim(ctx, again)
		if err != nil {
			if errors.Is(err, ErrLockHeld) {
				return nil // it left the queue, or was not there
			}
			return err
		}
		id = claim.ID
	}
	if err := a.c.Release(ctx, id); !isOver(err) {
		return err
	}
	return nil
}

// holder is who has the lock now; nil if that cannot be learned.
func (a *acquisition) holder(ctx context.Context) *LockHolder {
	page, err := a.c.List(ctx, Filter{Name: a.asked.Name, State: Held, Limit: 1})
	if err != nil || len(page.Locks) == 0 {
		return nil
	}
	held := page.Locks[0]
	return &LockHolder{Holder: held.Holder, Metadata: held.Metadata, FencingToken: held.FencingToken}
}
