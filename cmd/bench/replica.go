package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/server"
	"github.com/latchkey/latchkey/store"
)

// replicaSpec is a replica in a process of the benchmark's own, where it can be profiled: the same store and server, with
// their own settings, as "latchkey serve" has.
type replicaSpec struct {
	Address   string
	Endpoints []string
}

func (r *replicaSpec) serve() error {
	ctx, logger := context.Background(), slog.New(slog.NewTextHandler(os.Stderr, nil))
	etcd, err := clientv3.New(clientv3.Config{Endpoints: r.Endpoints})
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	locks, err := store.Open(ctx, etcd, store.Config{Logger: logger.With("component", "store"), Registerer: registry})
	if err != nil {
		return err
	}
	handler, err := server.New(locks, server.Config{Logger: logger, Registry: registry})
	if err != nil {
		return err
	}
	listener, err := server.Listen(ctx, r.Address, 0)
	if err != nil {
		return err
	}
	return server.NewHTTPServer(handler, logger).Serve(listener)
}
