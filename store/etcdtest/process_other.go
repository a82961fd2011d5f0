//go:build !linux

package etcdtest

import (
	"syscall"
	"time"
)

func tied() *syscall.SysProcAttr { return nil }

// stopped waits for as long as a process takes to stop: there is no way to see it.
func stopped(int) bool {
	time.Sleep(100 * time.Millisecond)
	return true
}
