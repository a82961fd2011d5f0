package main

import "sync"

// resource is what a lock protects: a number that each holder reads, adds one to and writes. With the fencing rule it
// refuses a token lower than the highest that it has accepted; without, it takes all.
type resource struct {
	fenced bool

	mu       sync.Mutex
	highest  int64
	value    int
	accepted int
}

func (r *resource) read(token int64) (value int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuses(token) {
		return 0, false
	}
	return r.value, true
}

func (r *resource) write(token int64, value int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuses(token) {
		return false
	}
	r.value = value
	r.accepted++
	return true
}

// refuses is the rule. The caller has the lock.
func (r *resource) refuses(token int64) bool {
	if !r.fenced {
		return false
	}
	if token < r.highest {
		return true
	}
	r.highest = token
	return false
}

// lost is how many updates were taken that are not in the value.
func (r *resource) lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted - r.value
}
