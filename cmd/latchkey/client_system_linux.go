package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is a clock that all processes of the machine share, and that goes on while the machine sleeps.
func bootTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // a sandbox may forbid the first
	}
	return time.Duration(now.Nano())
}

// ownProgram is this program, even when its file has been replaced or removed meanwhile.
func ownProgram() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}

// becomeReaper makes orphans of the command's group children of this process, so that it sees their end, whatever the
// first process of the machine or container does.
func becomeReaper() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// commandAttributes put the command into a group of its own, and have it killed with the thread that starts it.
func commandAttributes() *unix.SysProcAttr {
	return &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
}
