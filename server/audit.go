package server

import (
	"context"
	"errors"
	"net"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/server/access"
	"github.com/latchkey/latchkey/store"
)

// breakLock takes a lock away from whoever has it, and leaves a line of that in the audit log: who did it, why, and to
// whom. Ids are capabilities, so the token tells which lock it was.
func (h handlers) breakLock(ctx context.Context, id, reason string) (api.DeleteLockResponseObject, error) {
	ex := exchangeOf(ctx)
	if err := ex.mayAnywhere(access.Admin); err != nil {
		return nil, err
	}
	lock, err := h.store.Break(ctx, id, store.Breaking{Reason: reason, By: ex.who.Name}, func(name string) bool {
		return ex.who.May(access.Admin, name)
	})
	if err != nil && !errors.Is(err, store.ErrUnknown) {
		return nil, err // nothing was there, or nothing was done
	}
	ex.name = lock.Name
	outcome := "broken"
	if err != nil {
		outcome = outcomeUnknown.code
	}
	h.cfg.Audit.Warn("lock broken", "by", ex.who.Name, "from", hostOf(ex.remote), "reason", reason, "outcome", outcome,
		"name", lock.Name, "state", string(stateNames[lock.State]), "fencing_token", lock.Token,
		"principal", lock.Owner, "holder", lock.Holder)
	if err != nil {
		return nil, err
	}
	return api.DeleteLock204Response{}, nil
}

// wantReason tells an administrator who gave no reason why nothing was released: to anybody else another's lock is as if it did
// not exist.
func (h handlers) wantReason(ctx context.Context, id string, err error) error {
	ex := exchangeOf(ctx)
	name, is := store.NameOf(id)
	if !errors.Is(err, store.ErrNoLock) || !is || ex.who.Name == "" || !ex.who.May(access.Admin, name) {
		return err
	}
	if another, failed := h.store.Another(ctx, id); failed != nil || !another {
		return err
	}
	var found faults
	found.parameter("reason", "is required to break a lock that is another's")
	return found.err()
}

// hostOf is an address without its port, which says nothing of who it was.
func hostOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
