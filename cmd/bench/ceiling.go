package main

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/latchkey/latchkey/api"
)

// ceilingSpec is the ceiling's: a server of the same exchange that answers from memory, by net/http and encoding/json
// alone. It keeps no promise; it tells what HTTP itself costs here, in a server and in the load.
type ceilingSpec struct{ Address string }

type ceiling struct {
	mu    sync.Mutex
	token int64
	names map[string]*ceilingName
	locks map[string]string // the name that an id holds
}

// ceilingName is a name that is held.
type ceilingName struct{ waiting []chan struct{} }

func (c *ceilingSpec) serve() error {
	m := &ceiling{names: map[string]*ceilingName{}, locks: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /locks", m.acquire)
	mux.HandleFunc("DELETE /locks/{id}", m.release)
	mux.HandleFunc("PUT /leases/{id}", m.renew)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, api.Health{}) })
	return http.ListenAndServe(c.Address, mux)
}

func (m *ceiling) acquire(w http.ResponseWriter, r *http.Request) {
	var claim api.LockRequest
	if err := json.NewDecoder(r.Body).Decode(&claim); err != nil {
		answer(w, http.StatusBadRequest, api.Problem{Detail: err.Error()})
		return
	}
	m.mu.Lock()
	if n, held := m.names[claim.Name]; held {
		if claim.WaitSeconds == 0 {
			m.mu.Unlock()
			answer(w, http.StatusConflict, api.Problem{Code: "lock_held"})
			return
		}
		turn := make(chan struct{})
		n.waiting = append(n.waiting, turn)
		m.mu.Unlock()
		<-turn
		m.mu.Lock()
	} else {
		m.names[claim.Name] = &ceilingName{}
	}
	m.token++
	lock := api.Lock{ID: rand.Text(), Name: claim.Name, State: "held", FencingToken: m.token, TTLSeconds: claim.TTLSeconds}
	m.locks[lock.ID] = lock.Name
	m.mu.Unlock()
	lock.LeaseID = lock.ID
	w.Header().Set("Location", "/locks/"+lock.ID)
	w.Header().Set("Fencing-Token", strconv.FormatInt(lock.FencingToken, 10))
	answer(w, http.StatusCreated, lock)
}

func (m *ceiling) release(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	m.mu.Lock()
	defer m.mu.Unlock()
	name, held := m.locks[id]
	if !held {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	delete(m.locks, id)
	if n := m.names[name]; len(n.waiting) > 0 {
		close(n.waiting[0])
		n.waiting = n.waiting[1:]
	} else {
		delete(m.names, name)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (m *ceiling) renew(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	m.mu.Lock()
	_, held := m.locks[id]
	m.mu.Unlock()
	if !held {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	answer(w, http.StatusOK, api.Lease{ID: id})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone
}
