package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// DefaultMaxConns is how many connections are served at once.
	DefaultMaxConns = 32768
	// MostConns is the most that a limit on connections may be.
	MostConns = 1_000_000
	// unackedTimeout ends a connection whose client no longer acknowledges anything.
	unackedTimeout = 20 * time.Second
)

// ListenConfig is what may be chosen of a listener. A zero value means the default.
type ListenConfig struct {
	// Address is host:port. Without a host it is all addresses of this machine, with port 0 a free port.
	Address string
	// MaxConns is how many connections are served at once, from 1 to MostConns; DefaultMaxConns by default. More wait to
	// be accepted.
	MaxConns int
	// MaxConnsPerAddress is how many of them one address may have, from 1 to MostConns; as many as there are by default.
	// One more is closed at once. With IPv6, a network of 64 bits is one address. Behind a balancer, all clients have
	// the balancer's.
	MaxConnsPerAddress int
	// TLS is spoken on each connection; by default none is.
	TLS *TLS
	// Registerer gets the metrics of the listener; by default nobody does. For two listeners, wrap it with a label each.
	Registerer prometheus.Registerer
}

func (c ListenConfig) check() error {
	return errors.Join(
		outside("the limit on connections", c.MaxConns, 0, MostConns),
		outside("the limit on connections of an address", c.MaxConnsPerAddress, 0, MostConns),
	)
}

// Listen is ListenWith for plain HTTP, with a limit on connections alone (0: DefaultMaxConns).
func Listen(ctx context.Context, address string, maxConns int) (net.Listener, error) {
	return ListenWith(ctx, ListenConfig{Address: address, MaxConns: maxConns})
}

// ListenWith listens on a TCP address. It notices a client that went silently within the TCP user timeout. A limit out
// of its bounds is an error, as is a Registerer that has metrics of these names already.
func ListenWith(ctx context.Context, cfg ListenConfig) (net.Listener, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	orElse(&cfg.MaxConns, DefaultMaxConns)
	config := net.ListenConfig{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         setUserTimeout,
	}
	listener, err := config.Listen(ctx, "tcp", cfg.Address)
	if err != nil {
		return nil, err
	}
	metrics, err := newLineMetrics(cfg.Registerer)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return &lineListener{
		TCPListener: listener.(*net.TCPListener),
		tls:         cfg.TLS,
		open:        make(chan struct{}, cfg.MaxConns),
		networks:    networkLimit{most: cfg.MaxConnsPerAddress},
		metrics:     metrics,
		closed:      make(chan struct{}),
	}, nil
}

// lineListener accepts lines, as many as may be open at once.
type lineListener struct {
	*net.TCPListener
	tls      *TLS // or nil
	open     chan struct{}
	networks networkLimit
	metrics  *lineMetrics
	closing  sync.Once
	closed   chan struct{}
}

// Accept waits until a line may be open, then for somebody to come who may have one. It waits for nothing that a client
// says: a TLS handshake is part of the first read.
func (l *lineListener) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	for {
		conn, err := l.AcceptTCP()
		if err != nil {
			<-l.open
			return nil, err
		}
		network := networkOf(conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
		if l.networks.enter(network) {
			return l.lineOn(conn, network), nil
		}
		l.metrics.refused.Inc()
		refuse(conn)
	}
}

func (l *lineListener) lineOn(conn *net.TCPConn, network network) *line {
	l.metrics.open.Inc()
	accepted := &line{duplex: conn, tcp: conn, release: func() {
		l.metrics.open.Dec()
		l.networks.leave(network)
		<-l.open
	}}
	if l.tls != nil {
		accepted.duplex = l.tls.session(conn)
	}
	return accepted
}

// refuse closes a connection so that nothing is left of it here, not even what TCP would keep for a while.
func refuse(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // whatever fails here, the connection ends
	_ = conn.Close()
}

// Close also ends an Accept that waits for a line to end.
func (l *lineListener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.TCPListener.Close()
}
