package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"
)

const (
	profiledClients = 64
	profileSpan     = 10 * time.Second
	profileBound    = 10 * time.Second // for a profile to be on disk
)

// writeProfiles writes CPU profiles of all that works while clients take and release locks.
func writeProfiles(ctx context.Context, r *rig) error {
	dir, err := filepath.Abs(r.cfg.profile)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	c := byLatchkeyOwn
	all, err := c.crew(ctx, r, profiledClients)
	defer all.close(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	op, _, err := cycle(ctx, c, all)
	if err != nil {
		return err
	}
	r.tell("profiling acquire and release, %s", plural(profiledClients, "client"))
	for _, p := range append(r.service(), r.members...) {
		os.Remove(filepath.Join(dir, p.name+".pprof")) // of an earlier run
	}
	own, err := startProfile(filepath.Join(dir, "load.pprof"))
	if err != nil {
		return err
	}
	profiled := append(r.service(), r.members...)
	for _, p := range profiled {
		if err := p.say(profileTo + filepath.Join(dir, p.name+".pprof")); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	s := load{clients: profiledClients, warm: r.cfg.warm, slice: profileSpan, usage: r.usageOf(r.service()), op: op}.run(ctx)
	pprof.StopCPUProfile()
	errs := []error{own.Close(), s.first, ctx.Err()}
	for _, p := range profiled {
		errs = append(errs, p.say(profileEnd), profileWritten(ctx, filepath.Join(dir, p.name+".pprof")))
	}
	r.tell("%d cycles; read the profiles with go tool pprof: %s", s.done, dir)
	return errors.Join(errs...)
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
