package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// survivors tells whether a process of the group lives, and which orphans do that have left it: those of which this process
// became the parent, and which are in its session. A daemon has a session of its own, and is none. What has ended counts as
// dead though nobody has waited for it: the first process of a container may never do so.
func survivors(group int) (inGroup bool, strays []int) {
	session, _ := unix.Getsid(0)
	family := fmt.Sprintf("%d %d", os.Getpid(), session)
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	if len(all) == 0 { // there is no /proc here
		return unix.Kill(-group, 0) == nil, nil
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// the second field is a name of any characters, in parentheses; then come state, parent, group and session
		rest := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(rest) < 4 || rest[0] == "Z" || rest[0] == "X" {
			continue
		}
		if rest[2] == strconv.Itoa(group) {
			inGroup = true
		} else if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && rest[1]+" "+rest[3] == family {
			strays = append(strays, pid)
		}
	}
	return inGroup, strays
}

// commandAttributes put the command into a group of its own, and have it killed with the thread that starts it.
func commandAttributes() *unix.SysProcAttr {
	return &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
}
