package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

const (
	socketName = "etcd.sock"
	// maxSocketPath is what every system takes; Linux takes 107, macOS 103.
	maxSocketPath = 100
)

// socket is how this process's user reaches etcd.
type socket struct {
	listener net.Listener
	path     string
	dir      string // made for the socket, or ""
}

// listen opens a socket in the data directory, or, where that cannot be (its path is too long, its file system knows no
// sockets), in a directory of its own.
func listen(dir string) (socket, error) {
	s, err := listenAt(filepath.Join(dir, socketName))
	if err == nil {
		return s, nil
	}
	own, tempErr := os.MkdirTemp("", "latchkey") // for this user alone
	if tempErr != nil {
		return socket{}, errors.Join(err, tempErr)
	}
	s, ownErr := listenAt(filepath.Join(own, socketName))
	if ownErr != nil {
		return socket{}, errors.Join(err, ownErr, os.Remove(own))
	}
	s.dir = own
	return s, nil
}

func listenAt(path string) (socket, error) {
	if len(path) > maxSocketPath {
		return socket{}, fmt.Errorf("the path of a socket cannot be longer than %d bytes: %s", maxSocketPath, path)
	}
	// one that a killed process left: no other can be using it, etcd's database is locked by this one
	if old, err := os.Lstat(path); err == nil && old.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(path); err != nil {
			return socket{}, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return socket{}, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return socket{}, errors.Join(err, l.Close())
	}
	return socket{listener: l, path: path}, nil
}

// remove takes away what listen made and closing the listener left.
func (s socket) remove() error {
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}
