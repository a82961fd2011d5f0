package server

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// What a connection may take when nothing else is chosen.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute // longer than balancers keep idle connections, so that they close first
	maxHeaderBytes = 32 << 10
)

// Bounds of what may be chosen.
const (
	LeastHeaderTimeout, MostHeaderTimeout = time.Second, 10 * time.Minute
	LeastIdleTimeout, MostIdleTimeout     = time.Second, 10 * time.Minute
	LeastHeaderBytes, MostHeaderBytes     = 1 << 10, 1 << 20
)

// HTTPConfig is what a connection may take. A zero value means the default. There is no bound on a whole answer: each
// write has its own.
type HTTPConfig struct {
	// HeaderTimeout is the time for a request's header to arrive, from LeastHeaderTimeout to MostHeaderTimeout; 10 s by
	// default. For the first request of a connection with TLS, the handshake is part of it.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection stays open between two requests, from LeastIdleTimeout to MostIdleTimeout;
	// 2 min by default.
	IdleTimeout time.Duration
	// MaxHeaderBytes is the size of a request's first line and header, from LeastHeaderBytes to MostHeaderBytes; 32 KiB by
	// default. Up to 4 KiB more can pass, as net/http reads ahead.
	MaxHeaderBytes int
}

func (c HTTPConfig) withDefaults() HTTPConfig {
	orElse(&c.HeaderTimeout, headerTimeout)
	orElse(&c.IdleTimeout, idleTimeout)
	orElse(&c.MaxHeaderBytes, maxHeaderBytes)
	return c
}

func (c HTTPConfig) check() error {
	return errors.Join(
		outside("the time for a header", c.HeaderTimeout, LeastHeaderTimeout, MostHeaderTimeout),
		outside("the time between two requests", c.IdleTimeout, LeastIdleTimeout, MostIdleTimeout),
		outside("the size of a header", c.MaxHeaderBytes, LeastHeaderBytes, MostHeaderBytes),
	)
}

// outside is nil for what is within its bounds.
func outside[T cmp.Ordered](what string, value, least, most T) error {
	if value < least || value > most {
		return fmt.Errorf("%s must be from %v to %v, not %v", what, least, most, value)
	}
	return nil
}

// NewHTTPServer is NewHTTPServerWith for the defaults.
func NewHTTPServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return httpServer(handler, logger, HTTPConfig{}.withDefaults())
}

// NewHTTPServerWith makes the http.Server that handler needs, or fails when something chosen is out of its bounds. On
// what ListenWith accepts, with TLS too, it notices each client that leaves; it is started with Serve, not ServeTLS.
// Whoever runs it may set a BaseContext, to be able to end the requests that a drain did not.
func NewHTTPServerWith(handler http.Handler, logger *slog.Logger, cfg HTTPConfig) (*http.Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return httpServer(handler, logger, cfg), nil
}

func httpServer(handler http.Handler, logger *slog.Logger, cfg HTTPConfig) *http.Server {
	return &http.Server{
		Handler:           watched(handler),
		ConnContext:       withLine,
		ReadHeaderTimeout: cfg.HeaderTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    cfg.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.With("component", "http").Handler(), slog.LevelWarn),
		// else net/http itself answers OPTIONS *, and not with a problem
		DisableGeneralOptionsHandler: true,
	}
}
