package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// report is what a run has to tell.
type report struct {
	operations atomic.Int64

	mu                        sync.Mutex
	histories, grants, ops    int
	lostFenced, lostBare      int
	injected                  int
	slowest                   time.Duration
	rows                      map[string]*row
	paused, gone, left, again int64
	stale                     int64
}

// row is what is told of one fault.
type row struct {
	what  string
	times int
	outcome
}

// outcome is what was measured of a fault.
type outcome struct {
	recovery time.Duration // from its end to when everything worked everywhere
	handOff  time.Duration // from a release to the next one's answer, after that
	free     time.Duration // a queue stood without a holder, during the fault too
	late     time.Duration // a lock that nobody renewed stood longer than its TTL
}

func (o *outcome) worse(than outcome) {
	o.recovery, o.handOff = max(o.recovery, than.recovery), max(o.handOff, than.handOff)
	o.free, o.late = max(o.free, than.free), max(o.late, than.late)
}

func newReport() *report { return &report{rows: map[string]*row{}} }

func (r *report) checked(operations, grants int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.histories++
	r.ops += operations
	r.grants += grants
}

func (r *report) lost(fenced, bare int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lostFenced += fenced
	r.lostBare += bare
}

func (r *report) answered(late time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slowest = max(r.slowest, late)
}

func (r *report) row(id, what string) *row {
	if r.rows[id] == nil {
		r.rows[id] = &row{what: what}
	}
	return r.rows[id]
}

// late notes that what nobody renewed stood longer than its TTL.
func (r *report) late(faults []*fault, by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if faults == nil {
		row := r.row(later, "ended in a later trial than it began")
		row.late = max(row.late, by)
	}
	for _, f := range faults {
		row := r.row(f.id, f.what)
		if len(faults) > 1 && f.client == nil {
			row = r.row(pairs, pairsAre)
		}
		row.late = max(row.late, by)
	}
}

const (
	pairs    = "pairs" // the row of all faults that came two at once
	pairsAre = "two at once"
	later    = "later" // the row of what ended when there was another fault already
)

// add notes one trial.
func (r *report) add(faults []*fault, tr *trial, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range faults {
		row := r.row(f.id, f.what)
		row.times++
		r.injected++
		if len(faults) == 1 || f.client != nil {
			row.worse(o)
		} else {
			r.row(pairs, pairsAre).worse(o)
		}
	}
	if len(faults) > 1 && faults[0].client == nil {
		r.row(pairs, pairsAre).times++
	}
	r.paused += tr.paused.Load()
	r.gone += tr.gone.Load()
	r.left += tr.left.Load()
	r.again += tr.again.Load()
	r.stale += tr.stale.Load()
}

func (r *report) print(t *testing.T, seed uint64, revisions, granted int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var told strings.Builder
	fmt.Fprintf(&told, "seed %d\n", seed)
	fmt.Fprintf(&told, "%d requests; %d histories with %d operations and %d grants checked; %d revisions of etcd with %d grants checked\n",
		r.operations.Load(), r.histories, r.ops, r.grants, revisions, granted)
	fmt.Fprintf(&told, "%d faults injected; of the clients: %d paused past their TTL, %d went while they held, %d while they waited, %d repeats, %d stale requests\n",
		r.injected, r.paused, r.gone, r.left, r.again, r.stale)
	fmt.Fprintf(&told, "updates lost: %d by fenced resources, %d by the same without fencing; slowest answer %v after the wait it asked for\n",
		r.lostFenced, r.lostBare, r.slowest.Round(time.Millisecond))
	fmt.Fprintf(&told, "\n%-6s %-46s %5s  %9s  %9s  %9s  %9s\n", "fault", "", "times", "recovery", "hand-off", "no holder", "late end")
	ids := make([]string, 0, len(r.rows))
	for id := range r.rows {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	for _, id := range ids {
		row := r.rows[id]
		fmt.Fprintf(&told, "%-6s %-46s %5d  %9v  %9v  %9v  %9v\n", id, row.what, row.times, row.recovery.Round(time.Millisecond),
			row.handOff.Round(time.Millisecond), row.free.Round(time.Millisecond), row.late.Round(time.Millisecond))
	}
	told.WriteString("recovery: from the end of the fault until claims, renewals and releases succeeded at every replica; hand-off: from a release to the next\n" +
		"one's answer, after that; no holder: the longest that a queue stood without one, during the fault too; late end: beyond the TTL, likewise\n")
	t.Log(told.String())
}
