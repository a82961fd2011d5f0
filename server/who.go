package server

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/latchkey/latchkey/server/access"
	"github.com/latchkey/latchkey/store"
)

// Gate tells who sends a request. Its errors are those of package access.
type Gate interface {
	Who(ctx context.Context, header http.Header, peer *x509.Certificate) (*access.Principal, error)
}

// open says that an operation asks nobody who they are.
func (o *operation) open() bool {
	return o.path == "/healthz" || o.path == "/readyz" || o.path == "/openapi.yaml"
}

// recognise finds out who sends the request, and asks the store on their behalf from then on.
func (s *Server) recognise(ex *exchange, r *http.Request) error {
	if s.cfg.Gate == nil || ex.operation.open() || ex.trusted() {
		ex.who = access.Anyone()
		return nil
	}
	who, err := s.cfg.Gate.Who(r.Context(), r.Header, PeerCertificate(r.Context()))
	if err != nil {
		s.metrics.refused.WithLabelValues(refusalOf(err)).Inc()
		return err
	}
	ex.who, ex.credentials = who, r.Header
	ex.Context = store.As(ex.Context, who.Name)
	return nil
}

func refusalOf(err error) string {
	switch {
	case errors.Is(err, access.ErrNoCredentials):
		return "no_credentials"
	case errors.Is(err, access.ErrBadCredentials):
		return "bad_credentials"
	}
	return "cannot_tell"
}

// may refuses what the principal has no right to do with that name.
func (ex *exchange) may(right access.Right, name string) error {
	if ex.who.May(right, name) {
		return nil
	}
	return &forbiddenError{right: right, who: ex.who}
}

// mayKeep refuses whoever has no right any more to the name of a claim, or to any name, to keep it or to be granted it: a
// right that was taken away ends with the TTL. Looking and letting go are always allowed.
func (ex *exchange) mayKeep(id string) error {
	if ex.who == access.Anyone() {
		return nil
	}
	if name, is := store.NameOf(id); is {
		return ex.may(access.Lock, name)
	}
	return ex.mayAnywhere(access.Lock)
}

// judgeEvery is how often it is asked again whether the client of a stream may still have it.
const judgeEvery = 10 * time.Second

// unwelcomeError is why a stream ends whose client may not have it any more.
type unwelcomeError struct{ cause error }

func (e *unwelcomeError) Error() string { return e.cause.Error() }

// judgeAgain ends a stream once its client is not known any more or may not keep what it is about, until stop is called.
// It is a timer, since a goroutine for each stream would cost its stack.
func (s *Server) judgeAgain(ctx context.Context, id string, end context.CancelCauseFunc) (stop func()) {
	ex := exchangeOf(ctx)
	if s.cfg.Gate == nil || ex.trusted() {
		return func() {}
	}
	var mu sync.Mutex // the first time can come before timer is set
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(s.cfg.JudgeEvery, func() {
		who, err := s.cfg.Gate.Who(ctx, ex.credentials, PeerCertificate(ctx))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && who.Name == ex.who.Name:
			err = (&exchange{who: who}).mayKeep(id)
		case err == nil:
			err = access.ErrBadCredentials
		case errors.Is(err, access.ErrCannotTell):
			err = nil
		}
		if err != nil {
			end(&unwelcomeError{err})
			return
		}
		mu.Lock()
		defer mu.Unlock()
		timer.Reset(s.cfg.JudgeEvery)
	})
	return func() { timer.Stop() }
}

// mayAnywhere refuses whoever has that right on no name at all.
func (ex *exchange) mayAnywhere(right access.Right) error {
	if len(ex.who.Prefixes(right)) > 0 {
		return nil
	}
	return &forbiddenError{right: right, who: ex.who}
}

// forbiddenError reports a right that a principal lacks.
type forbiddenError struct {
	right access.Right
	who   *access.Principal
	// name is what it needs the right on, if that is not a lock's.
	name string
}

// prefixesTold is how many of the prefixes that a principal has are told to it.
const prefixesTold = 8

func (e *forbiddenError) Error() string {
	of := e.name
	if of == "" {
		of = "the name"
	}
	text := "this needs " + e.right.String() + " on " + of + ", which " + e.who.Name + " has on"
	prefixes := e.who.Prefixes(e.right)
	if len(prefixes) == 0 {
		return text + " no name"
	}
	text += ": "
	for i, prefix := range prefixes {
		switch {
		case i == prefixesTold:
			return text + ", and others"
		case i > 0:
			text += ", "
		}
		text += string(prefix)
	}
	return text
}

// namesOf are the names that the principal may read, or nil if that is all.
func namesOf(who *access.Principal) []store.Names {
	ranges := who.Ranges(access.Read)
	names := make([]store.Names, 0, len(ranges))
	for _, r := range ranges {
		switch {
		case r.Begins && r.Text == "":
			return nil
		case r.Begins:
			names = append(names, store.Names{Begins: r.Text})
		default:
			names = append(names, store.Names{Exact: r.Text})
		}
	}
	return names
}
