package server

import (
	"crypto/tls"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// A client that leaves is noticed under TLS as without, in whatever way it leaves and whatever it said after its request.
func TestAClientThatLeavesIsNoticedUnderTLS(t *testing.T) {
	ways := map[string]func(*secureConn) error{
		"FIN":               func(c *secureConn) error { return sendFIN(c.tcp) },
		"RST":               func(c *secureConn) error { return sendRST(c.tcp) },
		"close_notify, FIN": func(c *secureConn) error { return c.Close() },
		"half a record and FIN": func(c *secureConn) error {
			_, err := c.tcp.Write([]byte{23, 3, 3})
			return errors.Join(err, sendFIN(c.tcp))
		},
	}
	for name, c := range map[string]struct {
		version     uint16
		with, after string
	}{
		"nothing":                              {tls.VersionTLS13, "", ""},
		"one byte":                             {tls.VersionTLS13, "", "\n"},
		"one byte, 1.2":                        {tls.VersionTLS12, "", "\n"},
		"pipelined with the request":           {tls.VersionTLS13, healthz, "\r\n"},
		"more than a record after the request": {tls.VersionTLS13, "", strings.Repeat("x", maxUnread-4096)},
	} {
		for way, leave := range ways {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				fake, waiting, _, left := waits(t)
				ts, a := serveTLS(t, fake)
				cfg := a.client()
				cfg.MaxVersion = c.version
				conn := dialTLS(t, ts, cfg)
				say(t, conn, waitingClaim+c.with)
				l := receive(t, "the claim", waiting)
				if c.after != "" {
					say(t, conn, c.after)
					awaitUnread(t, l)
				}
				if err := leave(conn); err != nil {
					t.Fatal(err)
				}
				receive(t, "the end of the claim", left)
			})
		}
	}
}

func TestAFloodHidesNobodyUnderTLS(t *testing.T) {
	fake, waiting, _, left := waits(t)
	ts, a := serveTLS(t, fake)
	conn := dialTLS(t, ts, a.client())
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

// A client that takes nothing delays the end of no line but its own: http.Server ends one after the other.
func TestTheEndOfALineDoesNotWaitForItsClient(t *testing.T) {
	const within = 2 * time.Second // TLS by itself would wait 5 s to say goodbye
	fake, waiting, grant, _ := waits(t)
	ts, a := serveTLS(t, fake)
	conn := dialTLS(t, ts, a.client())
	say(t, conn, waitingClaim)
	l := receive(t, "the claim", waiting)
	for taken := -1; taken != 0; { // under TLS, which knows nothing of it
		if err := l.tcp.SetWriteDeadline(time.Now().Add(hasty)); err != nil {
			t.Fatal(err)
		}
		var err error
		if taken, err = l.tcp.Write(make([]byte, 1<<20)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if err := l.tcp.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > within {
		t.Errorf("it took %v", took)
	}
	close(grant)
}
