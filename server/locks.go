package server

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store"
)

// What the contract says is meant when a request does not say.
const (
	defaultTTL   = 30 * time.Second
	defaultLimit = 100
)

// CreateLock claims a name.
func (h handlers) CreateLock(ctx context.Context, req api.CreateLockRequestObject) (api.CreateLockResponseObject, error) {
	ex := exchangeOf(ctx)
	ex.name = req.Body.Name
	lock, err := h.store.Claim(ctx, claimOf(req, ex.arrived))
	if err != nil {
		return nil, err
	}
	return claimAnswer{server: h.Server, ctx: ctx, lock: lock}, nil
}

func claimOf(req api.CreateLockRequestObject, arrived time.Time) store.Claim {
	claim := store.Claim{
		Name:     req.Body.Name,
		LeaseID:  req.Body.LeaseID,
		Wait:     seconds(req.Body.WaitSeconds),
		Queue:    req.Body.Queue,
		Holder:   req.Body.Holder,
		Metadata: req.Body.Metadata,
		Arrived:  arrived,
	}
	if claim.LeaseID == "" {
		claim.TTL = ttlOf(req.Body.TTLSeconds)
	}
	if req.Params.IdempotencyKey != nil {
		claim.Key = *req.Params.IdempotencyKey
	}
	return claim
}

// claimAnswer tells a claim to its client. A claim that could not be told is given back to the store, which knows
// whether somebody else can know of it.
type claimAnswer struct {
	server *Server
	ctx    context.Context
	lock   store.Lock
}

func (a claimAnswer) VisitCreateLockResponse(w http.ResponseWriter) error {
	err := a.ctx.Err()
	if err == nil {
		err = a.write(w)
	}
	if err != nil {
		a.server.store.Untold(a.lock)
	}
	return err
}

func (a claimAnswer) write(w http.ResponseWriter) error {
	status := http.StatusAccepted
	w.Header().Set("Location", "/locks/"+a.lock.ID)
	if a.lock.Replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if a.lock.State == store.Held {
		status = http.StatusCreated
		w.Header().Set("Fencing-Token", strconv.FormatInt(a.lock.Token, 10))
	} else {
		w.Header().Set("Retry-After", strconv.Itoa(a.server.vary(0)))
	}
	return writeJSON(w, status, "application/json", lockBody(a.lock))
}

// GetLock looks at a claim, or asks for it.
func (h handlers) GetLock(ctx context.Context, req api.GetLockRequestObject) (api.GetLockResponseObject, error) {
	lock, err := h.lookOrAsk(ctx, req)
	if err != nil {
		return nil, err
	}
	exchangeOf(ctx).name = lock.Name
	return api.GetLock200JSONResponse{
		Body:    lockBody(lock),
		Headers: api.GetLock200ResponseHeaders{FencingToken: tokenHeader(lock.Token)},
	}, nil
}

func (h handlers) lookOrAsk(ctx context.Context, req api.GetLockRequestObject) (store.Lock, error) {
	if wait := req.Params.WaitSeconds; wait != nil {
		return h.store.Ask(ctx, req.ID, seconds(*wait), exchangeOf(ctx).arrived)
	}
	return h.store.Look(ctx, req.ID)
}

// DeleteLock releases a lock, or leaves the queue.
func (h handlers) DeleteLock(ctx context.Context, req api.DeleteLockRequestObject) (api.DeleteLockResponseObject, error) {
	if err := h.store.Release(ctx, req.ID); err != nil {
		return nil, err
	}
	return api.DeleteLock204Response{}, nil
}

// ListLocks lists who holds and who waits.
func (h handlers) ListLocks(ctx context.Context, req api.ListLocksRequestObject) (api.ListLocksResponseObject, error) {
	page, err := h.store.List(ctx, filterOf(req.Params))
	if err != nil {
		return nil, err
	}
	return api.ListLocks200JSONResponse{
		Body: api.LockList{Locks: lockBodies(page.Locks), NextCursor: page.Next},
	}, nil
}

func filterOf(params api.ListLocksParams) store.Filter {
	filter := store.Filter{
		Name:   valueOr(params.Name, ""),
		Prefix: valueOr(params.Prefix, ""),
		Cursor: valueOr(params.Cursor, ""),
		Limit:  valueOr(params.Limit, defaultLimit),
	}
	if params.State != nil {
		state := store.Queued
		if *params.State == stateNames[store.Held] {
			state = store.Held
		}
		filter.State = &state
	}
	return filter
}

var stateNames = map[store.State]api.LockState{store.Queued: "queued", store.Held: "held"}

func lockBody(l store.Lock) api.Lock {
	return api.Lock{
		ID:                l.ID,
		Name:              l.Name,
		State:             stateNames[l.State],
		FencingToken:      l.Token,
		Position:          l.Position,
		LeaseID:           l.LeaseID,
		TTLSeconds:        wholeSeconds(l.TTL),
		RenewAfterSeconds: renewAfter(l.TTL),
		Holder:            l.Holder,
		Metadata:          l.Metadata,
	}
}

func lockBodies(locks []store.Lock) []api.Lock {
	bodies := make([]api.Lock, len(locks))
	for i, l := range locks {
		bodies[i] = lockBody(l)
	}
	return bodies
}

// tokenHeader is nil, and so no header, for what is not held.
func tokenHeader(token int64) *int64 {
	if token == 0 {
		return nil
	}
	return &token
}

func ttlOf(given int64) time.Duration {
	if given == 0 {
		return defaultTTL
	}
	return seconds(given)
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func wholeSeconds(d time.Duration) int64 { return int64(d / time.Second) }

// renewAfter leaves time for two more tries.
func renewAfter(ttl time.Duration) int64 { return max(1, wholeSeconds(ttl/3)) }

func valueOr[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}
