package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"time"
)

// settings are what a run is told, and how much of everything it measures.
type settings struct {
	only     *regexp.Regexp
	rounds   int
	slice    time.Duration // measured of each system in each round
	warm     time.Duration // let pass before it
	members  int
	apart    bool   // each client of etcd-go has a connection of its own
	json     string // a file, or "-" for standard output
	profile  string // a directory
	latchkey string // a binary; built if empty

	cycling  []int         // clients, each on a name of its own
	handing  []int         // clients on one name
	spread   int           // clients on one name over several replicas
	renewing int           // clients
	parked   []int         // waiters
	settle   time.Duration // for what was allocated on the way to the queue to be given back
	rest     time.Duration // over which CPU time is measured of waiters at rest
	dying    int           // holders that die
	dyingTTL time.Duration
	held     []int // locks held while one more is taken
	waiting  []int // clients on one name, in the growth of a hand-off
}

const (
	replicas          = 3 // over which clients are spread
	mostMembers       = 7
	profiledByDefault = "cycle/64"
	slicesGrowth      = 2 // slices to measure each size, of which there is only one round
)

func ordinary() settings {
	return settings{
		rounds: 3, slice: 1500 * time.Millisecond, warm: 500 * time.Millisecond, members: 1,
		cycling: []int{1, 16, 64, 256}, handing: []int{2, 16, 128}, spread: 16, renewing: 64,
		parked: []int{1000, 5000}, settle: 12 * time.Second, rest: 5 * time.Second,
		dying: 8, dyingTTL: 5 * time.Second,
		held: []int{10, 1000, 10_000, 100_000}, waiting: []int{2, 100, 1000, 5000},
	}
}

// shortened is for a look of about a minute.
func shortened() settings {
	s := ordinary()
	s.rounds, s.slice, s.warm = 1, 500*time.Millisecond, 150*time.Millisecond
	s.cycling, s.handing = []int{1, 64, 256}, []int{16, 128}
	s.parked, s.settle, s.rest = []int{1000}, time.Second, 2*time.Second
	s.held, s.waiting = []int{10, 1000}, []int{2, 100}
	return s
}

func parse(args []string, help io.Writer) (settings, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(help)
	short := flags.Bool("short", false, "one minute: one short round, smaller sizes")
	only := flags.String("only", "", "measure the workloads whose name matches this `regexp`: "+
		"cycle/N, hand-off/N, hand-off/N/R-replicas, renew/N, parked/N, dead-holder, growth/held, growth/waiting")
	rounds := flags.Int("rounds", 0, "rounds of which the median is told (default 3; 1 with -short)")
	slice := flags.Duration("slice", 0, "measured of each system in each round (default 1.5s; 500ms with -short)")
	members := flags.Int("members", 1, "members of the etcd")
	apart := flags.Bool("apart", false, "give each client of etcd-go a connection of its own, as clients on machines of their own have; else all share one")
	json := flags.String("json", "", "write the result as JSON to this `file` too; - for standard output, instead of the tables")
	profile := flags.String("profile", "", "measure nothing, but write CPU profiles of etcd, latchkey and the load into this `directory`, "+
		"of each workload that -only chooses, else of "+profiledByDefault)
	latchkey := flags.String("latchkey", "", "measure this `binary` instead of building one")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	cfg := ordinary()
	if *short {
		cfg = shortened()
	}
	var errs []error
	if flags.NArg() > 0 {
		errs = append(errs, fmt.Errorf("no arguments are expected: %q", flags.Args()))
	}
	if *rounds != 0 {
		cfg.rounds = *rounds
	}
	if cfg.rounds < 1 {
		errs = append(errs, errors.New("-rounds must be 1 or more"))
	}
	if *slice != 0 {
		cfg.slice = *slice
	}
	if cfg.slice <= 0 {
		errs = append(errs, errors.New("-slice must be longer than nothing"))
	}
	if *members < 1 || *members > mostMembers {
		errs = append(errs, fmt.Errorf("-members must be from 1 to %d", mostMembers))
	}
	if *profile != "" && *only == "" {
		*only = "^" + profiledByDefault + "$"
	}
	var err error
	if cfg.only, err = regexp.Compile(*only); err != nil {
		errs = append(errs, fmt.Errorf("-only: %w", err))
	}
	cfg.members, cfg.apart, cfg.json, cfg.profile, cfg.latchkey = *members, *apart, *json, *profile, *latchkey
	return cfg, errors.Join(errs...)
}
