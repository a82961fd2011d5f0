package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// judge checks all that was said in this trial, by clients and by etcd.
func (tr *trial) judge(faults []*fault) {
	w := tr.w
	w.t.Helper()
	w.etcdSaid.catchUp(w.t)
	for _, how := range w.etcdSaid.violations() {
		w.t.Errorf("%s: in etcd: %s", tr.name, how)
	}
	for _, s := range tr.sites {
		for _, p := range s.all {
			p.judge(w)
			for _, t := range p.tenures {
				w.ending = append(w.ending, ending{tenure: t, faults: faults, healed: tr.healed})
			}
		}
	}
	for _, how := range tr.sure.check(w.etcdSaid) {
		w.t.Errorf("%s: %s", tr.name, how)
	}
	w.endings()
}

// sure are the claims, by their holder text, of which every request had a definite answer.
type sure struct {
	mu            sync.Mutex
	granted, none []string
}

// once notes a claim that was told to be granted: that cannot happen again.
func (s *sure) once(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted = append(s.granted, tag)
}

// never notes a claim that was told to be not done.
func (s *sure) never(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.none = append(s.none, tag)
}

func (s *sure) check(etcd *etcdHistory) (violations []string) {
	for _, tag := range s.granted {
		if got := etcd.grantsTo(tag); len(got) != 1 {
			violations = append(violations, fmt.Sprintf("claim %q was told to be granted, and nothing of it was left open, yet etcd granted it %d", tag, got))
		}
	}
	for _, tag := range s.none {
		if got := etcd.grantsTo(tag); len(got) > 0 {
			violations = append(violations, fmt.Sprintf("claim %q was told to be not done, yet etcd granted it %d", tag, got))
		}
	}
	return violations
}

// ending is a tenure whose end etcd has not been seen to come to, with the faults that its client saw and the end of them.
type ending struct {
	*tenure
	faults []*fault
	healed time.Time
	later  bool // other trials began since
}

// After a change of etcd's leader a TTL starts again.
const leaderLag = 3 * time.Second

// endings looks which tenures that nobody released have run out by now, and how late.
func (w *world) endings() {
	w.t.Helper()
	var yet []ending
	for _, e := range w.ending {
		at, ended := w.etcdSaid.endOf(e.tag)
		latest := e.until().Add(expiryLag)
		if restarted := e.healed.Add(e.ttl + leaderLag); restarted.After(latest) {
			latest = restarted
		}
		switch {
		case !e.releasing.IsZero() || len(w.etcdSaid.grantsTo(e.tag)) != 1: // or more than the one that was told of: a claim sent again
		case !ended:
			e.later = true
			yet = append(yet, e)
		case at.Before(e.until()):
			w.t.Errorf("%q: token %d of client %d was gone from etcd %v before the end of its TTL, and nobody had released it",
				e.name, e.token, e.client, e.until().Sub(at))
		case e.later: // what came later may have held it up
			w.report.late(nil, at.Sub(e.until()))
		default:
			w.report.late(e.faults, at.Sub(e.until()))
			if at.After(latest.Add(slack)) {
				w.t.Errorf("%q: token %d of client %d ran out %v after its TTL, %v later than promised", e.name, e.token, e.client, at.Sub(e.until()), at.Sub(latest))
			}
		}
	}
	w.ending = yet
}

// judge checks what was said of the name.
func (p *spot) judge(w *world) {
	w.t.Helper()
	operations, violations := p.check()
	w.report.checked(operations, len(p.tenures))
	if lost := p.fenced.lost(); lost != 0 {
		violations = append(violations, fmt.Sprintf("%d updates of a fenced resource were lost", lost))
	}
	w.report.lost(p.fenced.lost(), p.bare.lost())
	for _, t := range p.tenures {
		if tokens := w.etcdSaid.grantsTo(t.tag); !slices.Contains(tokens, t.token) {
			violations = append(violations, fmt.Sprintf("client %d was told of token %d, but etcd granted its claim %d", t.client, t.token, tokens))
		}
	}
	for _, how := range violations {
		w.t.Errorf("%q: %s", p.name, how)
	}
}
