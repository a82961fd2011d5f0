package main

import (
	"flag"
	"math/rand/v2"
	"os"
	"regexp"
	"testing"
	"time"
)

// TestFaults is the proof that the promises hold under every fault that can be made here: three members of etcd, three
// replicas that reach each member through a line of their own, a balancer, and clients that pause, vanish, repeat
// requests and send stale ones. Faults come one by one and in pairs: inject, hold, heal; after each the service must move
// again within its bounds. All that clients were told, and all that etcd committed, is written down and checked.
//
//	go test -race -run TestFaults ./cmd/latchkey                                       short, about a minute and a half
//	go test -race -run TestFaults ./cmd/latchkey -timeout=60m -v -faults.duration=30m  long, with the table
//	… -faults.seed=N                                                                   with the choices of that run
//	… -faults.only='F10|F18'                                                           only these, alone and in pairs
//	… -faults.binary=PATH                                                              another build as the replicas
//	… -faults.clocks                                                                     with clocks that jump by two hours
//
// The faults, by the numbers of the fault matrix:
//
//	F1   a holder pauses past its TTL               its own, and in every other
//	F2   a waiter disappears: FIN, RST, silence     its own, and (silently) in every other
//	F3   a waiter disappears as it is granted       its own, and in every other
//	F4   a claim is repeated with its key           its own, and in every other
//	F5   replica killed                             here
//	F6   replica stopped (rolling deploy)           here
//	F7   replica paused                             here
//	F8   replica cut off from etcd                  here: reset, silence, delay, one direction, all lines or one
//	F9   replica pinned to a member that fails      here; a member cut off from its peers is a stopped one here, which to its
//	                                                clients is the same; in long runs it is the leader that wakes, too
//	F10  leader killed, paused, moved               here
//	F11  quorum lost                                here
//	F12  members restarted in turn                  here
//	F13  compaction, defragmentation                here
//	F14  no space                                   here, as etcd's alarm; a store that is really full: tests of operations
//	F15  etcd authentication                        not here: tests of operations
//	F16  skewed clocks                              -faults.clocks, under all the others: of the replicas, built with a
//	                                                package time whose clock jumps. What the epoch asks of clocks is
//	                                                tested in store/replaced_test.go and epoch_test.go
//	F17  starved of processor or disk               here: stopped nine tenths of the time
//	F18  a reply of etcd lost after the commit      here: single replies swallowed
//	F19  balancer idle timeout and repeats          here
//	F20  many waiters come and go at once           here; thousands in TestOnACluster with -latchkey.long
//	F21  etcd restored from a snapshot              not here: tests of operations
//	F22  replicas of different versions             not here: tests of operations
func TestFaults(t *testing.T) {
	seed := *faultsSeed
	if seed == 0 {
		seed = rand.Uint64N(1 << 32)
	}
	t.Logf("seed %d: repeat with -faults.seed=%d", seed, seed)
	only, err := regexp.Compile("^(" + *faultsOnly + ")$")
	if err != nil {
		t.Fatalf("-faults.only: %v", err)
	}
	program := *faultsBinary
	if *faultsClocks {
		program = jumpingClocks(t)
	}
	w := newWorld(t, seed, program)
	var chosen []*fault
	for _, f := range allFaults() {
		if *faultsOnly == "" || only.MatchString(f.id) {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		t.Fatalf("-faults.only=%s names no fault that can be made here", *faultsOnly)
	}
	began := time.Now()
	once := false // every fault has come
	for round := w.round(chosen); !t.Failed(); round = round[1:] {
		if len(round) == 0 {
			round, once = w.round(chosen), true
		}
		if once && time.Since(began) >= *faultsDuration {
			break
		}
		w.try(round[0]...)
	}
	w.finish()
	revisions, grants := w.etcdSaid.totals()
	w.report.print(t, seed, revisions, grants)
}

var (
	faultsDuration = flag.Duration("faults.duration", 0, "go on with faults for so long; each comes once at least")
	faultsSeed     = flag.Uint64("faults.seed", 0, "the choices of the run that printed this seed")
	faultsOnly     = flag.String("faults.only", "", "a regular expression: only the faults whose numbers it matches")
	faultsBinary   = flag.String("faults.binary", os.Args[0], "the program that is run as a replica")
)

// pairsPerRound is how many random pairs come after all faults came alone.
const pairsPerRound = 2

// round is every fault alone, in a random order, and some pairs. In the short form the faults of clients, which do not
// meet, go together.
func (w *world) round(chosen []*fault) (round [][]*fault) {
	w.rng.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	var together []*fault
	for _, f := range chosen {
		if f.client != nil && *faultsDuration == 0 {
			together = append(together, f)
		} else {
			round = append(round, []*fault{f})
		}
	}
	if len(together) > 0 {
		round = append(round, together)
	}
	for range pairsPerRound {
		if pair := w.pair(chosen); pair != nil {
			round = append(round, pair)
		}
	}
	return round
}

// pair chooses two faults that can go together, or nil if there are none.
func (w *world) pair(chosen []*fault) []*fault {
	var can []*fault
	for _, f := range chosen {
		if f.inject != nil {
			can = append(can, f)
		}
	}
	for range len(can) * len(can) {
		a, b := can[w.rng.IntN(len(can))], can[w.rng.IntN(len(can))]
		if a != b && (a.subject != b.subject || a.subject == onLines) {
			return []*fault{a, b}
		}
	}
	return nil
}
