package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		fmt.Fprintln(os.Stderr, playRole(role))
		os.Exit(exitBadEnd)
	}
	goleak.VerifyTestMain(m)
}

func tiny() settings {
	s := ordinary()
	s.rounds, s.slice, s.warm = 1, 150*time.Millisecond, 20*time.Millisecond
	s.cycling, s.handing, s.spread, s.renewing = []int{3}, []int{3}, 3, 3
	s.parked, s.settle, s.rest = []int{20}, 0, 100*time.Millisecond
	s.dying, s.dyingTTL = 1, 2*time.Second
	s.held, s.waiting = []int{2, 5}, []int{2, 4}
	return s
}

// The whole of it, small: every system does its work in every workload, nothing fails, nothing is left behind.
func TestBenchMeasuresEverySystem(t *testing.T) {
	if testing.Short() {
		t.Skip("starts etcd five times")
	}
	files := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	cfg := tiny()
	cfg.json = filepath.Join(files, "result.json")
	var tables, progress strings.Builder
	if err := run(t.Context(), cfg, &tables, &progress); err != nil {
		t.Fatalf("%v\n%s%s", err, progress.String(), tables.String())
	}
	text, err := os.ReadFile(cfg.json)
	if err != nil {
		t.Fatal(err)
	}
	var got result
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	seven, five := 7, 5 // systems
	want := map[string]int{
		"cycle/3": seven, "hand-off/3": five, "hand-off/3/3-replicas": five, "renew/3": five,
		deadName: 3, "parked/20": 2, growthHeld: len(cfg.held), growthWaiting: len(cfg.waiting),
	}
	cells := map[string]int{}
	for _, c := range got.Cells {
		cells[c.Workload]++
		if c.Operations == 0 || c.Failed != 0 {
			t.Errorf("%s, %s: %d operations done, %d failed", c.Workload, c.System, c.Operations, c.Failed)
		}
		var metrics []metric
		switch c.Workload {
		case deadName:
			metrics = []metric{earliest, latest}
			if c.Figures[earliest] < cfg.dyingTTL.Seconds() {
				t.Errorf("%s: a grant %.2f s after a renewal with a TTL of %v", c.System, c.Figures[earliest], cfg.dyingTTL)
			}
		case "parked/20": // so few take no memory that can be seen
		default:
			metrics = []metric{perSecond, median, p99}
		}
		for _, m := range metrics {
			if c.Figures[m] <= 0 {
				t.Errorf("%s, %s: %s is %v, want a positive figure", c.Workload, c.System, m, c.Figures[m])
			}
		}
		if !strings.Contains(tables.String(), c.System) {
			t.Errorf("no table shows %q:\n%s", c.System, tables.String())
		}
	}
	for workload, n := range want {
		if cells[workload] != n {
			t.Errorf("%s has figures of %d systems, want %d", workload, cells[workload], n)
		}
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("%d files are left in the temporary directory (%v)", len(left), err)
	}
}

func TestBenchThatIsStoppedLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	cfg := tiny()
	cfg.latchkey = "/nowhere/latchkey"
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := run(ctx, cfg, &strings.Builder{}, &strings.Builder{}); err == nil {
		t.Error("a run that was stopped ends without an error")
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%d files are left in the temporary directory (%v)", len(left), err)
	}
}

func TestSettingsNameAllFaultsTogether(t *testing.T) {
	_, err := parse([]string{"-rounds", "-1", "-members", "9", "-slice", "-1s", "-only", "(", "more"}, &strings.Builder{})
	for _, fault := range []string{"-rounds", "-members", "-slice", "-only", "more"} {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("the error does not name %s: %v", fault, err)
		}
	}
	cfg, err := parse([]string{"-short", "-rounds", "2", "-only", "^cycle/64$"}, &strings.Builder{})
	if err != nil || cfg.rounds != 2 || cfg.slice != shortened().slice {
		t.Errorf("-short -rounds 2: %d rounds of %v (%v)", cfg.rounds, cfg.slice, err)
	}
	if chosen := workloads(cfg); len(chosen) != 1 || chosen[0].name != "cycle/64" {
		t.Errorf("-only ^cycle/64$ chooses %v", chosen)
	}
}
