package server

import (
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestConnectionsAreBounded(t *testing.T) {
	listener, err := Listen(t.Context(), "127.0.0.1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	for range 2 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	first := <-accepted
	select {
	case <-accepted:
		t.Fatal("a second connection was accepted")
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	select {
	case second := <-accepted:
		second.Close()
	case <-time.After(patience):
		t.Error("the second connection was not accepted after the first had gone")
	}
	listener.Close()
	<-accepted
}

func TestABadAddressIsAnError(t *testing.T) {
	if listener, err := Listen(t.Context(), "127.0.0.1:99999", 0); err == nil {
		listener.Close()
		t.Error("listens")
	}
}

func TestTheHTTPServerHasItsBounds(t *testing.T) {
	s := NewHTTPServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if s.ReadHeaderTimeout <= 0 || s.IdleTimeout <= 60*time.Second || s.MaxHeaderBytes <= 0 || s.WriteTimeout != 0 || s.ReadTimeout != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestLimitsHaveBounds(t *testing.T) {
	for _, c := range []ListenConfig{
		{MaxConns: -1}, {MaxConns: MostConns + 1}, {MaxConnsPerAddress: -1}, {MaxConnsPerAddress: MostConns + 1},
	} {
		c.Address = "127.0.0.1:0"
		if listener, err := ListenWith(t.Context(), c); err == nil {
			listener.Close()
			t.Errorf("%+v is taken", c)
		}
	}
	handler, logger := http.NotFoundHandler(), slog.New(slog.DiscardHandler)
	for _, c := range []HTTPConfig{
		{HeaderTimeout: LeastHeaderTimeout - 1}, {HeaderTimeout: MostHeaderTimeout + 1},
		{IdleTimeout: LeastIdleTimeout - 1}, {IdleTimeout: MostIdleTimeout + 1},
		{MaxHeaderBytes: LeastHeaderBytes - 1}, {MaxHeaderBytes: MostHeaderBytes + 1},
	} {
		if _, err := NewHTTPServerWith(handler, logger, c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	s, err := NewHTTPServerWith(handler, logger, HTTPConfig{MostHeaderTimeout, LeastIdleTimeout, MostHeaderBytes})
	if err != nil || s.ReadHeaderTimeout != MostHeaderTimeout || s.IdleTimeout != LeastIdleTimeout || s.MaxHeaderBytes != MostHeaderBytes {
		t.Errorf("got %+v, %v", s, err)
	}
}

// A header over its size is refused, whatever the size.
func TestHeadersAreBounded(t *testing.T) {
	const slack = 4 << 10 // net/http's
	ts := serveWith(t, &fakeStore{}, ListenConfig{}, HTTPConfig{MaxHeaderBytes: LeastHeaderBytes})
	for size, want := range map[int]int{LeastHeaderBytes / 2: 200, LeastHeaderBytes + 2*slack: 431} {
		if got := send(t, ts, "GET", "/healthz", "", "X", strings.Repeat("x", size)); got.status != want {
			t.Errorf("%d bytes: got %d, want %d", size, got.status, want)
		}
	}
}

// A listener that cannot be counted is none, and leaves its address free.
func TestAListenerIsCountedOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	first, err := ListenWith(t.Context(), ListenConfig{Address: "127.0.0.1:0", Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	address := first.Addr().String()
	first.Close()
	if second, err := ListenWith(t.Context(), ListenConfig{Address: address, Registerer: registry}); err == nil {
		second.Close()
		t.Error("the metrics are there twice")
	}
	third, err := ListenWith(t.Context(), ListenConfig{
		Address: address, Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"listener": "admin"}, prometheus.NewRegistry()),
	})
	if err != nil {
		t.Fatal(err)
	}
	third.Close()
}
