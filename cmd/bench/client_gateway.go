package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// gatewayClient is a client of the JSON gateway that each member of etcd has. Bytes travel in base64, which is how
// encoding/json writes them, and 64-bit numbers as strings.
type gatewayClient struct {
	*line
	base  string
	lease string // of the client; none: each lock has its own
	ttl   time.Duration
	own   string // the lease of the lock it holds
	key   []byte // of the lock it holds
}

func newGatewayClient(base string) *gatewayClient {
	return &gatewayClient{line: newLine(), base: base, ttl: ownTTL}
}

func (c *gatewayClient) post(ctx context.Context, path string, request, answer any) error {
	return c.call(ctx, http.MethodPost, c.base+path, http.StatusOK, request, answer)
}

func (c *gatewayClient) grant(ctx context.Context, ttl time.Duration) (string, error) {
	var lease struct{ ID string }
	err := c.post(ctx, "/v3/lease/grant", map[string]int64{"TTL": seconds(ttl)}, &lease)
	return lease.ID, err
}

func (c *gatewayClient) onLease(ctx context.Context) (err error) {
	c.lease, err = c.grant(ctx, longTTL)
	return err
}

func (c *gatewayClient) acquire(ctx context.Context, name string) (err error) {
	lease := c.lease
	if lease == "" {
		if c.own, err = c.grant(ctx, c.ttl); err != nil {
			return err
		}
		lease = c.own
	}
	var lock struct {
		Key []byte `json:"key"`
	}
	err = c.post(ctx, "/v3/lock/lock", map[string]any{"name": []byte(name), "lease": lease}, &lock)
	c.key = lock.Key
	return err
}

// release ends a lock's own lease, which frees the lock in one request.
func (c *gatewayClient) release(ctx context.Context) error {
	if c.lease == "" {
		return c.post(ctx, "/v3/lease/revoke", map[string]string{"ID": c.own}, nil)
	}
	return c.post(ctx, "/v3/lock/unlock", map[string]any{"key": c.key}, nil)
}

func (c *gatewayClient) renew(ctx context.Context) error {
	lease := c.lease
	if lease == "" {
		lease = c.own
	}
	var renewed struct {
		Result struct {
			TTL int64 `json:",string"`
		} `json:"result"`
	}
	if err := c.post(ctx, "/v3/lease/keepalive", map[string]string{"ID": lease}, &renewed); err != nil {
		return err
	}
	if renewed.Result.TTL <= 0 {
		return fmt.Errorf("the keepalive tells a TTL of %d", renewed.Result.TTL)
	}
	return nil
}

func (c *gatewayClient) close(ctx context.Context) {
	if c.lease != "" {
		c.post(ctx, "/v3/lease/revoke", map[string]string{"ID": c.lease}, nil)
	}
	c.hangUp()
}
