package access

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	// ErrNoCredentials says that the request has neither an Authorization header nor a certificate.
	ErrNoCredentials = errors.New("no credentials")
	// ErrBadCredentials says that the credentials are nobody's: unknown, forged, expired, of another issuer, malformed. Which of
	// these is in the log, at debug.
	ErrBadCredentials = errors.New("bad credentials")
	// ErrCannotTell says that a JWT is signed by a key that is not known, while the issuer's keys cannot be fetched. The same
	// credentials may be good later.
	ErrCannotTell = errors.New("the issuer's keys cannot be fetched")
)

// Config is where a Gate finds what it goes by.
type Config struct {
	// File is the auth file. What it names is looked for beside it.
	File string

	now func() time.Time // of tests
}

// Gate tells who sends a request. Its methods may be called by many goroutines.
type Gate struct {
	file    string
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics
	policy  atomic.Pointer[policy]

	mu   sync.Mutex
	seen content // what was read last
}

// Open reads the auth file and what it names. Its error names all faults of the files, each with its line and field, and no
// secret. Keys of an issuer are fetched by Run, or for the first JWT.
func Open(cfg Config, log *slog.Logger, registry prometheus.Registerer) (*Gate, error) {
	m, err := newMetrics(registry)
	if err != nil {
		return nil, err
	}
	g := &Gate{file: cfg.File, now: cfg.now, log: log, metrics: m}
	if g.now == nil {
		g.now = time.Now
	}
	policy, seen, err := g.load()
	if err != nil {
		return nil, fmt.Errorf("read who may do what:\n%w", err)
	}
	g.seen = seen
	g.policy.Store(policy)
	log.Info("requests say who sends them", policy.told(cfg.File)...)
	return g, nil
}

// Who tells the principal of a request by its Authorization header or, if it has none, by the certificate of the connection,
// whose chain has been verified (nil: there is none). It returns ErrNoCredentials, ErrBadCredentials or ErrCannotTell if it
// cannot. For a JWT by a key that is not known it waits until the issuer has answered, 5 s at the most: all such requests for one
// answer, one of them even when its ctx has ended.
func (g *Gate) Who(ctx context.Context, header http.Header, peer *x509.Certificate) (*Principal, error) {
	given := header["Authorization"]
	var p *Principal
	var err error = errSeveralHeaders
	switch {
	case len(given) == 1:
		p, err = g.policy.Load().authorized(ctx, given[0])
	case len(given) == 0 && peer != nil:
		p, err = g.policy.Load().certificates.who(peer, g.now())
	case len(given) == 0:
		return nil, ErrNoCredentials
	}
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, ErrCannotTell):
		return nil, ErrCannotTell
	}
	g.log.DebugContext(ctx, "credentials refused", "cause", causeOf(err))
	return nil, ErrBadCredentials
}

const errSeveralHeaders refusal = "there are several Authorization headers"
