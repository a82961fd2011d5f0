package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// cell is one system on one workload.
type cell struct {
	Workload   string  `json:"workload"`
	System     string  `json:"system"`
	Operations int     `json:"operations"`
	Failed     int     `json:"failed"`
	Failure    string  `json:"failure,omitempty"` // the first
	Figures    figures `json:"figures"`           // the median of the rounds
}

func (c *cell) take(s sample) {
	c.Operations += s.done
	if c.Failed == 0 && s.failed > 0 {
		c.Failure = s.first.Error()
	}
	c.Failed += s.failed
}

// result is all that was measured.
type result struct {
	Machine machine `json:"machine"`
	Members int     `json:"etcd_members"`
	Apart   bool    `json:"etcd_go_apart"`
	Rounds  int     `json:"rounds"`
	Slice   float64 `json:"slice_s"`
	Seconds float64 `json:"took_s"`
	Cells   []cell  `json:"cells"`
	Aims    []aim   `json:"aims"`
}

func newResult(cfg settings) *result {
	return &result{Machine: thisMachine(), Members: cfg.members, Apart: cfg.apart, Rounds: cfg.rounds, Slice: cfg.slice.Seconds(), Aims: aims(cfg)}
}

// heading says what was measured, and on what.
func (r *result) heading(out io.Writer) {
	connection := "share a connection"
	if r.Apart {
		connection = "have a connection each"
	}
	fmt.Fprintf(out, "%s, %s, %s; etcd has %s; clients of etcd-go %s; the median of %s of %.2g s\n",
		r.Machine.System, plural(r.Machine.CPUs, "CPU"), r.Machine.Go, plural(r.Members, "member"), connection, plural(r.Rounds, "round"), r.Slice)
}

func (r *result) add(cells []cell) { r.Cells = append(r.Cells, cells...) }

// figure is one that was measured.
func (r *result) figure(workload, system string, m metric) (float64, bool) {
	for _, c := range r.Cells {
		if c.Workload == workload && c.System == system {
			v, ok := c.Figures[m]
			return v, ok
		}
	}
	return 0, false
}

// columns are those of the table, in their order. A workload has those of which there is a figure.
var columns = []struct {
	metric
	head, format string
}{
	{perSecond, "per s", "%.0f"},
	{median, "median µs", "%.0f"},
	{p99, "p99 µs", "%.0f"},
	{etcdCPU, "etcd µs/op", "%.0f"},
	{serviceCPU, "service µs/op", "%.0f"},
	{loadCPU, "load µs/op", "%.0f"},
	{serviceMemory, "service KiB each", "%.1f"},
	{etcdMemory, "etcd KiB each", "%.1f"},
	{serviceRest, "service at rest %", "%.1f"},
	{etcdRest, "etcd at rest %", "%.1f"},
	{earliest, "earliest s", "%.2f"},
	{latest, "latest s", "%.2f"},
}

// table shows a workload. The ratio is of operations a second, that of the first system to each.
func table(out io.Writer, w workload, cells []cell) {
	fmt.Fprintf(out, "\n%s: %s\n", w.name, w.title)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	heads := []string{"", "done", "failed"}
	shown := columns[:0:0]
	for _, col := range columns {
		if slices.ContainsFunc(cells, func(c cell) bool { _, ok := c.Figures[col.metric]; return ok }) {
			shown = append(shown, col)
			heads = append(heads, col.head)
		}
	}
	fmt.Fprintln(t, strings.Join(append(heads, "first is ×"), "\t")+"\t")
	for _, c := range cells {
		row := []string{c.System, fmt.Sprint(c.Operations), fmt.Sprint(c.Failed)}
		for _, col := range shown {
			row = append(row, show(col.format, c.Figures, col.metric))
		}
		ratio := figures{}
		if first, own := cells[0].Figures[perSecond], c.Figures[perSecond]; own > 0 {
			ratio[perSecond] = first / own
		}
		fmt.Fprintln(t, strings.Join(append(row, show("%.2f", ratio, perSecond)), "\t")+"\t")
	}
	t.Flush()
}

func show(format string, f figures, m metric) string {
	if v, ok := f[m]; ok {
		return fmt.Sprintf(format, v)
	}
	return "-"
}

// write writes the result as JSON to a file, or to out if that is "-".
func (r *result) write(path string, out io.Writer) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if path == "-" {
		_, err = out.Write(text)
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// failures is an error if any operation failed.
func (r *result) failures() error {
	var lines []string
	for _, c := range r.Cells {
		if c.Failed > 0 {
			lines = append(lines, fmt.Sprintf("%s, %s: %d failed, the first with: %s", c.Workload, c.System, c.Failed, c.Failure))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n%s", errFailed, strings.Join(lines, "\n"))
}
