package latchkey_test

import "syscall"

// tied lets a process end with the tests, however they end.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
