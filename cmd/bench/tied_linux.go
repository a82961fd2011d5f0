package main

import "syscall"

// tied makes the system kill a child with its parent, and keeps a Ctrl-C in the terminal from it.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
