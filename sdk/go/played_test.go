package latchkey_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// played is a service that a test plays, where only what the client sends, and does with an answer, matters.
type played struct {
	*httptest.Server

	mu    sync.Mutex
	heard []*http.Request
}

func play(t *testing.T, answer http.HandlerFunc) *played {
	t.Helper()
	p := &played{}
	p.Server = httptest.NewServer(p.hearing(answer))
	t.Cleanup(p.Close)
	return p
}

func (p *played) hearing(answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p.mu.Lock()
		p.heard = append(p.heard, req)
		p.mu.Unlock()
		answer(w, req)
	})
}

// tokens are those of the requests with the method, in order; of all requests if that is empty.
func (p *played) tokens(method string) (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, req := range p.heard {
		if method == "" || req.Method == method {
			all = append(all, req.Header.Get("Authorization"))
		}
	}
	return all
}

const (
	playedID   = "k7Qm2vXc9TtZ0aYdW3uN5h"
	playedName = "played"
)

// playedLock answers as a lock that is held, or queued, or its lease.
func playedLock(w http.ResponseWriter, state string, ttl int) {
	body := map[string]any{
		"id": playedID, "name": playedName, "state": state, "position": 1, "lease_id": playedID, "ttl_seconds": ttl, "renew_after_seconds": 1,
	}
	if state == "held" {
		body["position"], body["fencing_token"] = 0, 7
	}
	json.NewEncoder(w).Encode(body)
}

// refuse answers with a problem. A member that is more can be among its own.
func refuse(w http.ResponseWriter, status int, code string, more ...map[string]any) {
	body := map[string]any{"type": "", "title": "t", "status": status, "detail": "the detail", "code": code}
	for _, members := range more {
		maps.Copy(body, members)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// holding answers a claim with a held lock, and leaves the rest to others.
func holding(ttl int, others map[string]http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		switch other := others[req.Method]; {
		case other != nil:
			other(w, req)
		case req.Method == http.MethodPost || req.Method == http.MethodPut:
			playedLock(w, "held", ttl)
		case req.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			fmt.Fprint(w, `{"locks":[]}`)
		}
	}
}
