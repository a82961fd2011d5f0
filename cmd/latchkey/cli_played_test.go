package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// cliPlayed is a service that a test plays, where only what a command sends, and does with an answer, matters.
type cliPlayed struct {
	*httptest.Server

	mu    sync.Mutex
	heard []*http.Request
}

func cliPlay(t *testing.T, answer http.HandlerFunc) *cliPlayed {
	t.Helper()
	p := cliHearing(answer)
	p.Start()
	t.Cleanup(p.Close)
	return p
}

func cliHearing(answer http.HandlerFunc) *cliPlayed {
	p := &cliPlayed{}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p.mu.Lock()
		p.heard = append(p.heard, req)
		p.mu.Unlock()
		answer(w, req)
	}))
	return p
}

// tokens are those of the requests so far, each once.
func (p *cliPlayed) tokens() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]bool{}
	for _, req := range p.heard {
		all[req.Header.Get("Authorization")] = true
	}
	return all
}

const cliPlayedID = "k7Qm2vXc9TtZ0aYdW3uN5h"

// cliHolding answers as a service at which the lock job is held by whoever asks for it, with a TTL in seconds. What others has for
// a method is its answer to that.
func cliHolding(ttl int, others map[string]http.HandlerFunc) http.HandlerFunc {
	held := map[string]any{
		"id": cliPlayedID, "name": "job", "state": "held", "position": 0, "fencing_token": 7, "lease_id": cliPlayedID,
		"ttl_seconds": ttl, "renew_after_seconds": 1, "locks": []any{},
	}
	return func(w http.ResponseWriter, req *http.Request) {
		switch other := others[req.Method]; {
		case other != nil:
			other(w, req)
		case req.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			json.NewEncoder(w).Encode(held)
		}
	}
}

// cliRefusing answers with a problem, which may have members more.
func cliRefusing(status int, code string, more map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		body := map[string]any{"type": "", "title": "t", "status": status, "detail": "the detail", "code": code}
		maps.Copy(body, more)
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(body)
	}
}
