package server

import (
	"context"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/server/access"
	"github.com/latchkey/latchkey/store"
)

// CreateLease makes a lease of the client's own.
func (h handlers) CreateLease(ctx context.Context, req api.CreateLeaseRequestObject) (api.CreateLeaseResponseObject, error) {
	ex := exchangeOf(ctx)
	if err := ex.mayAnywhere(access.Lock); err != nil {
		return nil, err
	}
	settle, err := h.limits.tally.lease(ctx, ex.who.Name)
	if err != nil {
		return nil, h.refuse(err)
	}
	var lease store.Lease
	defer func() { settle(lease, err) }() // after a panic, too
	wanted := store.Lease{TTL: ttlOf(req.Body.TTLSeconds), Holder: req.Body.Holder, Metadata: req.Body.Metadata}
	if lease, err = h.store.NewLease(ctx, wanted, ex.arrived); err != nil {
		return nil, err
	}
	location := "/leases/" + lease.ID
	return api.CreateLease201JSONResponse{
		Body:    leaseBody(lease),
		Headers: api.CreateLease201ResponseHeaders{Location: &location},
	}, nil
}

// RenewLease starts the TTL again.
func (h handlers) RenewLease(ctx context.Context, req api.RenewLeaseRequestObject) (api.RenewLeaseResponseObject, error) {
	ex := exchangeOf(ctx)
	if err := ex.mayKeep(req.ID); err != nil {
		return nil, err
	}
	lease, err := h.store.Renew(ctx, req.ID, ex.arrived)
	if err != nil {
		return nil, err
	}
	return api.RenewLease200JSONResponse{
		Body:    leaseBody(lease),
		Headers: api.RenewLease200ResponseHeaders{FencingToken: tokenHeader(lease.Token)},
	}, nil
}

// GetLease looks at a lease and the locks on it.
func (h handlers) GetLease(ctx context.Context, req api.GetLeaseRequestObject) (api.GetLeaseResponseObject, error) {
	lease, err := h.store.GetLease(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	return api.GetLease200JSONResponse{Body: leaseStatusBody(lease)}, nil
}

// DeleteLease frees every lock on the lease.
func (h handlers) DeleteLease(ctx context.Context, req api.DeleteLeaseRequestObject) (api.DeleteLeaseResponseObject, error) {
	if err := h.store.EndLease(ctx, req.ID); err != nil {
		return nil, err
	}
	h.limits.tally.ended(exchangeOf(ctx).who.Name, req.ID)
	return api.DeleteLease204Response{}, nil
}

func leaseBody(l store.Lease) api.Lease {
	return api.Lease{
		ID:                l.ID,
		TTLSeconds:        wholeSeconds(l.TTL),
		RenewAfterSeconds: renewAfter(l.TTL),
		HoldLeftSeconds:   holdLeft(l.HoldEnds),
		FencingToken:      l.Token,
		Holder:            l.Holder,
		Metadata:          l.Metadata,
	}
}

func leaseStatusBody(l store.Lease) api.LeaseStatus {
	return api.LeaseStatus{
		ID:                l.ID,
		TTLSeconds:        wholeSeconds(l.TTL),
		TTLLeftSeconds:    wholeSeconds(max(0, l.Left)),
		RenewAfterSeconds: renewAfter(l.TTL),
		HoldLeftSeconds:   holdLeft(l.HoldEnds),
		FencingToken:      l.Token,
		Holder:            l.Holder,
		Metadata:          l.Metadata,
		Locks:             lockBodies(l.Locks),
	}
}
