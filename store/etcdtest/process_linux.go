package etcdtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// tied makes the system kill a child with its parent, even one that is stopped and cannot see its parent's end.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// stopped reports that no thread of a process runs any more: a signal that stops it is sent before they have.
func stopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // it has just ended
		}
		name := bytes.LastIndexByte(stat, ')') // which can have anything in it
		if name < 0 || !bytes.HasPrefix(stat[name:], []byte(") T")) {
			return false
		}
	}
	return len(threads) > 0
}
