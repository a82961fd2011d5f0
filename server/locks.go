package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/server/access"
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
	if err := ex.may(access.Lock, ex.name); err != nil {
		return nil, err
	}
	if req.Body.WaitSeconds > 0 {
		done, err := h.limits.wait(ex.who)
		if err != nil {
			return nil, h.refuse(err)
		}
		defer done()
	}
	claim := claimOf(req, ex.arrived)
	settle, err := h.limits.tally.claim(ctx, ex.who.Name, claim)
	if err != nil {
		return nil, h.refuse(err)
	}
	var lock store.Lock
	defer func() { settle(lock, err) }() // after a panic, too
	if lock, err = h.store.Claim(ctx, claim); err != nil {
		return nil, hideHolder(err, ex)
	}
	return claimAnswer{server: h.Server, ctx: ctx, lock: lock}, nil
}

// hideHolder keeps who holds a lock from whoever may not read its name.
func hideHolder(err error, ex *exchange) error {
	var held *store.HeldError
	if errors.As(err, &held) && !ex.who.May(access.Read, ex.name) {
		return &store.HeldError{QueueLength: held.QueueLength}
	}
	return err
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
	wait := req.Params.WaitSeconds
	if wait == nil {
		return h.store.Look(ctx, req.ID)
	}
	ex := exchangeOf(ctx)
	if err := ex.mayKeep(req.ID); err != nil {
		return store.Lock{}, err
	}
	if *wait > 0 {
		done, err := h.limits.wait(ex.who)
		if err != nil {
			return store.Lock{}, h.refuse(err)
		}
		defer done()
	}
	return h.store.Ask(ctx, req.ID, seconds(*wait), ex.arrived)
}

// DeleteLock releases a lock, or leaves the queue. With a reason it breaks another's.
func (h handlers) DeleteLock(ctx context.Context, req api.DeleteLockRequestObject) (api.DeleteLockResponseObject, error) {
	if reason := req.Params.Reason; reason != nil {
		return h.breakLock(ctx, req.ID, *reason)
	}
	if err := h.store.Release(ctx, req.ID); err != nil {
		return nil, h.wantReason(ctx, req.ID, err)
	}
	h.limits.tally.ended(exchangeOf(ctx).who.Name, req.ID)
	return api.DeleteLock204Response{}, nil
}

// ListLocks lists who holds and who waits.
func (h handlers) ListLocks(ctx context.Context, req api.ListLocksRequestObject) (api.ListLocksResponseObject, error) {
	who := exchangeOf(ctx).who
	filter, err := filterOf(req.Params, who)
	if err != nil {
		return nil, err
	}
	page, err := h.store.List(ctx, filter)
	if err != nil {
		return nil, err
	}
	return api.ListLocks200JSONResponse{
		Body: api.LockList{Locks: listedBodies(page.Locks, who), NextCursor: page.Next},
	}, nil
}

// filterOf restricts what is asked for to what the principal may read. Who may read none of it is told so.
func filterOf(params api.ListLocksParams, who *access.Principal) (store.Filter, error) {
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
	filter.Within = namesOf(who)
	if filter.Within != nil && !filter.Overlaps() {
		return store.Filter{}, &forbiddenError{right: access.Read, who: who}
	}
	return filter, nil
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
		HoldLeftSeconds:   holdLeft(l.HoldEnds),
		Principal:         l.Owner,
		Holder:            l.Holder,
		Metadata:          l.Metadata,
	}
}

// listedBodies show locks to the principal: their ids only to an administrator and to their owner.
func listedBodies(locks []store.Lock, who *access.Principal) []api.ListedLock {
	bodies := make([]api.ListedLock, len(locks))
	for i, l := range locks {
		bodies[i] = api.ListedLock(lockBody(l))
		if l.Owner != who.Name && !who.May(access.Admin, l.Name) {
			bodies[i].ID, bodies[i].LeaseID = "", ""
		}
	}
	return bodies
}

// holdLeft is nil where a hold has no end.
func holdLeft(ends time.Time) *int64 {
	if ends.IsZero() {
		return nil
	}
	left := max(0, wholeSeconds(time.Until(ends)))
	return &left
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
