package store

import (
	"sync"
	"time"
)

// hot remembers names that were busy lately, so that tries on them look before they begin an etcd lease.
type hot struct {
	mu    sync.Mutex
	until map[string]time.Time
}

const (
	hotFor   = 5 * time.Second
	hotNames = 4096
)

func (h *hot) note(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until == nil || len(h.until) >= hotNames {
		h.until = make(map[string]time.Time)
	}
	h.until[name] = time.Now().Add(hotFor)
}

func (h *hot) is(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, ok := h.until[name]
	if ok && time.Now().After(until) {
		delete(h.until, name)
		return false
	}
	return ok
}
