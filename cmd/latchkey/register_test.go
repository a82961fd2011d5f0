package main

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// register is a resource that follows the fencing rule: it refuses a token lower than the highest it has accepted. It
// also sees who works on it at the same time.
type register struct {
	mu      sync.Mutex
	highest int64
	stays   []*stay // in the order in which they began
}

// stay is one client's work on the resource, from the answer that says "held" to the release.
type stay struct {
	client int
	token  int64
	// asked is when the claim was sent first, queued when it was first known to stand in the queue (zero: never before
	// its grant).
	asked, queued time.Time
	in, out       time.Time
	// until is when the client may no longer count on the lock.
	until time.Time
}

// write says whether the resource takes a write with this token.
func (r *register) write(token int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.highest {
		return false
	}
	r.highest = token
	return true
}

// enter begins a stay. It fails if somebody else is there who may still count on the lock, or if the token is not above
// all before.
func (r *register) enter(s *stay) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.in = time.Now()
	last := r.highest
	r.highest = max(last, s.token)
	defer func() { r.stays = append(r.stays, s) }()
	if s.token <= last {
		return fmt.Errorf("tokens of successive grants strictly increase, in queue order: client %d got %d after %d", s.client, s.token, last)
	}
	for _, other := range r.stays[max(0, len(r.stays)-1):] {
		if other.out.IsZero() && s.in.Before(other.until) {
			return fmt.Errorf("nobody else is granted a name while it is held: client %d with token %d came in %v before the end of the TTL of client %d with token %d",
				s.client, s.token, other.until.Sub(s.in), other.client, other.token)
		}
	}
	return nil
}

// leave ends a stay: the release is sent after it.
func (r *register) leave(s *stay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.out = time.Now()
}

// overtaken finds those who were granted after somebody who came to the queue when they stood in it already.
func (r *register) overtaken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	// first is, of all that were granted later, the one who is known to have stood first
	var first *stay
	for _, s := range slices.Backward(r.stays) {
		if first != nil && first.queued.Before(s.asked) {
			found = append(found, fmt.Sprintf("client %d stood in the queue %v before client %d asked, and was granted %v after it",
				first.client, s.asked.Sub(first.queued), s.client, first.in.Sub(s.in)))
		}
		if !s.queued.IsZero() && (first == nil || s.queued.Before(first.queued)) {
			first = s
		}
	}
	return found
}

// judge asks for what is promised of all grants together, tells the figures, and returns the longest hand-off.
func (r *register) judge(t *testing.T, clients int, took time.Duration) time.Duration {
	t.Helper()
	for _, how := range r.overtaken() {
		t.Errorf("grants are in queue order, but %s", how)
	}
	served := make([]int, clients)
	var handOffs []time.Duration
	for i, s := range r.stays {
		served[s.client]++
		if i > 0 && !r.stays[i-1].out.IsZero() {
			handOffs = append(handOffs, s.in.Sub(r.stays[i-1].out))
		}
	}
	for n, times := range served {
		if times == 0 {
			t.Errorf("every waiter is served in its turn, but client %d of %d never was", n, clients)
		}
	}
	slices.Sort(handOffs)
	if len(handOffs) == 0 {
		t.Fatal("nobody was granted the lock after somebody else")
	}
	t.Logf("%d grants to %d clients (%d to %d each) in %v: %.1f a second; from release to the next one's answer: %v half of them, %v 99 %%, %v the longest",
		len(r.stays), clients, slices.Min(served), slices.Max(served), took.Round(time.Millisecond), float64(len(r.stays))/took.Seconds(),
		quantile(handOffs, 0.5), quantile(handOffs, 0.99), quantile(handOffs, 1))
	return handOffs[len(handOffs)-1]
}

// quantile is the smallest that so large a part of all are not above.
func quantile(sorted []time.Duration, part float64) time.Duration {
	at := max(0, int(part*float64(len(sorted))+0.5)-1)
	return sorted[min(at, len(sorted)-1)].Round(10 * time.Microsecond)
}
