package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// reloadEvery is how often the files are looked at.
const reloadEvery = 3 * time.Second

// TLSConfig is what may be chosen of TLS. All files are PEM, of at most 1 MiB each.
//
// It speaks TLS 1.2 and 1.3 with forward secrecy and authenticated encryption alone, and HTTP/1.1 alone. There is no
// resuming: whoever connects is judged anew.
type TLSConfig struct {
	// CertFile has the server's certificate, then those between it and the root, and KeyFile its key. Both are required,
	// and may be one file.
	CertFile, KeyFile string
	// ClientCAFile has the certificates that a client's must come from; by default clients are not asked for any. A client
	// may then have one, which is refused if it does not come from these, has expired or is not for clients.
	ClientCAFile string
	// RequireClientCert refuses clients without a certificate.
	RequireClientCert bool
	// Logger is told of files that change and of handshakes that fail; slog.Default() by default.
	Logger *slog.Logger
	// Registerer gets the metrics of TLS; by default nobody does.
	Registerer prometheus.Registerer
}

// TLS is the server's certificate, its key and the client CAs, as they are in their files now. What is open goes on with
// what it began with, but for a client's certificate: one that has expired or is no longer trusted ends its connection
// at the next request. Several listeners may have the same TLS.
type TLS struct {
	cfg     TLSConfig
	log     *slog.Logger
	metrics *tlsMetrics
	now     atomic.Pointer[tlsState]

	mu sync.Mutex // one reload at a time
	// fault is what was last wrong with the files: it is logged once.
	fault string

	stop    context.CancelFunc
	looking sync.WaitGroup
}

// OpenTLS reads the files, and again whenever they change, until Close. It fails when they cannot be used, and when the
// Registerer has metrics of these names already.
func OpenTLS(cfg TLSConfig) (*TLS, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.RequireClientCert && cfg.ClientCAFile == "" {
		return nil, errors.New("client certificates are required, and there is no file of client CAs")
	}
	t := &TLS{cfg: cfg, log: cfg.Logger.With("component", "tls")}
	if err := t.load(); err != nil {
		return nil, err
	}
	var err error
	if t.metrics, err = newTLSMetrics(cfg.Registerer, t.expiry); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.stop = cancel
	t.looking.Go(func() { t.look(ctx) })
	return t, nil
}

// Close ends the looks at the files. Listeners go on with what was read last.
func (t *TLS) Close() {
	t.stop()
	t.looking.Wait()
}

func (t *TLS) look(ctx context.Context) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = t.Reload() // which logs
		case <-ctx.Done():
			return
		}
	}
}

// Reload looks at the files now. When they cannot be used, the error tells why, and those read before stay in use.
func (t *TLS) Reload() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.load()
	switch {
	case err == nil:
		t.fault = ""
	case err.Error() != t.fault:
		t.fault = err.Error()
		t.log.Error("the files of TLS cannot be used: going on with those of before", "cause", err)
	}
	return err
}

// load does nothing when the files are as they were.
func (t *TLS) load() error {
	files, err := readTLSFiles(t.cfg)
	if err != nil {
		return err
	}
	before := t.now.Load()
	if before != nil && files.sum() == before.sum {
		return nil
	}
	state, err := files.state(t.cfg)
	if err != nil {
		return err
	}
	t.now.Store(state)
	level := slog.LevelInfo
	if now := time.Now(); now.Before(state.leaf().NotBefore) || now.After(state.leaf().NotAfter) {
		level = slog.LevelWarn
	}
	t.log.Log(context.Background(), level, "the files of TLS are in use",
		"valid_from", state.leaf().NotBefore, "valid_to", state.leaf().NotAfter)
	return nil
}

func (t *TLS) expiry() float64 { return float64(t.now.Load().leaf().NotAfter.Unix()) }

// settings are those for a new connection.
func (t *TLS) settings() *tls.Config { return t.now.Load().settings }
