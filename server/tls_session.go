package server

import (
	"crypto/tls"
	"io"
	"net"
	"time"
)

// handshakeTimeout is the most that a handshake may take, however long a header may.
const handshakeTimeout = 10 * time.Second

// session is TLS on a TCP connection. net/http does not see it as such, under the line, so that it has to begin by itself.
type session struct {
	*tls.Conn
	tcp      *net.TCPConn
	tls      *TLS
	settings *tls.Config
	open     bool
	peer     peer
}

func (t *TLS) session(tcp *net.TCPConn) *session {
	settings := t.settings()
	return &session{Conn: tls.Server(tcp, settings), tcp: tcp, tls: t, settings: settings}
}

// Read begins with the handshake, in the time for the first header: whoever does not get through it has left.
func (s *session) Read(p []byte) (int, error) {
	if !s.open {
		if err := s.handshake(); err != nil {
			s.tls.failed(s.tcp, err)
			return 0, io.EOF
		}
		s.open = true
	}
	return s.Conn.Read(p)
}

func (s *session) handshake() error {
	cut := time.AfterFunc(handshakeTimeout, func() { s.tcp.Close() })
	err := s.Handshake()
	if !cut.Stop() {
		return errHandshakeTooSlow
	}
	if err != nil {
		return err
	}
	s.peer = peerOf(s.ConnectionState(), s.settings)
	return nil
}

// trusted reports whether the client's certificate is good today, and logs when it is not.
func (s *session) trusted() bool {
	if s.peer.trusted(s.tls.settings()) {
		return true
	}
	s.tls.log.Info("a connection ends: the client's certificate has expired or is no longer trusted",
		"client", s.tcp.RemoteAddr().String())
	return false
}

// Close tells the client that this is the end, unless that might have to wait: net/http closes lines one after the
// other, and under its lock.
func (s *session) Close() error {
	if stuffed(s.tcp) {
		return s.tcp.Close()
	}
	return s.Conn.Close()
}
