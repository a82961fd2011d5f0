package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// fetchPause is the least time from the beginning of one fetch of an issuer's keys to that of the next, whatever the cause:
	// a flood of JWTs with made-up keys must not become one of requests to the issuer.
	fetchPause = 10 * time.Second
	// keysAge is when keys are fetched anew though none is missing: so long is a key taken that the issuer has withdrawn.
	keysAge = 10 * time.Minute
)

// remoteKeys are those that the issuer serves at a URL. While it cannot be reached, the keys that are known stay good.
type remoteKeys struct {
	url     string
	get     func(context.Context) (keyring, error)
	now     func() time.Time
	log     *slog.Logger
	fetches *outcomes

	ring atomic.Pointer[keyring]

	mu      sync.Mutex
	flight  *flight   // nil while nobody is fetching
	tried   time.Time // when the last fetch began
	fetched time.Time // when the last one ended that succeeded
	err     error     // of the last one
}

// flight is a fetch under way.
type flight struct {
	done chan struct{}
	err  error // once done
}

func newRemoteKeys(url string, now func() time.Time, log *slog.Logger, fetches *outcomes) *remoteKeys {
	r := &remoteKeys{url: url, get: keysGetter(url, log), now: now, log: log, fetches: fetches}
	r.ring.Store(&keyring{})
	return r
}

func (r *remoteKeys) verify(ctx context.Context, signed *jose.JSONWebSignature) ([]byte, error) {
	ring := r.ring.Load()
	payload, verified, known := ring.verify(signed)
	if verified {
		return payload, nil
	}
	// the issuer may have a new key, under a new name or an old one; others may come to wait for the same answer
	err := r.fetch(ctx, context.WithoutCancel(ctx))
	if newer := r.ring.Load(); newer != ring {
		if payload, verified, known = newer.verify(signed); verified {
			return payload, nil
		}
	}
	if err != nil && !known {
		return nil, fmt.Errorf("%w: %w", ErrCannotTell, err)
	}
	return nil, errSignature
}

// fetch gets the keys anew, until flying ends, or waits for whoever is getting them, until waiting does. Within fetchPause of the
// last time it returns what came of that.
func (r *remoteKeys) fetch(waiting, flying context.Context) error {
	r.mu.Lock()
	under, err := r.flight, r.err
	mine := under == nil && (r.tried.IsZero() || r.now().Sub(r.tried) >= fetchPause)
	if mine {
		under = &flight{done: make(chan struct{})}
		r.flight, r.tried = under, r.now()
	}
	r.mu.Unlock()
	switch {
	case mine:
		r.fly(flying, under)
		return under.err
	case under == nil:
		return err
	}
	select {
	case <-under.done:
		return under.err
	case <-waiting.Done():
		return context.Cause(waiting)
	}
}

func (r *remoteKeys) fly(ctx context.Context, f *flight) {
	f.err = errors.New("the fetch has panicked")
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tell(f.err)
		if r.flight, r.err = nil, f.err; f.err == nil {
			r.fetched = r.now()
		}
		close(f.done)
	}()
	ring, err := r.get(ctx)
	if err == nil {
		r.ring.Store(&ring)
	}
	f.err = err
}

// tell logs a failure once, until a fetch succeeds again. A fetch that Run gave up when it ended is none.
func (r *remoteKeys) tell(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	r.fetches.count(err)
	switch {
	case err != nil && r.err == nil:
		r.log.Warn("the issuer's keys cannot be fetched; those that are known are used", "cause", err)
	case err == nil && r.err != nil:
		r.log.Info("the issuer's keys can be fetched again")
	}
}

// refresh fetches keys that have grown old, or that were never had.
func (r *remoteKeys) refresh(ctx context.Context) {
	r.mu.Lock()
	old := r.fetched.IsZero() || r.err != nil || r.now().Sub(r.fetched) >= keysAge
	r.mu.Unlock()
	if old {
		r.fetch(ctx, ctx) // what comes of it is told there
	}
}
