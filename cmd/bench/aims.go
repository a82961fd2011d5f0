package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// aim is what latchkey is to reach: a bound on a figure, or on its ratio to another's.
type aim struct {
	What     string  `json:"what"`
	Workload string  `json:"workload"`
	Metric   metric  `json:"metric"`
	System   string  `json:"system"`
	Over     string  `json:"over,omitempty"` // another system, on the same workload; none: the figure itself
	AtLeast  bool    `json:"at_least"`       // else at the most
	Bound    float64 `json:"bound"`

	Value   *float64 `json:"value,omitempty"` // absent if it was not measured
	Verdict string   `json:"verdict"`
}

const (
	met         = "met"
	missed      = "missed"
	notMeasured = "not measured"
)

const (
	flat      = 1.5                    // the ratio of biggest to smallest that still counts as no growth
	lateAfter = 600 * time.Millisecond // a grant after a holder's TTL
)

// aims are those for an etcd of cfg's members.
func aims(cfg settings) []aim {
	var all []aim
	add := func(what, workload string, m metric, system, over string, atLeast bool, bound float64) {
		all = append(all, aim{What: what, Workload: workload, Metric: m, System: system, Over: over, AtLeast: atLeast, Bound: bound})
	}
	least := func(what, workload string, m metric, system, over string, bound float64) {
		add(what, workload, m, system, over, true, bound)
	}
	most := func(what, workload string, m metric, system, over string, bound float64) {
		add(what, workload, m, system, over, false, bound)
	}
	most("acquire, median", "cycle/1", median, latchkeyOwn, etcdGoLease, 1.3)
	least("cycles a second", "cycle/64", perSecond, latchkeyOwn, gatewayOwn, 6)
	least("cycles a second", "cycle/64", perSecond, latchkeyOwn, etcdGoOwn, 5)
	for _, system := range []string{latchkeyOwn, latchkeyLease} {
		least("cycles a second", "cycle/256", perSecond, system, etcdGoLease, 1)
		least("cycles a second", "cycle/256", perSecond, system, gatewayLease, 2)
		for _, workload := range []string{"cycle/64", "cycle/256"} {
			most("etcd's CPU time a cycle", workload, etcdCPU, system, etcdGoLease, 0.5)
		}
	}
	keepAlives := 1.0
	if cfg.members > 1 {
		keepAlives = 2
	}
	least("renewals a second", "renew/64", perSecond, latchkeyOwn, gatewayLease, 3)
	least("renewals a second", "renew/64", perSecond, latchkeyOwn, etcdGoLease, keepAlives)
	for _, workload := range []string{"hand-off/16", "hand-off/128"} {
		most("hand-off, median", workload, median, latchkeyWaiter, etcdGoWaiter, 0.5)
		most("hand-off, median", workload, median, latchkeyWaiter, etcdPut, 1.6)
		most("hand-off, p99", workload, p99, latchkeyWaiter, etcdGoWaiter, 0.2)
		least("hand-offs a second", workload, perSecond, latchkeyWaiter, etcdGoWaiter, 3)
	}
	spread := "hand-off/16/3-replicas"
	most("hand-off, median", spread, median, latchkeyWaiter, etcdGoWaiter, 1)
	most("hand-off, p99", spread, p99, latchkeyWaiter, etcdGoWaiter, 1.0/3)
	least("dead holder: no grant before its TTL", deadName, earliest, latchkeyWaiter, "", cfg.dyingTTL.Seconds())
	most("dead holder: the last grant, in seconds", deadName, latest, latchkeyWaiter, "", (cfg.dyingTTL + lateAfter).Seconds())
	const crowd = "parked/5000"
	most("a waiter's memory at the replica, in KiB", crowd, serviceMemory, latchkeyWaiter, "", 20)
	most("a waiter's memory at etcd, in KiB", crowd, etcdMemory, latchkeyWaiter, "", 1.5)
	most("waiters at rest: % of a core at the replica", crowd, serviceRest, latchkeyWaiter, "", 2)
	few, many := heldSystem(cfg.held[0]), heldSystem(cfg.held[len(cfg.held)-1])
	most("growth with locks held: median of an acquire", growthHeld, median, many, few, flat)
	most("growth with locks held: etcd's CPU time a cycle", growthHeld, etcdCPU, many, few, flat)
	few, many = waitingSystem(cfg.waiting[0]), waitingSystem(cfg.waiting[len(cfg.waiting)-1])
	most("growth with waiters: median of a hand-off", growthWaiting, median, many, few, flat)
	most("growth with waiters: etcd's CPU time a hand-off", growthWaiting, etcdCPU, many, few, flat)
	return all
}

// judge compares each aim with what was measured.
func (r *result) judge() {
	for i := range r.Aims {
		a := &r.Aims[i]
		a.Verdict = notMeasured
		value, ok := r.figure(a.Workload, a.System, a.Metric)
		if ok && a.Over != "" {
			var other float64
			if other, ok = r.figure(a.Workload, a.Over, a.Metric); ok && other > 0 {
				value /= other
			} else {
				ok = false
			}
		}
		if !ok {
			continue
		}
		a.Value, a.Verdict = &value, missed
		if a.AtLeast && value >= a.Bound || !a.AtLeast && value <= a.Bound {
			a.Verdict = met
		}
	}
}

// aimTable shows the aims that were measured.
func (r *result) aimTable(out io.Writer) {
	fmt.Fprintln(out, "\nAims; a ratio is that of the first to the second:")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, a := range r.Aims {
		if a.Value == nil {
			continue
		}
		of, bound := a.System, "at most"
		if a.Over != "" {
			of += " : " + a.Over
		}
		if a.AtLeast {
			bound = "at least"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.3g\t%s %.3g\n", a.Verdict, a.Workload, a.What, of, *a.Value, bound, a.Bound)
	}
	t.Flush()
}
