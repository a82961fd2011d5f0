package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// runCommand holds a lock for as long as a command runs.
type runCommand struct {
	Grace grace `default:"auto" placeholder:"DURATION" group:"claim" help:"How long the command has between SIGTERM and SIGKILL when the lock is lost: ${grace}, at most a third of the TTL, or auto (default: ${default}): a tenth of the TTL, up to 5s. Also how long what it left running has, when it has ended."`

	claimFlags   `embed:""`
	serviceFlags `embed:""`

	Command []string `arg:"" passthrough:"partial" help:"What to run, with its arguments."`
}

func (*runCommand) Help() string {
	return `The command gets LATCHKEY_NAME, LATCHKEY_FENCING_TOKEN and LATCHKEY_LOCK_ID in its environment beside all that is there, LATCHKEY_TOKEN too if it is (that of a --token-file is not put there), and standard input, output and error as they are. It runs in a process group of its own. Signals are passed on to it: USR1 and USR2 to the command alone, the others to the group. When it ends, what it left running is ended too; then the lock is released.

When the lock is lost, or could not be renewed in time, the group is sent SIGTERM and then SIGKILL, before anybody else can be granted the lock. A second process sees to that when latchkey itself is stopped, as by Ctrl-Z: continue it before the TTL is over. When all of them were stopped together, the command is ended when they go on; only the fencing token keeps it from doing harm in between. Daemons, which leave the session (setsid), outlive the command, but not the loss of the lock.

` + otherSystems + durationHelp + outageHelp + `Exit codes: the command's own, or 128 and the number of the signal that ended it; 126 it could not be run, 127 not found; 64 bad usage; 69 no server could be reached; 75 not acquired; 76 the lock was lost, broken by an administrator, or not renewable in time; 77 not allowed: the token or certificate is refused, or may not do this; 128 and the number of the signal by which the wait was stopped.

  latchkey run nightly --wait 5m -- ./job.sh`
}

func (c *runCommand) commandLine() *[]string { return &c.Command }

func (c *runCommand) check(bad *faults) {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if len(c.Command) == 0 || c.Command[0] == "" {
		bad.arg("COMMAND", "must name what to run")
	}
	c.claimFlags.check(bad)
	c.Grace.check(bad, c.TTL.Duration)
	c.serviceFlags.check(bad)
}

func (c *runCommand) run(s surroundings) error {
	path, err := exec.LookPath(c.Command[0])
	if err != nil && !errors.Is(err, exec.ErrDot) { // a PATH with . in it is its owner's affair
		return cannotRun(err)
	}
	client, err := c.client(c.logger(s.stderr))
	if err != nil {
		return err
	}
	signals := catchSignals()
	defer signals.stop()

	options := c.options()
	options.Margin = c.Grace.of(options.TTL) + spareOf(options.TTL)
	lock, err := c.takeUntil(context.Background(), signals, client, options, s.stderr)
	if err != nil {
		return err
	}
	w, err := startWard(wardSpec{
		path: path, args: c.Command, env: environment(lock),
		grace: c.Grace.of(lock.TTL()), spare: spareOf(lock.TTL()), remaining: lock.Remaining,
	})
	if err != nil {
		lock.Release()
		return cannotRun(err)
	}
	end := attend(w, lock, signals)
	w.close()
	return c.leave(lock, end, s)
}

func environment(lock *latchkey.Lock) []string {
	return append(os.Environ(), "LATCHKEY_NAME="+lock.Name(), "LATCHKEY_LOCK_ID="+lock.ID(),
		"LATCHKEY_FENCING_TOKEN="+strconv.FormatInt(lock.Token(), 10))
}

// wardSpec is what is run, and by what times it is ended.
type wardSpec struct {
	path      string
	args, env []string
	// grace is between SIGTERM and SIGKILL, and spare between SIGKILL and the end of the lock.
	grace, spare time.Duration
	// remaining is for how long the lock surely stands.
	remaining func() time.Duration
}

// looksPerTTL is how often in a TTL the ward is told for how long the lock surely stands.
const looksPerTTL = 20

// attend sees to the command until it has ended, and says how it did.
func attend(w *ward, lock *latchkey.Lock, signals *caught) commandEnd {
	look := time.NewTicker(min(lock.TTL()/looksPerTTL, time.Second))
	defer look.Stop()
	signals.all()
	lost := lock.Context(context.Background()).Done()
	for {
		select {
		case <-look.C:
			w.held()
		case <-lost:
			lost = nil
			w.end()
		case <-w.late:
			end := w.forsaken()
			end.InTime = false
			return end
		case sig := <-signals.told:
			w.signal(sig)
		case r, ok := <-w.reports:
			if !ok {
				return w.forsaken()
			}
			if r.Ended != nil {
				return *r.Ended
			}
			w.heard(r)
		}
	}
}

// commandEnd is how a command ended.
type commandEnd struct {
	Code    int    // as a shell counts
	Failure string // what was wrong with it, to be read after "the command"
	InTime  bool   // it ended by itself, while the lock surely stood
}

// leave releases the lock and says how the program ends.
func (c *runCommand) leave(lock *latchkey.Lock, end commandEnd, s surroundings) error {
	name := shown(c.Name)
	if !end.InTime {
		awaitLoss(lock)
	}
	cause := lock.Check()
	removed, err := lock.Release()
	lost := (*latchkey.LostError)(nil)
	switch isLost := errors.As(cmp.Or(cause, err), &lost); {
	case !end.InTime:
		return &exitError{exitLost, fmt.Errorf("%s: %s; the command %s", name, lossOf(cmp.Or(cause, err)), cmp.Or(end.Failure, "was ended"))}
	case isLost:
		return &exitError{exitLost, fmt.Errorf("%s: %s; the command had not ended by then", name, lossOf(lost))}
	case err == nil && !removed:
		return &exitError{exitLost, fmt.Errorf("%s: the lock was gone before it was released", name)}
	case err != nil && cause == nil:
		fmt.Fprintf(s.stderr, "latchkey: %s: could not be released, and runs out by itself: %v\n", name, plain{err})
	}
	if end.Failure != "" {
		return &exitError{end.Code, fmt.Errorf("the command %s", end.Failure)}
	}
	if end.Code != 0 {
		return &exitError{end.Code, nil}
	}
	return nil
}

// sameMoment is by how much the guard's clock may be ahead of the lock's own, by which the same moment has come.
const sameMoment = 200 * time.Millisecond

// awaitLoss lets the lock say why it could not be held, where the guard was the first to see that.
func awaitLoss(lock *latchkey.Lock) {
	select {
	case <-lock.Context(context.Background()).Done():
	case <-time.After(sameMoment):
	}
}

// lossOf says what is known of a lock under which the command could not go on.
func lossOf(cause error) string {
	lost, uncertain := (*latchkey.LostError)(nil), (*latchkey.UncertainError)(nil)
	switch {
	case errors.As(cause, &lost):
		return "the lock " + withoutPackage(lost.Why())
	case errors.As(cause, &uncertain):
		return "the lock may be lost: it " + withoutPackage(uncertain.Why())
	}
	return "the lock may be lost: latchkey itself was held up" // the guard was not told in time that it is held
}

// cannotRun is the end for a command that cannot be started.
func cannotRun(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return &exitError{exitNoCommand, err}
	}
	return &exitError{exitCannotRun, err}
}
