package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// history is all that was asked of one name and what came of it. An operation begins when its first request was sent and
// ends when its answer had come; what nobody can say the outcome of may happen at any later time.
type history struct {
	name string
	// tried says that nobody ever queues here, so that a claim is refused only while the lock is held.
	tried bool

	mu      sync.Mutex
	ops     []porcupine.Operation
	tenures []*tenure
	ghosts  int64
	broken  []string
	asked   int
}

// tenure is one grant that a client was told of.
type tenure struct {
	*history
	client  int
	tag     string // the claim's holder text: etcd's history tells it too
	token   int64
	id      string
	lease   string
	ttl     time.Duration
	renewed time.Time // when the last request was sent that surely renewed it

	releasing, released, gone time.Time // a release was first sent; one was answered 204; a 404 was told
}

// until is the end of the time in which nobody else may be granted the name.
func (t *tenure) until() time.Time { return t.renewed.Add(t.ttl) }

const (
	// actEnd is what ends a tenure: a release, or its TTL. It cannot come before the release was sent or the TTL over.
	actEnd actKind = "end"
	// historyFull is how many operations a history takes: the checker's work grows fast with its length.
	historyFull = 150
)

var forEver = time.Duration(math.MaxInt64)

// fencedLock is a lock with fencing tokens that ends by release or by expiry. Expiry is an operation of its own, with
// the times in which it may happen. A ghost is a claim nobody knows the outcome of: its token is below zero.
var fencedLock = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(lockState), input.(act), output.(verdict)
		switch {
		case in.kind == actClaim && !out.done:
			return s.holder != 0, s
		case in.kind == actClaim && out.token < 0:
			return s.holder == 0, lockState{out.token, s.highest}
		case in.kind == actClaim:
			return s.holder == 0 && out.token > s.highest, lockState{out.token, out.token}
		case in.kind == actEnd:
			return s.holder == in.token, lockState{0, s.highest}
		case in.kind == actRelease && out.done: // again: the service found that it was done already
			return s.holder != in.token && in.token <= s.highest, s
		case out.done:
			return s.holder == in.token, s
		}
		return s.holder != in.token, s
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

func (h *history) add(client int, in act, out verdict, sent time.Time, got time.Duration) {
	in.name = ""
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: client, Input: in, Output: out, Call: int64(sent.Sub(epochOfHistories)), Return: int64(got),
	})
}

func sinceEpoch(at time.Time) time.Duration { return at.Sub(epochOfHistories) }

// granted notes that a client was told of a grant, asked for first at the time given.
func (h *history) granted(t *tenure, asked time.Time, got time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.history = h
	h.tenures = append(h.tenures, t)
	h.asked++
	h.add(t.client, act{kind: actClaim}, verdict{true, t.token}, asked, sinceEpoch(got))
}

// refused notes that a try met the lock held.
func (h *history) refused(client int, sent, got time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	if h.tried {
		h.add(client, act{kind: actClaim}, verdict{}, sent, sinceEpoch(got))
	}
}

// ghost notes a claim of which nobody knows whether it was, is or will be held, nor for how long.
func (h *history) ghost(client int, sent time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ghosts++
	h.asked++
	h.add(client, act{kind: actClaim}, verdict{true, -h.ghosts}, sent, forEver)
	h.add(client, act{kind: actEnd, token: -h.ghosts}, verdict{done: true}, sent, forEver)
}

// renewedAt notes a renewal that was done.
func (t *tenure) renewedAt(sent, got time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	if sent.After(t.renewed) {
		t.renewed = sent
	}
	t.add(t.client, act{kind: actRenew, token: t.token}, verdict{done: true}, sent, sinceEpoch(got))
}

// wasGone notes an answer that the lock is gone.
func (t *tenure) wasGone(kind actKind, sent, got time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	if t.gone.IsZero() || got.Before(t.gone) {
		t.gone = got
	}
	t.add(t.client, act{kind: kind, token: t.token}, verdict{}, sent, sinceEpoch(got))
}

// releases notes that a release is about to be sent.
func (t *tenure) releases() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.releasing.IsZero() {
		t.releasing = time.Now()
	}
}

// wasReleased notes that a release was told to be done. One after the end is known changes nothing, and must not.
func (t *tenure) wasReleased(sent, got time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	if t.released.IsZero() && t.gone.IsZero() {
		t.released = got
		return
	}
	t.add(t.client, act{kind: actRelease, token: t.token}, verdict{done: true}, sent, sinceEpoch(got))
}

func (h *history) breaks(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = append(h.broken, fmt.Sprintf(format, args...))
}

func (h *history) full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked >= historyFull
}

// end is the one operation that ends a tenure, and why it cannot be, if so.
func (t *tenure) end() (op porcupine.Operation, early string) {
	from, by := t.until(), forEver
	if !t.releasing.IsZero() && t.releasing.Before(from) {
		from = t.releasing
	}
	for _, known := range []time.Time{t.released, t.gone} {
		if !known.IsZero() {
			by = min(by, sinceEpoch(known))
		}
	}
	if by < sinceEpoch(from) {
		early = fmt.Sprintf("token %d of client %d was gone %v before the end of its TTL, and nobody had released it", t.token, t.client, sinceEpoch(from)-by)
	}
	return porcupine.Operation{
		ClientId: t.client, Input: act{kind: actEnd, token: t.token}, Output: verdict{done: true},
		Call: int64(sinceEpoch(from)), Return: int64(by),
	}, early
}

// check finds what no lock would have said. All clients have ended.
func (h *history) check() (operations int, violations []string) {
	violations = h.broken
	ops := slices.Clone(h.ops)
	for _, t := range h.tenures {
		op, early := t.end()
		if early != "" {
			violations = append(violations, early)
			continue
		}
		ops = append(ops, op)
	}
	if len(violations) == 0 {
		if result := porcupine.CheckOperationsTimeout(fencedLock, ops, checkBound); result != porcupine.Ok {
			violations = append(violations, fmt.Sprintf("what clients were told fits one order of all that was done to it, but the check says %s", result))
		}
	}
	if len(violations) > 0 {
		violations = append(violations, tell(ops))
	}
	return len(ops), violations
}

// tell writes a history in the order in which things were asked.
func tell(ops []porcupine.Operation) string {
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var told strings.Builder
	for _, op := range ops {
		in, out := op.Input.(act), op.Output.(verdict)
		until := "for ever"
		if time.Duration(op.Return) != forEver {
			until = time.Duration(op.Return).Round(time.Millisecond).String()
		}
		fmt.Fprintf(&told, "\n  client %2d  %10v to %-10s  %-7s", op.ClientId, time.Duration(op.Call).Round(time.Millisecond), until, in.kind)
		switch {
		case in.kind == actClaim && !out.done:
			told.WriteString(" refused: held")
		case in.kind == actClaim && out.token < 0:
			fmt.Fprintf(&told, " outcome unknown (%d)", out.token)
		case in.kind == actClaim:
			fmt.Fprintf(&told, " granted token %d", out.token)
		case out.done:
			fmt.Fprintf(&told, " token %d: done", in.token)
		default:
			fmt.Fprintf(&told, " token %d: gone", in.token)
		}
	}
	return told.String()
}
