package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

func sendFIN(conn *net.TCPConn) error { return conn.CloseWrite() }

func sendRST(conn *net.TCPConn) error {
	return errors.Join(conn.SetLinger(0), conn.Close())
}

// awaitUnread waits until the server has taken the one byte after which it reads no further.
func awaitUnread(t *testing.T, l *line) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		unread := l.unread
		l.mu.Unlock()
		switch {
		case unread:
			return
		case time.Now().After(deadline):
			t.Fatal("the byte was not taken")
		}
	}
}

// A client that leaves is noticed, whatever it said after its request.
func TestAClientThatLeavesIsNoticed(t *testing.T) {
	const healthz = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, c := range []struct {
		name, with, after string
		leave             func(*net.TCPConn) error
	}{
		{"nothing, FIN", "", "", sendFIN},
		{"nothing, RST", "", "", sendRST},
		{"one byte, FIN", "", "\n", sendFIN},
		{"an empty line, FIN", "", "\r\n", sendFIN},
		{"an empty line, RST", "", "\r\n", sendRST},
		{"pipelined, FIN", "", healthz, sendFIN},
		{"pipelined, RST", "", healthz, sendRST},
		{"pipelined with the request, FIN", healthz, "", sendFIN},
		{"pipelined with the request and after it, FIN", healthz, "\r\n", sendFIN},
		{"as much as is still watched, FIN", "", strings.Repeat("x", maxUnread-1), sendFIN},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fake, waiting, _, left := waits(t)
			ts := serve(t, fake, Config{})
			conn := dial(t, ts)
			say(t, conn, waitingClaim+c.with)
			l := receive(t, "the claim", waiting)
			for _, piece := range []byte(c.after) {
				say(t, conn, string(piece)) // the dearest way for the socket
			}
			if c.after != "" {
				awaitUnread(t, l)
			}
			if err := c.leave(conn); err != nil {
				t.Fatal(err)
			}
			receive(t, "the end of the claim", left)
		})
	}
}

// The byte that hides the client can also be said during an earlier request of the connection.
func TestAByteSaidDuringAnEarlierRequestHidesNobody(t *testing.T) {
	fake, waiting, grant, left := waits(t)
	ts := serve(t, fake, Config{})
	conn := dial(t, ts)
	reader := bufio.NewReader(conn)
	say(t, conn, waitingClaim+waitingClaim)
	l := receive(t, "the first claim", waiting)
	say(t, conn, "\n")
	awaitUnread(t, l)
	grant <- struct{}{}
	expectAnswer(t, reader, 201)
	receive(t, "the second claim", waiting)
	if err := sendFIN(conn); err != nil {
		t.Fatal(err)
	}
	receive(t, "the end of the second claim", left)
}

// A flood fills the line until its end could not come through: who sends one is served no longer.
func TestAFloodHidesNobody(t *testing.T) {
	fake, waiting, _, left := waits(t)
	ts := serve(t, fake, Config{})
	conn := dial(t, ts)
	say(t, conn, waitingClaim)
	receive(t, "the claim", waiting)
	flooded := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, strings.Repeat("x", 16<<20))
		flooded <- err
	}()
	receive(t, "the end of the claim", left)
	if err := receive(t, "the end of the flood", flooded); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the flood ended with %v", err)
	}
}
