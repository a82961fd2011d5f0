//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const otherSystems = ""

// ward is the command that runs under the lock. A guard, which is a process of its own, has started it and ends it in time;
// so that is done even while this process is stopped.
type ward struct {
	wardSpec
	reports chan notice      // closed when the guard is gone
	late    <-chan time.Time // when the guard has not ended the command in time

	link    *os.File
	orders  *json.Encoder
	guard   *exec.Cmd
	group   atomic.Int64 // of the command; 0: not started yet
	until   time.Duration
	console *console

	last    *time.Timer // nil until the command is to be ended
	killing sync.WaitGroup
	spared  chan struct{} // closed when the guard's number may become another's
	sparing sync.Once
}

// order is what the guard is told. Times are those of bootTime.
type order struct {
	Until        time.Duration  `json:",omitempty"` // the lock surely stands until then
	Grace, Spare time.Duration  `json:",omitempty"` // with the first one
	Signal       syscall.Signal `json:",omitempty"` // is for the command
	End          bool           `json:",omitempty"` // the lock is lost
}

// notice is what the guard tells.
type notice struct {
	Started int            `json:",omitempty"` // the command's process group
	Stopped syscall.Signal `json:",omitempty"` // it was stopped by this
	Ended   *commandEnd    `json:",omitempty"`
}

// startWard starts the guard, and that the command.
func startWard(spec wardSpec) (*ward, error) {
	self, err := ownProgram()
	if err != nil {
		return nil, fmt.Errorf("find the program itself: %w", err)
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("open a line to the guard: %w", err)
	}
	syscall.CloseOnExec(ends[0])
	// The other end keeps its number over there: every descriptor that latchkey was given is the command's.
	w := &ward{wardSpec: spec, link: linkOf(ends[0]), reports: make(chan notice), console: openConsole(), spared: make(chan struct{})}
	w.orders = json.NewEncoder(w.link)
	w.guard = exec.Command(self, append([]string{"guard", strconv.Itoa(ends[1]), "--", spec.path}, spec.args...)...)
	w.guard.Args[0], w.guard.Env = os.Args[0], spec.env
	w.guard.Stdin, w.guard.Stdout, w.guard.Stderr = os.Stdin, os.Stdout, os.Stderr
	// in a group of its own, so that no signal for this one's, or for the command's, meets it
	w.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	inherit()
	becomeReaper()
	err = w.guard.Start()
	unix.Close(ends[1])
	if err != nil {
		w.link.Close()
		w.console.close()
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	w.until = w.standsUntil()
	w.tell(order{Until: w.until, Grace: spec.grace, Spare: spec.spare})
	go w.listen()
	return w, nil
}

// linkOf makes a descriptor one that closing wakes.
func linkOf(fd int) *os.File {
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "guard")
}

func (w *ward) listen() {
	defer close(w.reports)
	from := json.NewDecoder(w.link)
	for {
		var r notice
		if from.Decode(&r) != nil {
			return
		}
		w.reports <- r
	}
}

// tell cannot fail but when the guard is gone, and then its reports end.
func (w *ward) tell(o order) { w.orders.Encode(o) }

// standsUntil errs to the early side when this process is stopped in the middle of it.
func (w *ward) standsUntil() time.Duration {
	now := bootTime()
	return now + w.remaining()
}

// held tells the guard for how long the lock surely stands.
func (w *ward) held() {
	if until := w.standsUntil(); until > w.until+time.Millisecond {
		w.until = until
		w.tell(order{Until: until})
	}
}

const (
	// lateness is by how much the guard may be late before this process kills the group itself.
	lateness = 100 * time.Millisecond
	// hangs is how long after that the guard is taken for one that does not come back.
	hangs = 2 * time.Second
)

// end ends the command: the lock is held no more.
func (w *ward) end() {
	w.tell(order{End: true})
	left := min(w.grace, max(0, w.until-w.spare-bootTime()))
	w.last = time.NewTimer(left + lateness)
	w.killing.Go(w.killLate)
	w.late = time.After(left + lateness + hangs)
}

// killLate does the guard's work while that is stopped.
func (w *ward) killLate() {
	again := time.NewTicker(lookOften)
	defer again.Stop()
	for due := w.last.C; ; due = again.C {
		select {
		case <-due:
			w.kill(w.guard.Process.Pid)
		case <-w.spared:
			return
		}
	}
}

func (w *ward) stopKilling() {
	w.sparing.Do(func() { close(w.spared) })
	w.killing.Wait()
}

// kill kills the command and all that descends from the root, and says whether anything of it was there.
func (w *ward) kill(root int) (any bool) {
	group := int(w.group.Load())
	if group == 0 {
		return false
	}
	unix.Kill(-group, unix.SIGKILL)
	inGroup, others := descendants(root, group)
	for _, pid := range others {
		unix.Kill(pid, unix.SIGKILL)
	}
	return inGroup || len(others) > 0
}

func (w *ward) signal(sig os.Signal) { w.tell(order{Signal: sig.(syscall.Signal)}) }

func (w *ward) heard(r notice) {
	if r.Started != 0 {
		w.group.Store(int64(r.Started))
	}
	if r.Stopped != 0 && w.console.stopped(int(w.group.Load()), r.Stopped) {
		w.tell(order{Signal: unix.SIGCONT})
	}
}

// forsaken is the end of a command whose guard is gone, or hangs. What the guard leaves are this process's children then. It
// returns when they are gone, or when they have had time enough for that.
func (w *ward) forsaken() commandEnd {
	w.stopKilling()
	w.guard.Process.Kill()
	over := max(w.until, bootTime()+hangs)
	left := true
	for ; left && bootTime() < over; time.Sleep(lookOften) {
		left = w.kill(os.Getpid())
		unix.Wait4(-1, nil, unix.WNOHANG, nil)
	}
	end := commandEnd{Code: exitSignal + int(unix.SIGKILL), Failure: "was killed, as the process that guards it was", InTime: true}
	if left {
		end.Failure = "cannot be ended, and lives on"
	}
	return end
}

func (w *ward) close() {
	w.stopKilling()
	w.console.close()
	w.link.Close()
	for range w.reports { // until nobody listens any more
	}
	w.guard.Process.Kill() // it has ended, or hangs
	w.guard.Wait()
}
