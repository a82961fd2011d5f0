package server

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"

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
	ex.who = who
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
	return &forbiddenError{right, ex.who}
}

// mayAnywhere refuses whoever has that right on no name at all.
func (ex *exchange) mayAnywhere(right access.Right) error {
	if len(ex.who.Prefixes(right)) > 0 {
		return nil
	}
	return &forbiddenError{right, ex.who}
}

// forbiddenError reports a right that a principal lacks.
type forbiddenError struct {
	right access.Right
	who   *access.Principal
}

// prefixesTold is how many of the prefixes that a principal has are told to it.
const prefixesTold = 8

func (e *forbiddenError) Error() string {
	text := "this needs " + e.right.String() + " on the name, which " + e.who.Name + " has on"
	prefixes := e.who.Prefixes(e.right)
	if len(prefixes) == 0 {
		return text + " none"
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
