package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// DefaultMaxConns is how many connections are served at once.
const DefaultMaxConns = 32768

// What a connection may take. There is no bound on a whole answer: each write has its own.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute // longer than balancers keep idle connections, so that they close first
	maxHeaderBytes = 32 << 10
	// unackedTimeout ends a connection whose client no longer acknowledges anything.
	unackedTimeout = 20 * time.Second
)

// Listen listens on a TCP address. It serves at most maxConns connections at once (0: DefaultMaxConns), and notices a
// client that went silently within the TCP user timeout.
func Listen(ctx context.Context, address string, maxConns int) (net.Listener, error) {
	config := net.ListenConfig{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         setUserTimeout,
	}
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if maxConns == 0 {
		maxConns = DefaultMaxConns
	}
	return &lineListener{
		TCPListener: listener.(*net.TCPListener),
		open:        make(chan struct{}, maxConns),
		closed:      make(chan struct{}),
	}, nil
}

// lineListener accepts lines, as many as may be open at once.
type lineListener struct {
	*net.TCPListener
	open    chan struct{}
	closing sync.Once
	closed  chan struct{}
}

// Accept waits until a line may be open, then for somebody to come.
func (l *lineListener) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	release := func() { <-l.open }
	conn, err := l.AcceptTCP()
	if err != nil {
		release()
		return nil, err
	}
	return &line{TCPConn: conn, release: release}, nil
}

// Close also ends an Accept that waits for a line to end.
func (l *lineListener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.TCPListener.Close()
}

// NewHTTPServer makes the http.Server that handler needs. On what Listen accepts, it notices each client that leaves.
// Whoever runs it may set a BaseContext, to be able to end the requests that a drain did not.
func NewHTTPServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           watched(handler),
		ConnContext:       withLine,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.With("component", "http").Handler(), slog.LevelWarn),
		// else net/http itself answers OPTIONS *, and not with a problem
		DisableGeneralOptionsHandler: true,
	}
}
