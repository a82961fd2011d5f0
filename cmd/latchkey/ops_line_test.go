package main

import (
	"sync"
	"testing"

	"github.com/latchkey/latchkey/api"
)

// waitersInLine is how many clients stand in a line until the name is free.
const waitersInLine = 6

// inLine is clients that wait in line for a name that is held, and ask for their places at one replica or another.
type inLine struct {
	t       *testing.T
	s       *service
	c       *client
	ids     []string
	granted []answer
	all     sync.WaitGroup
}

func newLine(t *testing.T, s *service, name string) *inLine {
	t.Helper()
	l := &inLine{t: t, s: s, c: newClient(t), ids: make([]string, waitersInLine), granted: make([]answer, waitersInLine)}
	for i := range l.ids {
		a := l.c.claim(s.any(), "", api.LockRequest{Name: name, TTLSeconds: holdersTTL, Queue: true})
		if !a.queued() {
			t.Fatalf("a claim with queue on a held lock: %v", a)
		}
		l.ids[i] = a.lock.ID
		l.all.Go(func() {
			if l.granted[i] = pollUntilHeld(l.c, s, l.ids[i]); l.granted[i].held() {
				if err := l.c.releaseSurely(s, l.ids[i]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	return l
}

// keptPlaces: each stands where it stood.
func (l *inLine) keptPlaces() {
	l.t.Helper()
	for i, id := range l.ids {
		if a := l.c.look(l.s.any(), id); !a.queued() || a.lock.Position != i+1 {
			l.t.Errorf("a waiter that keeps asking keeps its place (%d), but a look finds %v", i+1, a)
		}
	}
}

// served: once the name is free all are granted it, in the order in which they stood.
func (l *inLine) served() {
	l.t.Helper()
	l.all.Wait()
	last := int64(0)
	for i, a := range l.granted {
		if !a.held() || a.lock.FencingToken <= last {
			l.t.Fatalf("waiters are granted in queue order, but waiter %d, after token %d, is told %v", i, last, a)
		}
		last = a.lock.FencingToken
	}
}
