package server

import (
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
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
