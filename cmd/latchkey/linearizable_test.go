package main

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/latchkey/latchkey/api"
)

const (
	historyNames   = 6
	historyClients = 4 // on each name
	historyTTL     = longestTTL
	historyOps     = 30 // of each client: the checker's work grows fast with the length of a history
	checkBound     = time.Minute
)

// act is what a client asked for, and verdict what came of it.
type act struct {
	kind  actKind
	name  string
	token int64 // of the lock renewed or released
	again bool  // it may have been released before, by this client
}

type actKind string

const (
	actClaim   actKind = "claim"
	actRenew   actKind = "renew"
	actRelease actKind = "release"
)

// verdict is what came of it, once that was sure.
type verdict struct {
	done  bool
	token int64 // of a claim that was granted
}

// lockState is one name: who holds it, and the highest token ever given.
type lockState struct{ holder, highest int64 }

// lockModel is a lock that does not run out: a grant to a free lock with a token above all before, and every other answer
// as the holder at that instant makes it. A release may be told as done that an earlier one has done: the service itself
// repeats what etcd did not answer.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(lockState), input.(act), output.(verdict)
		switch {
		case in.kind == actClaim && out.done:
			return s.holder == 0 && out.token > s.highest, lockState{out.token, out.token}
		case in.kind == actClaim:
			return s.holder != 0, s
		case out.done && in.kind == actRelease:
			if s.holder != in.token {
				return in.again && in.token <= s.highest, s
			}
			return true, lockState{0, s.highest}
		case out.done:
			return s.holder == in.token, s
		}
		return s.holder != in.token, s
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v: %+v", input, output)
	},
}

// historiesAreLinearizable: what clients are told of a name fits one order of all that was done to it, also while a
// replica and etcd's leader die.
func historiesAreLinearizable(t *testing.T, s *service) {
	for round := range shortOrLong(1, 10) {
		c := newClient(t)
		histories := make([][]porcupine.Operation, historyNames)
		var all sync.WaitGroup
		var mu sync.Mutex
		for n := range histories {
			for k := range historyClients {
				h := &historian{t: t, s: s, c: c, client: k, name: fmt.Sprintf("history %d.%d", round, n)}
				all.Go(func() {
					h.run()
					mu.Lock()
					defer mu.Unlock()
					histories[n] = append(histories[n], h.seen...)
				})
			}
		}
		victim := s.replicas[round%len(s.replicas)]
		victim.kill()
		leader := s.etcd.Leader()
		s.etcd.Kill(leader)
		victim.start()
		s.etcd.Restart(leader)
		all.Wait()
		operations := 0
		for n, history := range histories {
			operations += len(history)
			if result := porcupine.CheckOperationsTimeout(lockModel, history, checkBound); result != porcupine.Ok {
				t.Errorf("what clients are told of a name fits one order of all that was done to it, but for name %d the check says %s:", n, result)
				for _, op := range history {
					t.Logf("client %d, %d to %d: %s", op.ClientId, op.Call, op.Return, lockModel.DescribeOperation(op.Input, op.Output))
				}
			}
		}
		t.Logf("%d operations on %d names fit one order each", operations, historyNames)
		s.healthy(t)
	}
}

// historian is a client that writes down what it asks for and what came of it. It asks until that is sure: every claim
// has a key, and what went unanswered is sent again.
type historian struct {
	t      *testing.T
	s      *service
	c      *client
	client int
	name   string
	held   api.Lock
	old    api.Lock // an earlier one
	seen   []porcupine.Operation
}

var epochOfHistories = time.Now()

func (h *historian) run() {
	for range historyOps {
		switch {
		case h.held.ID == "":
			h.claim()
		case mathrand.IntN(3) > 0:
			h.renew(h.held)
		default:
			h.release(h.held, true)
			h.old, h.held = h.held, api.Lock{}
		}
		if h.old.ID != "" && mathrand.IntN(4) == 0 { // a late request of an earlier holder
			if mathrand.IntN(2) == 0 {
				h.renew(h.old)
			} else {
				h.release(h.old, false)
			}
		}
	}
	if h.held.ID != "" {
		h.release(h.held, true)
	}
}

func (h *historian) claim() {
	key := rand.Text()
	a, _ := h.surely(act{kind: actClaim, name: h.name}, func() answer {
		return h.c.claim(h.s.any(), key, api.LockRequest{Name: h.name, TTLSeconds: historyTTL})
	}, http.StatusCreated, http.StatusConflict)
	if a.held() {
		h.held = a.lock
	}
}

func (h *historian) renew(lock api.Lock) {
	h.surely(act{kind: actRenew, name: h.name, token: lock.FencingToken}, func() answer { return h.c.renew(h.s.any(), lock.ID) },
		http.StatusOK, http.StatusNotFound)
}

func (h *historian) release(lock api.Lock, first bool) {
	a, unsure := h.surely(act{actRelease, h.name, lock.FencingToken, !first}, func() answer { return h.c.release(h.s.any(), lock.ID) },
		http.StatusNoContent, http.StatusNotFound)
	if last := len(h.seen) - 1; first && unsure && a.status == http.StatusNotFound {
		h.seen[last].Output = verdict{done: true} // by the try that went unanswered
	}
}

// surely asks until there is an answer that says what was done, and writes that down. It also reports whether an earlier
// try may have done it.
func (h *historian) surely(in act, ask func() answer, done, not int) (a answer, unsure bool) {
	op := porcupine.Operation{ClientId: h.client, Input: in, Call: int64(time.Since(epochOfHistories))}
	for began := time.Now(); ; time.Sleep(tryAgain()) {
		if a = ask(); a.err == nil && (a.status == done || a.status == not) {
			break
		}
		if !a.elsewhere() || time.Since(began) > takerBound {
			h.t.Errorf("a %s answers %v, want %d or %d", in.kind, a, done, not)
			return a, unsure
		}
		unsure = true
	}
	op.Return = int64(time.Since(epochOfHistories))
	op.Output = verdict{a.status == done, a.lock.FencingToken}
	h.seen = append(h.seen, op)
	return a, unsure
}
