package latchkey

import (
	"context"
	"net/http"
)

// CreateLease makes a lease, and starts no heartbeat. See [Client.Lease] for one that is kept.
//
// It is not sent again when its answer was lost: a lease that was made nevertheless runs out by itself.
func (c *Client) CreateLease(ctx context.Context, req LeaseRequest) (LeaseInfo, error) {
	info, _, err := c.createLease(ctx, req, false)
	return info, err
}

// createLease can be told that a lease too many does no harm.
func (c *Client) createLease(ctx context.Context, req LeaseRequest, again bool) (info LeaseInfo, a answer, err error) {
	if err := checkTexts(req.Holder, req.Metadata); err != nil {
		return LeaseInfo{}, answer{}, err
	}
	a, err = c.call(ctx, request{
		method: http.MethodPost,
		path:   "leases",
		body:   req,
		again:  again,
		read:   into(&info, func(got LeaseInfo) bool { return got.ID != "" && got.TTLSeconds > 0 }),
	})
	return info, a, err
}

// Renew lets the TTL of a lease start again. It takes the id of a lease, or that of a held lock with a lease of its own. Count
// the TTL from when this was called. [ErrLeaseNotFound] says that it is over, and what was held on it may be another's.
func (c *Client) Renew(ctx context.Context, id string) (LeaseInfo, error) {
	if err := checkID(id); err != nil {
		return LeaseInfo{}, err
	}
	var info LeaseInfo
	_, err := c.call(ctx, renewal(id, &info))
	return info, err
}

func renewal(id string, info *LeaseInfo) request {
	return request{
		method: http.MethodPut,
		path:   "leases/" + id,
		again:  true,
		read:   into(info, func(got LeaseInfo) bool { return got.ID == id && got.TTLSeconds > 0 }),
	}
}

// LeaseStatus looks at a lease and the locks held on it. It renews nothing.
func (c *Client) LeaseStatus(ctx context.Context, id string) (status LeaseStatus, err error) {
	if err := checkID(id); err != nil {
		return LeaseStatus{}, err
	}
	_, err = c.call(ctx, request{
		method: http.MethodGet,
		path:   "leases/" + id,
		again:  true,
		read:   into(&status, func(got LeaseStatus) bool { return got.ID == id && got.TTLSeconds > 0 }),
	})
	return status, err
}

// EndLease ends a lease: every lock on it is free at once. With the id of a held lock it releases the lock.
func (c *Client) EndLease(ctx context.Context, id string) error {
	_, err := c.remove(ctx, "leases/", id, nil)
	return err
}
