package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

const healthz = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

func openTLS(t *testing.T, cfg TLSConfig) *TLS {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	secret, err := OpenTLS(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(secret.Close)
	return secret
}

// serveWith starts a server on the fake as the binary would start it, with what is chosen.
func serveWith(t *testing.T, fake *fakeStore, listen ListenConfig, limits HTTPConfig) *httptest.Server {
	t.Helper()
	fake.t = t
	logger := slog.New(slog.DiscardHandler)
	handler, err := New(fake, Config{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	return serveHandlerWith(t, handler, listen, limits)
}

func serveHandlerWith(t *testing.T, handler http.Handler, listen ListenConfig, limits HTTPConfig) *httptest.Server {
	t.Helper()
	srv, err := NewHTTPServerWith(handler, slog.New(slog.DiscardHandler), limits)
	if err != nil {
		t.Fatal(err)
	}
	listen.Address = "127.0.0.1:0"
	listener, err := ListenWith(t.Context(), listen)
	if err != nil {
		t.Fatal(err)
	}
	ts := &httptest.Server{Listener: listener, Config: srv}
	ts.Start()
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
	})
	return ts
}

// serveTLS starts a server with a certificate of a new authority.
func serveTLS(t *testing.T, fake *fakeStore) (*httptest.Server, *authority) {
	t.Helper()
	a := newAuthority(t)
	secret := openTLS(t, filesFor(t, a.issue(t)))
	return serveWith(t, fake, ListenConfig{TLS: secret}, HTTPConfig{}), a
}

// secureConn is a client's connection, and what it reads from.
type secureConn struct {
	*tls.Conn
	tcp    *net.TCPConn
	reader *bufio.Reader
}

// dialTLS opens a connection whose handshake is still to come.
func dialTLS(t *testing.T, ts *httptest.Server, cfg *tls.Config) *secureConn {
	t.Helper()
	tcp := dial(t, ts)
	conn := tls.Client(tcp, cfg)
	return &secureConn{conn, tcp, bufio.NewReader(conn)}
}

// ask sends a request and returns its status.
func (c *secureConn) ask(request string) (int, string, error) {
	if _, err := io.WriteString(c, request); err != nil {
		return 0, "", err
	}
	res, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// expectServed asks for what is always there.
func (c *secureConn) expectServed(t *testing.T) {
	t.Helper()
	if status, body, err := c.ask(healthz); err != nil || status != 200 {
		t.Fatalf("got %d, %v: %s", status, err, body)
	}
}

// expectRefused asks for the same. With TLS 1.3 a client learns only then that it was refused.
func (c *secureConn) expectRefused(t *testing.T) error {
	t.Helper()
	status, body, err := c.ask(healthz)
	if err == nil {
		t.Fatalf("it is served: %d %s", status, body)
	}
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		t.Fatal("it is neither served nor refused")
	}
	return err
}

// eventually waits for what needs no event.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// serialOf is the certificate that a server has shown.
func serialOf(conn *tls.Conn) string {
	return fmt.Sprint(conn.ConnectionState().PeerCertificates[0].SerialNumber)
}
