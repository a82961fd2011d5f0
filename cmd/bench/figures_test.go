package main

import (
	"maps"
	"strings"
	"testing"
	"time"
)

func TestPercentileIsByNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for name, test := range map[string]struct {
		of   []time.Duration
		p    float64
		want time.Duration
	}{
		"one value":             {[]time.Duration{7}, 99, 7},
		"median of two":         {[]time.Duration{1, 9}, 50, 1},
		"median of a hundred":   {hundred, 50, 50},
		"p99 of a hundred":      {hundred, 99, 99},
		"p100":                  {hundred, 100, 100},
		"p99 of less than 100":  {hundred[:10], 99, 10},
		"p0 is the smallest":    {hundred, 0, 1},
		"p50 of three":          {hundred[:3], 50, 2},
		"p99 of a hundred less": {hundred[:99], 99, 99},
	} {
		if got := percentile(test.of, test.p); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestFiguresAreTheMedianOfTheRounds(t *testing.T) {
	got := overRounds([]figures{{perSecond: 30, etcdCPU: 1}, {perSecond: 10, etcdCPU: 4}, {perSecond: 20}})
	if want := (figures{perSecond: 20, etcdCPU: 2.5}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestRatesAreAnOperation(t *testing.T) {
	times := []time.Duration{3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond}
	used := usage{etcd: 4 * time.Millisecond, service: 2 * time.Millisecond, load: time.Millisecond, known: true, served: true}
	want := figures{perSecond: 2, median: 2000, p99: 4000, etcdCPU: 1000, serviceCPU: 500, loadCPU: 250}
	if got := rates(times, 2*time.Second, used); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	used.served = false
	if _, there := rates(times, time.Second, used)[serviceCPU]; there {
		t.Error("a system without a service has a figure of its CPU time")
	}
	if got := rates(nil, time.Second, used); len(got) > 0 {
		t.Errorf("nothing was done, but the figures are %v", got)
	}
}

func TestAimsAreJudgedByRatioOrFigure(t *testing.T) {
	cells := []cell{
		{Workload: "w", System: "ours", Figures: figures{perSecond: 300, p99: 10}},
		{Workload: "w", System: "theirs", Figures: figures{perSecond: 100, p99: 40}},
	}
	for name, test := range map[string]struct {
		aim
		value float64
		want  string
	}{
		"at least, reached":      {aim{Metric: perSecond, Over: "theirs", AtLeast: true, Bound: 3}, 3, met},
		"at least, not reached":  {aim{Metric: perSecond, Over: "theirs", AtLeast: true, Bound: 3.1}, 3, missed},
		"at most, kept":          {aim{Metric: p99, Over: "theirs", Bound: 0.25}, 0.25, met},
		"at most, not kept":      {aim{Metric: p99, Over: "theirs", Bound: 0.2}, 0.25, missed},
		"a figure by itself":     {aim{Metric: p99, Bound: 20}, 10, met},
		"no such figure":         {aim{Metric: median, Bound: 20}, 0, notMeasured},
		"no figure of the other": {aim{Metric: p99, Over: "nobody", Bound: 20}, 0, notMeasured},
	} {
		test.Workload, test.System = "w", "ours"
		r := result{Cells: cells, Aims: []aim{test.aim}}
		r.judge()
		got := r.Aims[0]
		if got.Verdict != test.want || (got.Value == nil) != (test.want == notMeasured) || got.Value != nil && *got.Value != test.value {
			t.Errorf("%s: %s, %v, want %s, %v", name, got.Verdict, got.Value, test.want, test.value)
		}
	}
}

// An aim that names a system or a workload that is not there would never be judged.
func TestEveryAimIsOfWhatAnOrdinaryRunMeasures(t *testing.T) {
	names := map[string]bool{}
	for _, w := range workloads(ordinary()) {
		names[w.name] = true
	}
	for _, a := range aims(ordinary()) {
		if !names[a.Workload] {
			t.Errorf("%s: no workload is named %s", a.What, a.Workload)
		}
	}
}

func TestTableShowsWhatWasMeasuredAndRatios(t *testing.T) {
	var out strings.Builder
	table(&out, workload{name: "w", title: "work"}, []cell{
		{System: "ours", Operations: 7, Figures: figures{perSecond: 300, serviceCPU: 12}},
		{System: "theirs", Operations: 5, Failed: 1, Figures: figures{perSecond: 100}},
	})
	var rows [][]string
	for line := range strings.Lines(out.String()) {
		rows = append(rows, strings.Fields(line))
	}
	want := []string{"", "w: work", "done failed per s service µs/op first is ×", "ours 7 0 300 12 1.00", "theirs 5 1 100 - 3.00"}
	for i, row := range rows {
		if got := strings.Join(row, " "); i >= len(want) || got != want[i] {
			t.Errorf("line %d is %q in\n%s", i, got, out.String())
		}
	}
}
