package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// hello is what a client of TLS says first.
func hello(t *testing.T) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	said := make(chan []byte, 1)
	go func() {
		text := make([]byte, 64<<10)
		n, _ := server.Read(text)
		said <- text[:n]
		server.Close()
	}()
	if err := tls.Client(client, &tls.Config{ServerName: "x"}).Handshake(); err == nil {
		t.Fatal("nobody is there")
	}
	text := receive(t, "the hello", said)
	if len(text) < 100 || !bytes.HasPrefix(text, []byte{22, 3, 1}) {
		t.Fatalf("got % x", text)
	}
	return text
}

// Handshakes that never end take up their connections, and those for a while: they are in nobody's way.
func TestStuckHandshakesAreCutOff(t *testing.T) {
	t.Parallel()
	const clients = 40
	begin := hello(t)
	a, registry := newAuthority(t), prometheus.NewRegistry()
	cfg := filesFor(t, a.issue(t))
	cfg.Registerer = registry
	ts := serveWith(t, &fakeStore{}, ListenConfig{TLS: openTLS(t, cfg), Registerer: registry}, HTTPConfig{HeaderTimeout: LeastHeaderTimeout})
	var stuck sync.WaitGroup
	for i := range clients {
		conn := dial(t, ts)
		// nothing, a part, all of what a client says first, after which it says no more
		if _, err := conn.Write(begin[:len(begin)*(i%3)/2]); err != nil {
			t.Fatal(err)
		}
		stuck.Go(func() {
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("a client that never ends its handshake is not cut off")
			}
		})
	}
	good := dialTLS(t, ts, a.client())
	good.expectServed(t)
	good.Close()
	stuck.Wait()
	eventually(t, "no connection open", func() bool { return gathered(t, registry, "latchkey_connections_open") == 0 })
	expectFailed(t, registry, failedSlow, clients)
}

// A header may be given more time than a handshake ever has.
func TestAHandshakeHasItsOwnBound(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	ts := serveWith(t, &fakeStore{}, ListenConfig{TLS: openTLS(t, filesFor(t, a.issue(t)))}, HTTPConfig{HeaderTimeout: MostHeaderTimeout})
	conn := dial(t, ts)
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout + patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it is not cut off")
	}
}

// A header that comes byte by byte is cut off in the time that it has, with the default limits.
func TestASlowHeaderUnderTLSIsCutOff(t *testing.T) {
	t.Parallel()
	ts, a := serveTLS(t, &fakeStore{})
	conn := dialTLS(t, ts, a.client())
	if err := conn.SetDeadline(time.Now().Add(headerTimeout + patience)); err != nil {
		t.Fatal(err)
	}
	say(t, conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
	ended := make(chan struct{})
	var trickle sync.WaitGroup
	trickle.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = io.WriteString(conn, "x")
			case <-ended:
				return
			}
		}
	})
	text, err := io.ReadAll(conn)
	close(ended)
	trickle.Wait()
	if errors.Is(err, os.ErrDeadlineExceeded) || len(text) > 0 {
		t.Errorf("got %q, %v", text, err)
	}
}

// Idle connections fill what may be open, and no more; who comes then is served as soon as one ends.
func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 10
	a, registry := newAuthority(t), prometheus.NewRegistry()
	secret := openTLS(t, filesFor(t, a.issue(t)))
	ts := serveWith(t, &fakeStore{}, ListenConfig{TLS: secret, MaxConns: most, Registerer: registry}, HTTPConfig{IdleTimeout: LeastIdleTimeout})
	for range most {
		dialTLS(t, ts, a.client()).expectServed(t)
	}
	late := dialTLS(t, ts, a.client())
	if n := gathered(t, registry, "latchkey_connections_open"); n > most {
		t.Errorf("%v are open", n)
	}
	late.expectServed(t)
}
