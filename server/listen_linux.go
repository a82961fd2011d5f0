package server

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// setUserTimeout is done to the listening socket; accepted connections inherit it.
func setUserTimeout(_, _ string, conn syscall.RawConn) error {
	var set error
	err := conn.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unackedTimeout.Milliseconds()))
	})
	return errors.Join(err, set)
}
