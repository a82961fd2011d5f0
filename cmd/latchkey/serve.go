package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/latchkey/latchkey/server"
	"github.com/latchkey/latchkey/store"
)

// Bounds of the settings.
const (
	leastMaxWait, mostMaxWait       = time.Second, 10 * time.Minute
	leastMaxTTL, mostMaxTTL         = 30 * time.Second, 365 * 24 * time.Hour // the default TTL fits
	leastWaitingTTL, mostWaitingTTL = 5 * time.Second, 5 * time.Minute
	leastRequest, mostRequest       = 500 * time.Millisecond, time.Minute
	leastDrain, mostDrain           = time.Duration(0), 10 * time.Minute
	mostWaiters                     = 1_000_000
	mostConnections                 = 1_000_000
)

// bounds are the same in words, for the help.
func bounds() kong.Vars {
	return kong.Vars{
		"max_wait":    span(leastMaxWait, mostMaxWait),
		"drain":       span(leastDrain, mostDrain),
		"connections": fmt.Sprintf("1 to %d", mostConnections),
		"max_ttl":     span(leastMaxTTL, mostMaxTTL),
		"waiting_ttl": span(leastWaitingTTL, mostWaitingTTL),
		"request":     span(leastRequest, mostRequest),
		"waiters":     fmt.Sprintf("1 to %d", mostWaiters),
		"timeout":     span(leastTimeout, mostTimeout),
		"ttl":         span(leastTTL, mostTTL),
		"wait":        span(0, mostWait),
		"grace":       span(leastGrace, mostGrace),
		"every":       span(leastEvery, mostEvery),

		"rate":             fmt.Sprint(mostRate),
		"of_one":           fmt.Sprint(mostOfOne),
		"connections_most": fmt.Sprint(mostConnections),
		"hold":             span(leastHold, mostHold),
		"body":             fmt.Sprintf("%d to %d", leastBody, mostBody),
		"header":           fmt.Sprintf("%d to %d", server.LeastHeaderBytes, server.MostHeaderBytes),
		"arrival":          span(leastArrival, mostArrival),
	}
}

func span(least, most time.Duration) string { return short(least) + " to " + short(most) }

const (
	openBound  = 30 * time.Second // for the store, once etcd answers
	closeBound = 5 * time.Second  // for the store to leave etcd in order
	cutBound   = time.Second      // for what is cut short to end in order all the same
)

type serveCommand struct {
	Listen       string   `default:"127.0.0.1:8080" placeholder:"HOST:PORT" group:"http" help:"Where to serve HTTP (default: ${default}). Without a host: on all addresses; port 0: on a free port. What is not loopback needs --auth-file, or --insecure-no-auth."`
	MaxWait      duration `default:"55s" placeholder:"DURATION" group:"http" help:"The longest wait_seconds a client may ask for: whole seconds from ${max_wait} (default: ${default}, below the 60 s after which common balancers cut an idle line)."`
	DrainTimeout duration `default:"8s" placeholder:"DURATION" group:"http" help:"How long requests may take to end when the server stops: ${drain} (default: ${default}). Waits and streams end at once, in a way that goes on at another replica."`
	MaxConns     number   `name:"max-connections" default:"32768" placeholder:"NUMBER" group:"http" help:"Connections open at one time: ${connections} (default: ${default}). More have to wait."`

	MaxTTL         duration `name:"max-ttl" default:"24h" placeholder:"DURATION" group:"locks" help:"The longest ttl_seconds a client may ask for: whole seconds from ${max_ttl} (default: ${default})."`
	WaitingTTL     duration `name:"waiting-ttl" default:"15s" placeholder:"DURATION" group:"locks" help:"How long a place in a queue survives without anybody asking for it: whole seconds from ${waiting_ttl} (default: ${default})."`
	RequestTimeout duration `default:"5s" placeholder:"DURATION" group:"locks" help:"How long after its arrival etcd may still be asked for a request: ${request} (default: ${default}). What etcd has not answered by then is told as 503."`
	MaxWaiters     number   `default:"20000" placeholder:"NUMBER" group:"locks" help:"Queued claims that this replica serves at one time: ${waiters} (default: ${default}). More are refused with 503 overloaded."`
	MaxQueue       number   `default:"5000" placeholder:"NUMBER" group:"locks" help:"Claims that may wait for one name: ${waiters} (default: ${default}). More are refused with 429."`

	accessFlags `embed:""`
	limitFlags  `embed:""`
	etcdFlags   `embed:""`
	logFlags    `embed:""`
}

func (c *serveCommand) check(bad *faults) {
	if err := hostPort(c.Listen); err != nil {
		bad.add("listen", "%v, not %q", err, c.Listen)
	}
	c.MaxWait.seconds(bad, "max-wait", leastMaxWait, mostMaxWait)
	c.DrainTimeout.within(bad, "drain-timeout", leastDrain, mostDrain)
	c.MaxConns.within(bad, "max-connections", 1, mostConnections)
	c.MaxTTL.seconds(bad, "max-ttl", leastMaxTTL, mostMaxTTL)
	c.WaitingTTL.seconds(bad, "waiting-ttl", leastWaitingTTL, mostWaitingTTL)
	c.RequestTimeout.within(bad, "request-timeout", leastRequest, mostRequest)
	c.MaxWaiters.within(bad, "max-waiters", 1, mostWaiters)
	c.MaxQueue.within(bad, "max-queue", 1, mostWaiters)
	c.accessFlags.check(bad, c.Listen)
	c.limitFlags.check(bad)
	c.etcdFlags.check(bad)
	c.logFlags.check(bad)
}

// run builds from etcd outward, serves, and closes in reverse.
func (c *serveCommand) run(s surroundings) (err error) {
	lines := &logLines{to: s.stderr}
	defer lines.flush()
	logger := slog.New(prompt{c.logger(lines).Handler(), lines})
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	defer runtime.KeepAlive(make([]byte, idleHeap))
	defer startTidying()()
	doors, err := c.findDoors(s.stop, logger, registry)
	if err != nil {
		return started(s, err)
	}
	defer doors.close()
	e, err := c.open(s.stop, logger)
	if err != nil {
		return started(s, err)
	}
	defer func() { err = errors.Join(err, closing("etcd", e.close())) }()

	locks, err := c.openStore(s.stop, e, logger, registry)
	if err != nil {
		return started(s, err)
	}
	defer func() { err = errors.Join(err, closing("store", closeStore(s.cut, locks))) }()

	handler, err := server.New(locks, server.Config{
		MaxWait: c.MaxWait.Duration, MaxBody: int64(c.MaxBody.int), BodyTimeout: c.BodyTimeout.Duration,
		Gate: doors.asks(), Limits: c.limits(), MetricsApart: c.AdminListen != "",
		Logger: logger, Audit: doors.audit, Registry: registry,
	})
	if err != nil {
		return &startError{err}
	}
	if err := c.openDoors(s.stop, doors, registry); err != nil {
		return started(s, err)
	}
	if err := doors.serveAdmin(handler, c.Pprof, logger); err != nil {
		return &startError{err}
	}
	if c.InsecureNoAuth && !loopback(c.Listen) {
		logger.Warn("there is no authentication: whoever reaches this address can take, see and release every lock",
			"listen", doors.listener.Addr().String())
	}
	if doors.gate != nil && doors.tls == nil && !loopback(c.Listen) {
		logger.Warn("tokens cross the network as they are: give --tls-cert, unless something before this speaks TLS",
			"listen", doors.listener.Addr().String())
	}
	logger.Info(fmt.Sprintf("latchkey %s listens on %s://%s, store: %s", versionText(), doors.scheme(), doors.listener.Addr(), e.where))
	return c.serve(s, doors.listener, handler, e, logger)
}

// started is why a start ended: not a fault if it was told to stop meanwhile.
func started(s surroundings, err error) error {
	if s.stop.Err() != nil {
		return nil
	}
	return &startError{err}
}

func closing(what string, err error) error {
	if err != nil {
		return fmt.Errorf("close the %s: %w", what, err)
	}
	return nil
}

func (c *serveCommand) openStore(ctx context.Context, e *etcd, logger *slog.Logger, registry *prometheus.Registry) (*store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openBound)
	defer cancel()
	return store.Open(ctx, e.Client, store.Config{
		Prefix:       c.EtcdPrefix,
		MaxTTL:       c.MaxTTL.Duration,
		WaitingTTL:   c.WaitingTTL.Duration,
		RequestBound: c.RequestTimeout.Duration,
		MaxWaiters:   c.MaxWaiters.int,
		MaxQueue:     c.MaxQueue.int,
		MaxClaims:    c.MaxClaimsAtOnce.int,
		MaxHold:      c.MaxHold.Duration,
		Logger:       logger.With("component", "store"),
		Registerer:   registry,
	})
}

// closeStore gives the store less time when it is to be cut short.
func closeStore(cut context.Context, locks *store.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	defer context.AfterFunc(cut, func() { time.AfterFunc(cutBound, cancel) })()
	return locks.Close(ctx)
}

// serve answers requests until it is told to stop, then lets those under way end.
func (c *serveCommand) serve(s surroundings, listener net.Listener, handler *server.Server, e *etcd, logger *slog.Logger) error {
	requests, cutRequests := context.WithCancel(context.Background())
	defer cutRequests()
	srv, err := server.NewHTTPServerWith(handler, logger, server.HTTPConfig{
		HeaderTimeout: c.HeaderTimeout.Duration, MaxHeaderBytes: c.MaxHeader.int,
	})
	if err != nil {
		return &startError{err}
	}
	srv.BaseContext = func(net.Listener) context.Context { return requests }

	served := make(chan error, 1)
	go func() {
		defer close(served)
		served <- srv.Serve(listener)
	}()
	defer func() { srv.Close(); <-served }() // nothing of ours runs after this returns

	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-e.ended():
		handler.Drain()
		return errors.New("the embedded etcd ended by itself; its last log lines say why")
	case <-s.stop.Done():
	}
	logger.Info("draining", "timeout", c.DrainTimeout.String())
	handler.Drain()
	soft, cancel := context.WithTimeout(s.cut, c.DrainTimeout.Duration)
	defer cancel()
	if err := srv.Shutdown(soft); err != nil {
		logger.Warn("cutting off the requests that have not ended", "cause", err)
		cutRequests()
		last, cancel := context.WithTimeout(context.Background(), cutBound)
		defer cancel()
		srv.Shutdown(last) // they notice at once; those that do not are left behind
	}
	return nil
}
