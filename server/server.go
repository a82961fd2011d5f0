package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store"
)

// Store is what the handlers ask of the store. A request's context ends when its client has left. Errors are those of
// package store, or wrap them.
type Store interface {
	// Claim takes the lock (Held), or keeps its place (Queued, only when asked to), or returns a *store.HeldError.
	Claim(ctx context.Context, claim store.Claim) (store.Lock, error)
	// Untold takes back the claim whose answer could not be written, if nobody else can know of it. It does not block.
	Untold(lock store.Lock)
	// Look returns the claim as it is, or store.ErrNoLock.
	Look(ctx context.Context, id string) (store.Lock, error)
	// Ask keeps the claim's place and waits for its grant. It returns the claim held, or still queued.
	Ask(ctx context.Context, id string, wait time.Duration, arrived time.Time) (store.Lock, error)
	// Follow tells the claim's state at once, each change of its position, and its grant, after which it returns nil.
	// An error before the first tell means that nothing was told.
	Follow(ctx context.Context, id string, arrived time.Time, tell func(store.Lock) error) error
	// Release removes this claim and no other, or returns store.ErrNoLock.
	Release(ctx context.Context, id string) error
	// Break removes a claim, whoever's it is, if may allows that for its name, and returns it as it stood.
	Break(ctx context.Context, id string, b store.Breaking, may func(name string) bool) (store.Lock, error)
	// Another reports whether the id is that of a claim which stands and is another principal's.
	Another(ctx context.Context, id string) (bool, error)
	// Gone are those of the claims and leases named which stand no more.
	Gone(ctx context.Context, ids []string) ([]string, error)
	// Find returns, for each of the claims, what a repeat of it would find.
	Find(ctx context.Context, claims []store.Claim) ([]store.Found, error)
	// Share has tell called every few seconds, for what this replica is to tell the others.
	Share(tell func(context.Context) store.Word)
	// Others returns what the other replicas have told last.
	Others() []store.Word
	// List returns a page of claims, or store.ErrBadCursor.
	List(ctx context.Context, filter store.Filter) (store.Page, error)

	// NewLease makes a lease with the TTL, holder and metadata given.
	NewLease(ctx context.Context, lease store.Lease, arrived time.Time) (store.Lease, error)
	// Renew starts the TTL again, or returns store.ErrNoLease or store.ErrLockQueued.
	Renew(ctx context.Context, id string, arrived time.Time) (store.Lease, error)
	// GetLease returns the lease with its locks, or store.ErrNoLease.
	GetLease(ctx context.Context, id string) (store.Lease, error)
	// EndLease frees every lock on the lease, or returns store.ErrNoLease.
	EndLease(ctx context.Context, id string) error
	// Keep renews the lease until ctx ends and tells each renewal and each failure. It returns nil when it has lasted as
	// long as it may. An error before the first tell means that nothing was told.
	Keep(ctx context.Context, id string, tell func(store.Kept) error) error

	// TTLBounds returns the least and the longest TTL.
	TTLBounds() (least, most time.Duration)
	// Ready returns nil when the store can be used, else store.ErrUnavailable or store.ErrDraining.
	Ready() error
	// Drain ends every wait in a way that can be resumed at another replica.
	Drain()
}

// Config is what may be chosen. A zero value means the default.
type Config struct {
	// MaxWait is the longest wait_seconds; 55 s by default, below the 60 s idle limit of common balancers.
	MaxWait time.Duration
	// RetryAfter is what Retry-After begins at, before it is varied; 1 s by default.
	RetryAfter time.Duration
	// OverloadPause is how long the answer to a request too many is held back; 1 s by default.
	OverloadPause time.Duration
	// Heartbeat is how long an event stream may be silent before a comment is sent; 10 s by default.
	Heartbeat time.Duration
	// WriteTimeout is the time for each write of an answer or an event; 10 s by default.
	WriteTimeout time.Duration
	// BodyTimeout is the time for a request's body to arrive to its end; 10 s by default.
	BodyTimeout time.Duration
	// JudgeEvery is how often it is asked again whether the client of a stream may still have it; 10 s by default.
	JudgeEvery time.Duration
	// MaxBody is the size of a request's body in bytes; 64 KiB by default.
	MaxBody int64
	// Gate tells who sends a request. Nil: nobody is asked, and everybody may do everything.
	Gate Gate
	// Limits bound what one may have; none by default.
	Limits Limits
	// MetricsApart says that there is a listener for administration, so that GET /metrics is not here.
	MetricsApart bool
	// Audit gets a line for each lock that is broken; Logger by default.
	Audit *slog.Logger
	// Logger gets a line a request; slog.Default() by default.
	Logger *slog.Logger
	// Registry gets the server's metrics, and GET /metrics serves all that is in it; a new one by default.
	Registry *prometheus.Registry
}

func (c Config) withDefaults() Config {
	orElse(&c.MaxWait, 55*time.Second)
	orElse(&c.RetryAfter, time.Second)
	orElse(&c.OverloadPause, time.Second)
	orElse(&c.Heartbeat, 10*time.Second)
	orElse(&c.WriteTimeout, 10*time.Second)
	orElse(&c.BodyTimeout, 10*time.Second)
	orElse(&c.MaxBody, 64<<10)
	orElse(&c.JudgeEvery, judgeEvery)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Audit == nil {
		c.Audit = c.Logger.With("component", "audit")
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	return c
}

func orElse[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

// Server answers HTTP requests with what the store says.
type Server struct {
	store    Store
	cfg      Config
	contract contract
	router   chi.Router
	routings sync.Pool // of *chi.Context
	log      *slog.Logger
	logs     map[*operation]slog.Handler
	metrics  *metrics
	limits   *limits
	draining atomic.Bool
}

// New makes a Server. It fails when the registry has metrics of these names already.
func New(store Store, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	contract, err := readContract(api.Contract)
	if err != nil {
		return nil, err
	}
	counts, err := newMetrics(cfg.Registry)
	if err != nil {
		return nil, err
	}
	s := &Server{
		store: store, cfg: cfg, contract: contract, log: cfg.Logger.With("component", "server"), metrics: counts,
		limits: newLimits(cfg.Limits, store),
	}
	if cfg.Gate != nil && cfg.Limits.ClaimsPerPrincipal+cfg.Limits.LeasesPerPrincipal > 0 {
		store.Share(s.limits.tally.tell)
	}
	s.routings.New = func() any { return chi.NewRouteContext() }
	s.logs = logsOf(contract, s.log.Handler())
	s.router = s.routes()
	return s, nil
}

// routes makes the router. The guard stands behind the routing, so that it knows the operation, and before the generated
// code, so that nothing else reads a request first.
func (s *Server) routes() chi.Router {
	router := chi.NewRouter()
	router.NotFound(s.notFound)
	router.MethodNotAllowed(s.methodNotAllowed)
	strict := api.NewStrictHandlerWithOptions(handlers{s}, nil, api.StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  s.failUnread,
		ResponseErrorHandlerFunc: s.fail,
	})
	router.Group(func(guarded chi.Router) {
		guarded.Use(s.guard)
		api.HandlerWithOptions(bodied{strict, handlers{s}}, api.ChiServerOptions{BaseRouter: guarded, ErrorHandlerFunc: s.failUnread})
	})
	return router
}

// handlers has a method for each operation of the contract.
type handlers struct{ *Server }

var _ api.StrictServerInterface = handlers{}

// Drain makes this replica not ready and ends every wait. http.Server.Shutdown can follow.
func (s *Server) Drain() {
	if s.draining.CompareAndSwap(false, true) {
		s.store.Drain()
	}
}

// ServeHTTP serves one request and leaves one log line of it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r, s.router) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request, by http.Handler) {
	ex := s.begin(w, r)
	defer ex.linger(r)
	defer s.end(ex, r)
	defer s.recoverPanic(ex, r)
	ex.routing = s.routings.Get().(*chi.Context)
	by.ServeHTTP(ex, r.WithContext(withExchange(r.Context(), ex)))
	ex.routing.Reset()
	s.routings.Put(ex.routing)
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	if err := s.slowEnough(exchangeOf(r.Context()), r); err != nil {
		s.fail(w, r, err)
		return
	}
	s.fail(w, r, errNoRoute)
}

// methodNotAllowed answers with the one Allow header that the router does not write; the router also comes here with
// methods it never heard of, whatever the path.
func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	if allow := s.contract.allowed(s.router, r); allow != "" {
		w.Header().Set("Allow", allow)
		if err := s.slowEnough(exchangeOf(r.Context()), r); err != nil {
			s.fail(w, r, err)
			return
		}
		s.fail(w, r, errMethod)
		return
	}
	s.notFound(w, r)
}
