package server

import (
	"context"
	"net/http"
	"net/http/pprof"
)

// Admin serves what is for those who run the service: health and metrics, and with profiles pprof, which is off unless it
// is asked for. It asks nobody who they are, so its listener is not for everybody.
func (s *Server) Admin(profiles bool) http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		mux.Handle(path, s.trusting())
	}
	mux.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, http.HandlerFunc(s.notFound))
	}))
	if profiles { // not cmdline: there can be a password in it
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("/debug/pprof/cmdline", func(w http.ResponseWriter, r *http.Request) {
			s.serve(w, r, http.HandlerFunc(s.notFound))
		})
	}
	return mux
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
