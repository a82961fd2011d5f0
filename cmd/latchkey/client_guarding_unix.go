//go:build unix

package main

import (
	"encoding/json"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guard watches over one command. Times are those of bootTime.
type guard struct {
	reports      *json.Encoder
	group        int
	until        time.Duration
	grace, spare time.Duration

	tidyAt time.Duration // when what the command left behind is told to end; 0: not yet
	killAt time.Duration // 0: the command is left alone
	lost   bool          // the command is ended because of the lock, so nothing that descends from it may live
	over   bool          // the command itself has ended, though not all of its group may have
	end    commandEnd
}

// tell cannot fail but when latchkey run is gone, and then nobody wants to hear it.
func (g *guard) tell(r notice) error {
	g.reports.Encode(r)
	return nil
}

const (
	// lookEvery is how often the clock is looked at: timers stand still while the machine sleeps.
	lookEvery = 250 * time.Millisecond
	// lookOften is the same for whether a group that is being ended has ended.
	lookOften = 10 * time.Millisecond
	// daemonBound is for what the command left behind to leave the session, if it is to be a daemon.
	daemonBound = 100 * time.Millisecond
	// hearBound is for what was said before the time was over, and not yet heard.
	hearBound = 2 * time.Millisecond
)

// watch returns when the command has ended and all of its group.
func (g *guard) watch(orders <-chan order, stop <-chan struct{}) {
	children := make(chan child)
	done := make(chan struct{})
	defer close(done)
	go reap(children, done)
	for !g.over || g.leftBehind() {
		timer := time.NewTimer(g.untilNext())
		select {
		case o, ok := <-orders:
			if !ok {
				orders = nil
			}
			g.obey(o, !ok)
		case c := <-children:
			g.see(c)
		case <-stop:
			stop = nil
			g.lose()
		case <-timer.C:
			if g.killAt == 0 && g.late() {
				select {
				case o, ok := <-orders:
					g.obey(o, !ok)
				case <-time.After(hearBound):
				}
			}
		}
		timer.Stop()
		g.act()
	}
}

func (g *guard) untilNext() time.Duration {
	switch {
	case g.over:
		return lookOften
	case g.killAt != 0:
		return min(lookEvery, max(lookOften, g.killAt-bootTime()))
	}
	return min(lookEvery, max(0, g.lapse()-bootTime()))
}

// lapse is when the command is told that the lock is about to run out.
func (g *guard) lapse() time.Duration { return g.until - g.spare - g.grace }

func (g *guard) late() bool { return bootTime() >= g.lapse() }

// obey does what latchkey run says, or what is to be done when that is gone.
func (g *guard) obey(o order, gone bool) {
	g.until = max(g.until, o.Until)
	switch {
	case gone || o.End:
		g.lose()
	case o.Signal == unix.SIGUSR1 || o.Signal == unix.SIGUSR2:
		if !g.over { // else its number may be another's
			unix.Kill(g.group, o.Signal)
		}
	case o.Signal != 0:
		unix.Kill(-g.group, o.Signal)
	}
}

// lose begins to end the command and all that descends from it, daemons too: others may be granted the lock.
func (g *guard) lose() {
	g.lost = true
	g.finish()
}

// finish begins to end the command.
func (g *guard) finish() {
	if g.killAt != 0 {
		return
	}
	g.killAt = min(bootTime()+g.grace, g.until-g.spare)
	g.strike(unix.SIGTERM)
	g.strike(unix.SIGCONT) // one that is stopped hears nothing
}

func (g *guard) strike(sig syscall.Signal) {
	unix.Kill(-g.group, sig)
	_, others := g.left()
	for _, pid := range others {
		unix.Kill(pid, sig)
	}
}

// left tells what of the command lives: its group, and whatever left that but not the session, as jobs of a shell do, and whose
// own parent is dead; when the lock is lost, all that descends from it.
func (g *guard) left() (inGroup bool, others []int) {
	if g.lost {
		return descendants(os.Getpid(), g.group)
	}
	return survivors(g.group)
}

// leftBehind says whether anything of an ended command's lives on.
func (g *guard) leftBehind() bool {
	inGroup, others := g.left()
	return inGroup || len(others) > 0
}

// act does what the clock asks for.
func (g *guard) act() {
	switch {
	case g.late():
		g.lose()
	case g.tidyAt != 0 && bootTime() >= g.tidyAt:
		g.finish()
	}
	if g.killAt != 0 && bootTime() >= g.killAt {
		g.strike(unix.SIGKILL)
	}
}

// child is a process of the command's that has ended, or was stopped.
type child struct {
	pid    int
	status unix.WaitStatus
}

// reap waits for all children, those that the command left behind too.
func reap(children chan<- child, done <-chan struct{}) {
	for {
		var c child
		var err error
		c.pid, err = unix.Wait4(-1, &c.status, unix.WUNTRACED, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return // there is none any more
		}
		select {
		case children <- c:
		case <-done:
			return
		}
	}
}

// see takes notice of a child. What the command leaves behind when it ends by itself is ended as it would be.
func (g *guard) see(c child) {
	if c.pid != g.group {
		return
	}
	switch {
	case c.status.Stopped():
		g.tell(notice{Stopped: c.status.StopSignal()})
		return
	case c.status.Exited():
		g.end.Code = c.status.ExitStatus()
	default:
		g.end.Code = exitSignal + int(c.status.Signal())
	}
	g.over = true
	g.end.InTime = g.killAt == 0
	g.tidyAt = bootTime() + daemonBound
}
