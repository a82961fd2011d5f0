package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// leaveBound is how long a workload may take to leave nothing behind.
const leaveBound = 30 * time.Second

// errFailed says that the figures are not those of a service that did all it was asked.
var errFailed = errors.New("operations failed")

// run measures all that cfg asks for. Tables go to out, progress to told.
func run(ctx context.Context, cfg settings, out, told io.Writer) (err error) {
	began := time.Now()
	tell := func(format string, args ...any) {
		fmt.Fprintf(told, "%5.0fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	if cfg.json == "-" {
		out = io.Discard
	}
	chosen := workloads(cfg)
	if len(chosen) == 0 {
		cfg.only = nil
		var names []string
		for _, w := range workloads(cfg) {
			names = append(names, w.name)
		}
		return fmt.Errorf("no workload matches -only; there are %s", strings.Join(names, ", "))
	}
	r, err := newRig(ctx, cfg, "", tell)
	defer func() {
		keep := err != nil && ctx.Err() == nil
		if r.close(keep); keep {
			tell("logs are kept in %s", r.dir)
		}
	}()
	if err != nil {
		return err
	}
	if cfg.profile != "" {
		return writeProfiles(ctx, r, chosen)
	}
	result := newResult(cfg)
	result.heading(out)
	for _, w := range chosen {
		tell("%s: %s", w.name, w.title)
		cells, err := w.measure(ctx, r)
		if err == nil {
			err = r.alive()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		result.add(cells)
		table(out, w, cells)
	}
	result.judge()
	result.aimTable(out)
	result.Seconds = time.Since(began).Seconds()
	if err := result.write(cfg.json, os.Stdout); err != nil {
		return err
	}
	return result.failures()
}

// measure runs the rounds. In each, another system begins.
func (w workload) measure(ctx context.Context, r *rig) (cells []cell, err error) {
	all, err := w.open(ctx, r)
	defer leave(ctx, all)
	if err != nil {
		return nil, err
	}
	measured := all[:0:0]
	for _, t := range all {
		if t.slice != nil {
			measured = append(measured, t)
			cells = append(cells, cell{Workload: w.name, System: t.system})
		}
	}
	rounds, over := make([][]figures, len(measured)), r.cfg.rounds
	if w.once {
		over = 1
	}
	for round := range over {
		for i := range measured {
			k := (i + round) % len(measured)
			s, err := measured[k].slice(ctx)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				s.add(err)
			}
			cells[k].take(s)
			rounds[k] = append(rounds[k], s.figures)
		}
	}
	for k := range cells {
		cells[k].Figures = overRounds(rounds[k])
	}
	return cells, nil
}

func leave(ctx context.Context, all []trial) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveBound)
	defer cancel()
	for _, t := range all {
		if t.close != nil {
			t.close(ctx)
		}
	}
}

// machine says on what the figures were measured.
type machine struct {
	System string `json:"system"`
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
}

func thisMachine() machine {
	return machine{runtime.GOOS + "/" + runtime.GOARCH, runtime.NumCPU(), runtime.Version()}
}
