package server

import (
	"context"
	"net/http"
	"net/http/pprof"
	runtimepprof "runtime/pprof"
	"strings"
	"time"
)

// Admin serves what is for those who run the service: health and metrics, and with profiles pprof, which is off unless it
// is asked for. It asks nobody who they are, so its listener is not for everybody. Paths are taken as they are: a redirect to
// a cleaned one would repeat what is in it.
func (s *Server) Admin(profiles bool) http.Handler {
	trusting := s.trusting()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/healthz", path == "/readyz", path == "/metrics":
			trusting.ServeHTTP(w, r)
		case profiles && profilerOf(path) != nil:
			s.serve(w, r, profiling(profilerOf(path)))
		default:
			s.serve(w, r, http.HandlerFunc(s.notFound))
		}
	})
}

const profilesPath = "/debug/pprof/"

// profile stands for the operation of all profiles: they are in no contract.
var profile = &operation{id: "profile", path: profilesPath}

// mostProfile is how long a profile may go on and its answer be written.
const mostProfile = 10 * time.Minute

// profilerOf returns what serves a path of pprof, or nil. It has no cmdline: there can be a password in it.
func profilerOf(path string) http.HandlerFunc {
	name, is := strings.CutPrefix(path, profilesPath)
	switch {
	case !is:
		return nil
	case name == "profile":
		return pprof.Profile
	case name == "symbol":
		return pprof.Symbol
	case name == "trace":
		return pprof.Trace
	case name == "", runtimepprof.Lookup(name) != nil:
		return pprof.Index
	}
	return nil
}

// profiling gives a profile its time: a trace is written as it goes.
func profiling(by http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ex := exchangeOf(r.Context())
		ex.operation, ex.writeTimeout = profile, mostProfile
		by.ServeHTTP(w, r)
	})
}

type trustedKey struct{}

// trusting serves requests that came in by the listener for administration.
func (s *Server) trusting() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), trustedKey{}, true)))
	})
}

// trusted says that a request came in by the listener for administration.
func (ex *exchange) trusted() bool { return ex.Context.Value(trustedKey{}) != nil }
