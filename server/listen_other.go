//go:build !linux

package server

import "syscall"

// setUserTimeout does nothing where there is no such option: keepalives notice a client that went.
func setUserTimeout(_, _ string, _ syscall.RawConn) error { return nil }
