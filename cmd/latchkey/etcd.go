package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/latchkey/latchkey/store/embedded"
)

const (
	// reachBound is how long the cluster may take to answer at the start, reachTry one attempt.
	reachBound = 30 * time.Second
	reachTry   = 3 * time.Second
	reachPause = time.Second
	reachTold  = 5 * time.Second // between two words about it

	// A line to etcd that is silent for longer than both together is taken for dead.
	etcdKeepAliveTime    = 6 * time.Second
	etcdKeepAliveTimeout = 2 * time.Second
)

// reconnect bounds how long a member that came back stays unused.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
	MinConnectTimeout: 3 * time.Second,
}

// etcd is the store's etcd: a client of it, and for an embedded one the server.
type etcd struct {
	*clientv3.Client
	server *embedded.Server // nil for a cluster
	where  string           // for people
}

// open starts the embedded etcd, or finds the cluster.
func (f *etcdFlags) open(ctx context.Context, logger *slog.Logger) (*etcd, error) {
	if f.clustered() {
		return f.reach(ctx, logger)
	}
	server, err := embedded.Start(ctx, embedded.Config{Dir: f.DataDir, Logger: logger})
	if err != nil {
		return nil, err
	}
	return &etcd{server.Client(), server, "embedded etcd in " + f.DataDir}, nil
}

// reach waits for the cluster to answer a read, and says what it waits for.
func (f *etcdFlags) reach(ctx context.Context, logger *slog.Logger) (*etcd, error) {
	ctx, cancel := context.WithTimeout(ctx, reachBound)
	defer cancel()
	where := "etcd at " + strings.Join(f.EtcdEndpoints, ", ")
	cfg, err := f.clientConfig(logger)
	if err != nil {
		return nil, err
	}
	for told := (time.Time{}); ; {
		client, err := f.try(ctx, cfg)
		if err == nil {
			tellOld(ctx, client, logger)
			return &etcd{client, nil, where}, nil
		}
		if hopeless(err) {
			return nil, fmt.Errorf("%s refuses: %w", where, err)
		}
		if time.Since(told) >= reachTold {
			told = time.Now()
			logger.Warn("waiting for "+where, "cause", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s did not answer within %v: %w", where, reachBound, err)
		case <-time.After(reachPause):
		}
	}
}

func (f *etcdFlags) clientConfig(logger *slog.Logger) (clientv3.Config, error) {
	password, err := f.password()
	if err != nil {
		return clientv3.Config{}, err
	}
	secure, err := f.tls()
	if err != nil {
		return clientv3.Config{}, err
	}
	return clientv3.Config{
		Endpoints:            f.EtcdEndpoints,
		Username:             f.EtcdUsername,
		Password:             password,
		TLS:                  secure,
		DialTimeout:          reachTry,
		DialKeepAliveTime:    etcdKeepAliveTime,
		DialKeepAliveTimeout: etcdKeepAliveTimeout,
		DialOptions:          []grpc.DialOption{grpc.WithConnectParams(reconnect)},
		Logger:               embedded.ZapLogger(logger.With("component", "etcd")),
	}, nil
}

func (f *etcdFlags) try(ctx context.Context, cfg clientv3.Config) (*clientv3.Client, error) {
	if err := connect(ctx, cfg); err != nil {
		return nil, err
	}
	client, err := clientv3.New(cfg) // authenticates, if there is a user
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, reachTry)
	defer cancel()
	if _, err := client.Get(ctx, f.EtcdPrefix+"epoch"); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

// connect tells why no connection can be made. The client alone would wait for one, and then tell only that time ran out.
func connect(ctx context.Context, cfg clientv3.Config) (err error) {
	ctx, cancel := context.WithTimeout(ctx, reachTry)
	defer cancel()
	cfg.Username, cfg.Password, cfg.Logger = "", "", zap.NewNop()
	client, err := clientv3.New(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	_, err = healthpb.NewHealthClient(client.ActiveConnection()).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(false))
	if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded {
		return err
	}
	return nil // whatever it answers, it does
}

// hopeless are refusals that waiting does not mend.
func hopeless(err error) bool {
	return errors.Is(err, rpctypes.ErrAuthFailed) || errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty)
}

// ended is closed when an embedded etcd has stopped by itself; for a cluster, never.
func (e *etcd) ended() <-chan struct{} {
	if e.server == nil {
		return nil
	}
	return e.server.Done()
}

func (e *etcd) close() error {
	if e.server == nil {
		return e.Client.Close()
	}
	return e.server.Close()
}
