package etcdtest

import "syscall"

// tied makes the system kill a child with its parent, even one that is stopped and cannot see its parent's end.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
