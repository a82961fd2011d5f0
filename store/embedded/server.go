// Package embedded runs etcd in this process, for a service on one machine. It is the real server, with its data on disk,
// and reachable by this process's user alone, through a socket: it opens no port.
package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// ErrInUse reports that another process has the data directory.
var ErrInUse = errors.New("another process uses the data directory")

const (
	// StartBound is how long Start may take, and CloseBound Close.
	StartBound = 30 * time.Second
	CloseBound = 10 * time.Second

	lockBound = 200 * time.Millisecond // to find out whether another process has the database

	// Locks are written and deleted all day and nobody reads their history: watches begin at the present.
	compactionRetention = "5m"
	quotaBytes          = 4 << 30
	segmentBytes        = 16 << 20 // of the log; etcd allocates two before it is ready

	memberName = "latchkey"
	noPeers    = "http://127.0.0.1:1" // etcd must name an address for peers; there are none, and nothing listens

	keepAliveTime    = 6 * time.Second
	keepAliveTimeout = 2 * time.Second
	keepAliveMin     = 5 * time.Second // the server cuts off a client that asks more often
)

// Config says where the store is.
type Config struct {
	// Dir holds the data. It is made, for this user alone, if it is missing.
	Dir string
	// Logger is told of etcd's warnings and errors; at its debug level of everything else.
	Logger *slog.Logger
}

// Server is a running etcd.
type Server struct {
	etcd   *embed.Etcd
	grpc   *grpc.Server
	served chan struct{}
	socket socket
	client *clientv3.Client
}

// Start starts etcd on cfg.Dir and returns when it serves. It gives up when ctx ends, and after StartBound.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, StartBound)
	defer cancel()
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	if err := probe(dir); err != nil {
		return nil, err
	}
	logger := ZapLogger(cfg.Logger.With("component", "etcd"))
	etcd, err := startEtcd(ctx, dir, logger)
	if err != nil {
		return nil, err
	}
	s := &Server{etcd: etcd}
	if err := s.serve(ctx, dir, logger); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// probe returns ErrInUse if a process has etcd's database open: etcd itself would wait for it, silently and for ever.
func probe(dir string) error {
	path := filepath.Join(dir, "member", "snap", "db")
	if _, err := os.Stat(path); err != nil {
		return nil // etcd will make it, or say why it cannot
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockBound})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return fmt.Errorf("%w %s", ErrInUse, dir)
	}
	if err != nil {
		return nil // likewise
	}
	return db.Close()
}

// startEtcd bounds embed.StartEtcd, which knows no context.
func startEtcd(ctx context.Context, dir string, logger *zap.Logger) (*embed.Etcd, error) {
	cfg, err := etcdConfig(dir, logger)
	if err != nil {
		return nil, err
	}
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	lowerSegmentSize()
	started := make(chan result, 1)
	go func() {
		etcd, err := embed.StartEtcd(cfg)
		started <- result{etcd, err}
	}()
	select {
	case r := <-started:
		if r.err != nil {
			return nil, fmt.Errorf("start etcd on %s: %w", dir, r.err)
		}
		return r.etcd, nil
	case <-ctx.Done():
		go func() { // it cannot be called off: ended whenever it comes up
			if r := <-started; r.etcd != nil {
				r.etcd.Close()
			}
		}()
		return nil, fmt.Errorf("etcd did not start on %s; another process may use the directory: %w", dir, context.Cause(ctx))
	}
}

func etcdConfig(dir string, logger *zap.Logger) (*embed.Config, error) {
	peer, err := url.Parse(noPeers)
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = memberName, dir
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{*peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = nil, nil
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.InitialClusterToken = rand.Text() // counts for new data only: each new store has a cluster id of its own
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, compactionRetention
	cfg.QuotaBackendBytes = quotaBytes
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	return cfg, nil
}

// serve waits until etcd leads itself and opens the way to it.
func (s *Server) serve(ctx context.Context, dir string, logger *zap.Logger) error {
	select {
	case <-s.etcd.Server.ReadyNotify():
	case <-s.etcd.Server.StopNotify():
		return errors.New("etcd stopped while starting")
	case <-ctx.Done():
		return fmt.Errorf("etcd did not get ready: %w", context.Cause(ctx))
	}
	var err error
	if s.socket, err = listen(dir); err != nil {
		return err
	}
	s.grpc = v3rpc.Server(s.etcd.Server, nil, nil,
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepAliveMin, PermitWithoutStream: true}))
	s.served = make(chan struct{})
	go func() {
		defer close(s.served)
		s.grpc.Serve(s.socket.listener) // ends with Close
	}()
	s.client, err = clientv3.New(clientv3.Config{
		Endpoints:            []string{"unix://" + s.socket.path},
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		Logger:               logger,
	})
	return err
}

// Client is a client of this etcd. Close closes it.
func (s *Server) Client() *clientv3.Client { return s.client }

// Done is closed when etcd has stopped, by Close or because it could not go on.
func (s *Server) Done() <-chan struct{} { return s.etcd.Server.StopNotify() }

// Close stops etcd. What it acknowledged is on disk. It gives up after CloseBound.
func (s *Server) Close() error {
	closed := make(chan error, 1)
	go func() { closed <- s.close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(CloseBound):
		return fmt.Errorf("etcd did not stop within %v", CloseBound)
	}
}

func (s *Server) close() error {
	var errs []error
	if s.client != nil {
		errs = append(errs, s.client.Close())
	}
	if s.grpc != nil {
		s.grpc.Stop()
		<-s.served
	}
	s.etcd.Close()
	return errors.Join(append(errs, s.socket.remove())...)
}

// lowerSegmentSize sets etcd's package variable once, before anything of etcd runs.
var lowerSegmentSize = sync.OnceFunc(func() { wal.SegmentSizeBytes = segmentBytes })
