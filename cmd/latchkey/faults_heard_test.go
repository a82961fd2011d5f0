package main

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// nobody is who answered when it may have been any replica.
const nobody = -1

// answerStatuses are those that a client which asks rightly can be told.
var answerStatuses = []int{
	http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent, http.StatusNotFound, http.StatusConflict,
	http.StatusTooManyRequests, http.StatusServiceUnavailable,
}

var unavailableCodes = []string{"unavailable", "outcome_unknown", "overloaded", "draining", "place_lost"}

// heard looks at an answer, or at its absence: outcomes are definite, nothing secret is told, and a replica that runs
// answers within the wait and the request's bound.
func (w *world) heard(r int, a answer, wait int64) {
	w.report.operations.Add(1)
	if a.err == nil {
		w.secrets.read(a.problem.Title + " " + a.problem.Detail + " " + a.problem.Type)
		if h := a.problem.Holder; h != nil {
			w.secrets.read(h.Holder)
		}
	}
	if r == nobody {
		return
	}
	switch {
	case a.err != nil:
	case !slices.Contains(answerStatuses, a.status):
		w.t.Errorf("replica %d answers %v: outcomes are definite or say so", r, a)
	case a.status == http.StatusServiceUnavailable && (a.retry == "" || !slices.Contains(unavailableCodes, a.problem.Code)):
		w.t.Errorf("replica %d answers %v, Retry-After %q: a 503 says when to come back, and whether anything may have been done", r, a, a.retry)
	}
	took := a.got.Sub(a.sent)
	if a.err != nil && took < seconds(wait)+requestBound || !w.wasThere(r, a.sent, a.got) {
		return // the client did not stay for the answer, or nobody was there to give it
	}
	if most := seconds(wait) + requestBound + slack; took > most {
		w.t.Errorf("replica %d: an answer to a request that waits %d s comes within %v whatever etcd does, but: %v", r, wait, most, a)
	}
	w.report.answered(took - seconds(wait))
}

// secrets are what only its owner may be told: ids of locks and leases, and keys.
type secrets struct {
	mu   sync.Mutex
	ours map[string]bool
	seen map[string]string // what looks like one, and where it was first read
}

func newSecrets() *secrets {
	return &secrets{ours: map[string]bool{}, seen: map[string]string{}}
}

// secretLike is what an id or a key looks like.
var secretLike = regexp.MustCompile(`[A-Za-z0-9_-]{22,}`)

func (s *secrets) own(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ours[secret] = true
}

func (s *secrets) read(text string) {
	found := secretLike.FindAllString(text, -1)
	if len(found) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, like := range found {
		if _, ok := s.seen[like]; !ok {
			s.seen[strings.Clone(like)] = strings.Clone(text[:min(len(text), 300)])
		}
	}
}

// told are the texts in which a secret was told to others.
func (s *secrets) told() (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for like, text := range s.seen {
		if s.ours[like] {
			texts = append(texts, text)
		}
	}
	return texts
}

// readLog reads all that a replica has logged in this life of its.
func (w *world) readLog(r int) {
	for line := range strings.Lines(w.replicas[r].life.Load().log.String()) {
		w.secrets.read(line)
	}
}
