package main

import (
	"context"
	"time"
)

// client is one client of one of the systems. It holds at most one lock at a time.
type client interface {
	// acquire returns when the lock is held, having waited for it if need be.
	acquire(ctx context.Context, name string) error
	// release gives the lock back, with its lease if that is its own.
	release(ctx context.Context) error
	// renew renews the lease that the lock is on.
	renew(ctx context.Context) error
	// die stops whatever keeps the lock's lease alive.
	die()
	// close ends the client's lease, if it has one, and its connection. What fails of it runs out by itself.
	close(ctx context.Context)
}

const (
	ownTTL  = 30 * time.Second // of a lease that lives as long as a lock
	longTTL = 10 * time.Minute // of one that lives as long as a workload
)

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
