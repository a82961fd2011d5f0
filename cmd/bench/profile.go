package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

const (
	profileSpan  = 10 * time.Second
	profileBound = 10 * time.Second // for a profile to be on disk
)

// writeProfiles writes CPU profiles of all that works while latchkey is at work, of each workload into a directory of
// its own.
func writeProfiles(ctx context.Context, r *rig, chosen []workload) error {
	r.cfg.slice = profileSpan
	for _, w := range chosen {
		dir, err := filepath.Abs(filepath.Join(r.cfg.profile, strings.ReplaceAll(w.name, "/", "-")))
		if err != nil {
			return err
		}
		if err := w.profile(ctx, r, dir); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

// profile profiles the first system of a workload, which is latchkey.
func (w workload) profile(ctx context.Context, r *rig, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	all, err := w.open(ctx, r)
	defer leave(ctx, all)
	if err != nil {
		return err
	}
	r.tell("profiling %s: %s", w.name, w.title)
	profiled := append(r.service(), r.members...)
	for _, p := range profiled {
		os.Remove(filepath.Join(dir, p.name+".pprof")) // of an earlier run
	}
	own, err := startProfile(filepath.Join(dir, "load.pprof"))
	if err != nil {
		return err
	}
	for _, p := range profiled {
		if err := p.say(profileTo + filepath.Join(dir, p.name+".pprof")); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	s, err := first(all).slice(ctx)
	pprof.StopCPUProfile()
	errs := []error{err, own.Close(), s.first, ctx.Err()}
	for _, p := range profiled {
		errs = append(errs, p.say(profileEnd), profileWritten(ctx, filepath.Join(dir, p.name+".pprof")))
	}
	r.tell("%d operations; read the profiles with go tool pprof: %s", s.done, dir)
	return errors.Join(errs...)
}

func first(all []trial) trial {
	return all[slices.IndexFunc(all, func(t trial) bool { return t.slice != nil })]
}

// profileWritten waits for a profile, which has its name when all of it is written.
func profileWritten(ctx context.Context, path string) error {
	late := pause(profileBound)
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return fmt.Errorf("%s was not written within %v", path, profileBound)
		case <-pause(readyPause):
		}
	}
}
