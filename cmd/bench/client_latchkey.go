package main

import (
	"context"
	"net/http"
	"time"

	"github.com/latchkey/latchkey/api"
)

// latchkeyClient is a client of latchkey, or of the ceiling.
type latchkeyClient struct {
	*line
	base  string
	lease string // of the client; none: each lock has its own
	ttl   time.Duration
	wait  time.Duration
	id    string // of the lock it holds
}

func newLatchkeyClient(base string) *latchkeyClient {
	return &latchkeyClient{line: newLine(), base: base, ttl: ownTTL}
}

// waits lets the client wait for a lock.
func (c *latchkeyClient) waits() *latchkeyClient {
	c.wait = mostWait
	return c
}

// mostWait is the longest wait that a replica allows by itself.
const mostWait = 55 * time.Second

// onLease gives the client a lease of its own.
func (c *latchkeyClient) onLease(ctx context.Context) error {
	var lease api.Lease
	err := c.call(ctx, http.MethodPost, c.base+"/leases", http.StatusCreated, api.LeaseRequest{TTLSeconds: seconds(longTTL)}, &lease)
	c.lease = lease.ID
	return err
}

func (c *latchkeyClient) acquire(ctx context.Context, name string) error {
	claim := api.LockRequest{Name: name, LeaseID: c.lease, WaitSeconds: seconds(c.wait)}
	if c.lease == "" {
		claim.TTLSeconds = seconds(c.ttl)
	}
	var lock struct {
		ID string `json:"id"`
	}
	err := c.call(ctx, http.MethodPost, c.base+"/locks", http.StatusCreated, claim, &lock)
	c.id = lock.ID
	return err
}

func (c *latchkeyClient) release(ctx context.Context) error {
	return c.call(ctx, http.MethodDelete, c.base+"/locks/"+c.id, http.StatusNoContent, nil, nil)
}

func (c *latchkeyClient) renew(ctx context.Context) error {
	id := c.id
	if c.lease != "" {
		id = c.lease
	}
	return c.call(ctx, http.MethodPut, c.base+"/leases/"+id, http.StatusOK, nil, nil)
}

func (c *latchkeyClient) close(ctx context.Context) {
	if c.lease != "" {
		c.call(ctx, http.MethodDelete, c.base+"/leases/"+c.lease, http.StatusNoContent, nil, nil)
	}
	c.hangUp()
}
