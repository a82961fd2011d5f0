package etcdtest

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// A line that is silent for longer than both together is taken for dead, as replicas do.
const (
	keepAliveTime    = 6 * time.Second
	keepAliveTimeout = 2 * time.Second
)

// reconnect is soon: tests make servers go away and come back.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
	MinConnectTimeout: 2 * time.Second,
}

func newClient(t testing.TB, endpoints []string, faults []*Faults) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{
		Endpoints:            endpoints,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		DialOptions:          []grpc.DialOption{grpc.WithConnectParams(reconnect)},
		Logger:               zap.NewNop(),
	}
	for _, f := range faults {
		cfg.DialOptions = append(cfg.DialOptions, f.DialOptions()...)
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		t.Fatalf("etcdtest: client of %v: %v", endpoints, err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
