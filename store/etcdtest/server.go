package etcdtest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// The quickest that etcd accepts. Its minimum TTL is one and a half election timeouts, rounded up to seconds: here 1 s.
const (
	serverHeartbeat = 10 * time.Millisecond
	serverElection  = 5 * serverHeartbeat
)

const (
	serverReady     = 20 * time.Second
	rebindBound     = 5 * time.Second
	segmentBytes    = 1 << 20 // etcd allocates two segments of its log before it is ready, 64 MB each if it may
	defaultToken    = "etcdtest"
	noPeers         = "http://127.0.0.1:1" // a single member listens for no peers, yet must name an address
	minPingInterval = time.Second
)

// Server is an etcd of one member in this process. Its methods are for one goroutine at a time.
type Server struct {
	t        testing.TB // nil for the shared one
	dir      string
	endpoint string
	token    string
	etcd     *embed.Etcd
	grpc     *grpc.Server
	served   chan struct{}
}

// New starts a server of the test's own. It does not sync its files: what it holds survives Restart, not the machine.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, dir: filepath.Join(t.TempDir(), "etcd"), token: defaultToken}
	t.Cleanup(s.Stop)
	s.Start()
	return s
}

var shared struct {
	sync.Mutex
	server *Server
	err    error
}

// Shared returns the one server that all tests of this binary may use, each under a prefix of its own. [Main] stops it.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = startShared()
	}
	if shared.err != nil {
		t.Fatalf("etcdtest: shared server: %v", shared.err)
	}
	return shared.server
}

func startShared() (*Server, error) {
	root, err := os.MkdirTemp("", "etcdtest")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: filepath.Join(root, "etcd"), token: defaultToken}
	if err := s.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(root))
	}
	return s, nil
}

func closeShared() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		shared.server.Stop()
		os.RemoveAll(filepath.Dir(shared.server.dir))
	}
}

// Endpoint is where the server listens, running or not: "127.0.0.1:port".
func (s *Server) Endpoint() string { return s.endpoint }

// Client returns a client that the test's end closes. Its calls pass through faults, the first one first.
func (s *Server) Client(t testing.TB, faults ...*Faults) *clientv3.Client {
	t.Helper()
	return newClient(t, []string{s.endpoint}, faults)
}

// Etcd is the running etcd, nil while it is stopped.
func (s *Server) Etcd() *embed.Etcd { return s.etcd }

// Start starts a stopped server on the data it left.
func (s *Server) Start() {
	if s.t != nil {
		s.t.Helper()
	}
	if err := s.start(); err != nil {
		s.fatal(err)
	}
}

// Stop cuts every connection and ends the server. Its data stays.
func (s *Server) Stop() {
	if s.etcd == nil {
		return
	}
	s.grpc.Stop()
	<-s.served
	s.etcd.Close()
	s.etcd = nil
}

// Restart is Stop and Start.
func (s *Server) Restart() {
	s.Stop()
	s.Start()
}

// Wipe restarts the server without its data: a new store at the same endpoint that begins at revision 1, with the very
// cluster id and member id of the old one.
func (s *Server) Wipe() {
	s.Stop()
	if err := os.RemoveAll(s.dir); err != nil {
		s.fatal(err)
	}
	s.Start()
}

// WipeAs is Wipe under another cluster token, and so with another cluster id.
func (s *Server) WipeAs(token string) {
	s.token = token
	s.Wipe()
}

func (s *Server) fatal(err error) {
	if s.t == nil {
		panic(fmt.Sprintf("etcdtest: shared server: %v", err))
	}
	s.t.Fatalf("etcdtest: %v", err)
}

func (s *Server) start() error {
	if s.etcd != nil {
		return errors.New("the server is running")
	}
	lowerSegmentSize()
	l, err := s.listen()
	if err != nil {
		return err
	}
	cfg, err := s.config()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return errors.Join(fmt.Errorf("start etcd: %w", err), l.Close())
	}
	select {
	case <-etcd.Server.ReadyNotify():
	case <-time.After(serverReady):
		etcd.Close()
		return errors.Join(fmt.Errorf("etcd is not ready after %v", serverReady), l.Close())
	}
	s.etcd = etcd
	s.grpc = v3rpc.Server(etcd.Server, nil, nil,
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}))
	s.served = make(chan struct{})
	go func(grpc *grpc.Server, served chan struct{}) {
		defer close(served)
		grpc.Serve(l) // its end is Stop
	}(s.grpc, s.served)
	return nil
}

// listen takes a port at the first start, and the same one later.
func (s *Server) listen() (net.Listener, error) {
	if s.endpoint == "" {
		l, err := listen()
		if err == nil {
			s.endpoint = l.Addr().String()
		}
		return l, err
	}
	for deadline := time.Now().Add(rebindBound); ; time.Sleep(serverHeartbeat) {
		l, err := net.Listen("tcp", s.endpoint)
		if err == nil || time.Now().After(deadline) {
			return l, err
		}
	}
}

func (s *Server) config() (*embed.Config, error) {
	peer, err := url.Parse(noPeers)
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Dir = s.dir
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{*peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = nil, []url.URL{{Scheme: "http", Host: s.endpoint}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.InitialClusterToken = s.token
	cfg.TickMs, cfg.ElectionMs = uint(serverHeartbeat.Milliseconds()), uint(serverElection.Milliseconds())
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	return cfg, nil
}

// lowerSegmentSize sets etcd's package variable once, before anything of etcd runs.
var lowerSegmentSize = sync.OnceFunc(func() { wal.SegmentSizeBytes = segmentBytes })
