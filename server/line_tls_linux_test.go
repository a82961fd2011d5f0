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
	for name, said := range map[string]struct{ with, after string }{
		"nothing":                              {"", ""},
		"one byte":                             {"", "\n"},
		"an empty line":                        {"", "\r\n"},
		"pipelined":                            {"", healthz},
		"pipelined with the request":           {healthz, ""},
		"pipelined with it and after it":       {healthz, "\r\n"},
		"more than a record after the request": {"", strings.Repeat("x", maxUnread-4096)},
	} {
		for way, leave := range ways {
			for version, most := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
				t.Run(name+", "+way+", "+version, func(t *testing.T) {
					t.Parallel()
					fake, waiting, _, left := waits(t)
					ts, a := serveTLS(t, fake)
					cfg := a.client()
					cfg.MaxVersion = most
					conn := dialTLS(t, ts, cfg)
					say(t, conn, waitingClaim+said.with)
					l := receive(t, "the claim", waiting)
					if said.after != "" {
						say(t, conn, said.after)
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
	if err := l.tcp.SetWriteDeadline(time.Now().Add(hasty)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.tcp.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the client takes everything: %v", err)
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
