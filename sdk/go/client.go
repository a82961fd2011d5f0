package latchkey

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	defaultServer  = "http://127.0.0.1:8080"
	serversEnv     = "LATCHKEY_SERVER"
	defaultTimeout = 10 * time.Second
	dialBound      = 3 * time.Second
	idlePerServer  = 16
)

// Config is how a [Client] reaches the service. Its zero value is good for a server on this machine.
type Config struct {
	// Servers are base URLs of replicas or balancers. One string may hold several, separated by commas. If there is none, those
	// of the environment's LATCHKEY_SERVER are taken, else http://127.0.0.1:8080.
	Servers []string
	// Header is sent with every request: what a proxy on the way wants, for instance.
	Header http.Header
	// Token says who calls, as Authorization: Bearer: an API token of the service's, or a JWT. It goes to the Servers and
	// nowhere else: redirects are not followed.
	Token string
	// TokenSource is asked for the token in place of Token: before the first request, and again when one is answered 401, which
	// is then sent once more if it has another. It may be called by several goroutines, though by one at a time; a call does
	// not wait for it beyond its own bound. What it says
	// when it fails is told in errors and to Logger: it must not say the token.
	TokenSource func(context.Context) (string, error)
	// TLS is for https: the certificates to trust, and the client's own. Not together with Transport, which has its own.
	TLS *tls.Config
	// Timeout bounds every call beyond what it waits for, all its tries together; each try gets its share of what is left, half at
	// most, so that the next server is asked when one is silent. 10 s if 0.
	Timeout time.Duration
	// Transport replaces the client's own, which speaks HTTP/1.1 through the proxy that the environment names.
	Transport http.RoundTripper
	// Logger is told what the client lived through: Warn for a renewal that failed, Info for a place that was lost. It is never
	// told an id. Silent if nil.
	Logger *slog.Logger
}

// Client speaks to the service. It is safe for use by several goroutines.
type Client struct {
	servers     *servers
	header      http.Header
	credentials *credentials
	timeout     time.Duration
	http        *http.Client
	log         *slog.Logger
	now         func() time.Duration
}

// New returns a client. It sends nothing yet.
func New(cfg Config) (*Client, error) {
	all := cfg.Servers
	if len(all) == 0 {
		all = []string{os.Getenv(serversEnv)}
	}
	servers, err := newServers(all)
	if err != nil {
		return nil, err
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("latchkey: Timeout is %v, and must not be negative", cfg.Timeout)
	}
	if cfg.TLS != nil && cfg.Transport != nil {
		return nil, errTwoTLS
	}
	credentials, err := newCredentials(cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{
		servers:     servers,
		header:      cfg.Header.Clone(),
		credentials: credentials,
		timeout:     cfg.Timeout,
		http:        &http.Client{Transport: cfg.Transport, CheckRedirect: followNone},
		log:         cfg.Logger,
		now:         newClock(),
	}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	if cfg.Transport == nil {
		c.http.Transport = newTransport(cfg.TLS)
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

var errTwoTLS = errors.New("latchkey: TLS and Transport exclude each other")

// followNone keeps ids, the token, and whatever Header holds from being sent to another host.
func followNone(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// newTransport keeps to HTTP/1.1, where a try that timed out closes its line: over HTTP/2 the next would go the same dead way.
func newTransport(secure *tls.Config) *http.Transport {
	var http1 http.Protocols
	http1.SetHTTP1(true)
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialBound}).DialContext,
		TLSClientConfig:     secure.Clone(),
		TLSHandshakeTimeout: dialBound,
		MaxIdleConnsPerHost: idlePerServer,
		IdleConnTimeout:     time.Minute,
		Protocols:           &http1,
	}
}

// Close closes the connections that are idle. It releases no lock.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// detached is ctx without its end, for what must be tried even then, within a bound of its own.
func detached(ctx context.Context, bound time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), bound)
}
