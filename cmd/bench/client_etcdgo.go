package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// etcdGoClient is a client of etcd's own mutex in Go. Clients share one connection, as the goroutines of a program do.
type etcdGoClient struct {
	etcd    *clientv3.Client
	session *concurrency.Session // of the client; none: each lock has its own
	ttl     time.Duration
	own     *concurrency.Session // of the lock it holds
	mutex   *concurrency.Mutex
}

func newEtcdGoClient(etcd *clientv3.Client) *etcdGoClient {
	return &etcdGoClient{etcd: etcd, ttl: ownTTL}
}

func (c *etcdGoClient) onLease() (err error) {
	c.session, err = c.begin(longTTL)
	return err
}

// begin makes a session. A context given to it would be kept for its keepalives.
func (c *etcdGoClient) begin(ttl time.Duration) (*concurrency.Session, error) {
	return concurrency.NewSession(c.etcd, concurrency.WithTTL(int(seconds(ttl))))
}

func (c *etcdGoClient) acquire(ctx context.Context, name string) (err error) {
	session := c.session
	if session == nil {
		if c.own, err = c.begin(c.ttl); err != nil {
			return err
		}
		session = c.own
	}
	c.mutex = concurrency.NewMutex(session, name)
	return c.mutex.Lock(ctx)
}

// release ends a lock's own session, which frees the lock in one request.
func (c *etcdGoClient) release(ctx context.Context) error {
	if c.session == nil {
		return c.own.Close()
	}
	return c.mutex.Unlock(ctx)
}

func (c *etcdGoClient) renew(ctx context.Context) error {
	session := c.session
	if session == nil {
		session = c.own
	}
	_, err := c.etcd.KeepAliveOnce(ctx, session.Lease())
	return err
}

func (c *etcdGoClient) die() { c.own.Orphan() }

func (c *etcdGoClient) close(context.Context) {
	if c.session != nil {
		c.session.Close()
	}
}
