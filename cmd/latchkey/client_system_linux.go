package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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

// process is one that has not ended. What has counts as dead though nobody has waited for it: the first process of a container
// may never do so.
type process struct{ pid, parent, group, session int }

// processes are all that this one sees; none where there is no /proc.
func processes() (all []process) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// the second field is a name of any characters, in parentheses; then come state, parent, group and session
		rest := string(text[bytes.LastIndexByte(text, ')')+1:])
		var state string
		var p process
		if n, _ := fmt.Sscan(rest, &state, &p.parent, &p.group, &p.session); n < 4 || state == "Z" || state == "X" {
			continue
		}
		if p.pid, err = strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// survivors tells whether a process of the group lives, and which orphans do that have left it: those of which this process
// became the parent, and which are in its session. A daemon has a session of its own, and is none.
func survivors(group int) (inGroup bool, strays []int) {
	all := processes()
	if len(all) == 0 { // there is no /proc here
		return unix.Kill(-group, 0) == nil, nil
	}
	own := os.Getpid()
	session, _ := unix.Getsid(0)
	for _, p := range all {
		switch {
		case p.group == group:
			inGroup = true
		case p.parent == own && p.session == session:
			strays = append(strays, p.pid)
		}
	}
	return inGroup, strays
}

// descendants tells whether a process of the group lives, and which others do that descend from the root, whatever group and
// session they have gone to. All orphans of the command's descend from whoever is its reaper.
func descendants(root, group int) (inGroup bool, others []int) {
	all := processes()
	if len(all) == 0 {
		return unix.Kill(-group, 0) == nil, nil
	}
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
		inGroup = inGroup || p.group == group
	}
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, p := range children[next[0]] {
			next = append(next, p.pid)
			if p.group != group {
				others = append(others, p.pid)
			}
		}
	}
	return inGroup, others
}

// commandAttributes put the command into a group of its own, and have it killed with the thread that starts it.
func commandAttributes() *unix.SysProcAttr {
	return &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
}
