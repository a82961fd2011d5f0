package server

import (
	"net"

	"golang.org/x/sys/unix"
)

// dropped reports that the peer has closed the line, or has said so much that nobody could see it do so.
func dropped(conn *net.TCPConn) bool {
	socket, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = socket.Control(func(fd uintptr) {
		state := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if n, err := unix.Poll(state, 0); err == nil && n > 0 {
			gone = true
			return
		}
		unread, err := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		gone = err == nil && unread >= maxUnread
	})
	return gone || err != nil
}

// stuffed reports that the client takes so little of what it is sent that a write might have to wait.
func stuffed(conn *net.TCPConn) bool {
	socket, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	full := false
	err = socket.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
		full = err == nil && n == 0
	})
	return full || err != nil
}
