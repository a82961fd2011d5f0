package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// etcdGoClient is a client of etcd's own mutex in Go.
type etcdGoClient struct {
	etcd    *clientv3.Client
	hangUp  func() error
	session *concurrency.Session // of the client; none: each lock has its own
	ttl     time.Duration
	own     *concurrency.Session // of the lock it holds
	mutex   *concurrency.Mutex
}

// newEtcdGoClient is one of clients that share a connection, as the goroutines of a program do, unless they are apart.
func newEtcdGoClient(r *rig) (*etcdGoClient, error) {
	c := &etcdGoClient{etcd: r.etcd, hangUp: func() error { return nil }, ttl: ownTTL}
	if r.cfg.apart {
		var err error
		if c.etcd, err = dialEtcd(r.endpoints); err != nil {
			return nil, err
		}
		c.hangUp = c.etcd.Close
	}
	return c, nil
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
	err = c.mutex.Lock(ctx)
	if err != nil && c.session == nil {
		c.own.Close() // it would be kept alive for ever
	}
	return err
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
	c.hangUp()
}
