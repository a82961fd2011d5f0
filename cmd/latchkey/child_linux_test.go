package main

import "syscall"

// tied makes the system kill a child with its parent.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
