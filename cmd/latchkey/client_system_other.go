//go:build unix && !linux

package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is a clock that all processes of the machine share, and that goes on while a Mac sleeps.
func bootTime() time.Duration {
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it cannot fail for this clock
	return time.Duration(now.Nano())
}

// ownProgram is this program.
func ownProgram() (string, error) { return os.Executable() }

// becomeReaper has no counterpart here.
func becomeReaper() {}

// survivors tells whether a process of the group lives. Which orphans have left it is not known here.
func survivors(group int) (inGroup bool, strays []int) { return unix.Kill(-group, 0) == nil, nil }

// descendants is survivors: who descends from whom is not known here.
func descendants(_, group int) (inGroup bool, others []int) { return survivors(group) }

// commandAttributes put the command into a group of its own.
func commandAttributes() *unix.SysProcAttr { return &unix.SysProcAttr{Setpgid: true} }
