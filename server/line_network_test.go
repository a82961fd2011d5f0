package server

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gathered is the value of a metric without labels.
func gathered(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			m := family.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

// One address cannot take all connections: what it has too many is closed at once, and what it gives back it gets again.
func TestConnectionsOfAnAddressAreBounded(t *testing.T) {
	const most = 3
	registry := prometheus.NewRegistry()
	ts := serveWith(t, &fakeStore{}, ListenConfig{MaxConnsPerAddress: most, Registerer: registry}, HTTPConfig{})
	var conns []*net.TCPConn
	for range most {
		conn := dial(t, ts)
		say(t, conn, healthz)
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for range 2 {
		conn, err := net.Dial("tcp", ts.Listener.Addr().String())
		if errors.Is(err, syscall.ECONNRESET) {
			continue // so soon was it closed
		} else if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("one more is not closed")
		}
		conn.Close()
	}
	if open, refused := gathered(t, registry, "latchkey_connections_open"), gathered(t, registry, "latchkey_connections_refused_total"); open != most || refused != 2 {
		t.Errorf("%v are open, %v refused", open, refused)
	}
	for _, conn := range conns {
		conn.Close()
	}
	eventually(t, "their end", func() bool { return gathered(t, registry, "latchkey_connections_open") == 0 })
	for range most {
		conn := dial(t, ts)
		say(t, conn, healthz)
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNetworksOfAddresses(t *testing.T) {
	of := func(ip string) network { return networkOf(&net.TCPAddr{IP: net.ParseIP(ip), Port: 1, Zone: zone(ip)}) }
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8::1", "2001:db8::ffff:2", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"fe80::1", "fe80::2", true},
		{"0.0.0.0", "::", false},
	} {
		if got := of(c.a) == of(c.b); got != c.same {
			t.Errorf("%s is that of %s: got %v, want %v", c.a, c.b, got, c.same)
		}
	}
}

// zone is what a link's addresses have besides.
func zone(ip string) string {
	if net.ParseIP(ip).IsLinkLocalUnicast() {
		return "eth0"
	}
	return ""
}

// Of addresses that have left nothing is kept.
func TestNetworksAreForgotten(t *testing.T) {
	limit := networkLimit{most: 1}
	for i := range byte(100) {
		from := networkOf(&net.TCPAddr{IP: net.IPv4(192, 0, 2, i)})
		if !limit.enter(from) || limit.enter(from) {
			t.Fatal("not one may enter")
		}
		limit.leave(from)
	}
	if len(limit.lines) > 0 {
		t.Errorf("%d are kept", len(limit.lines))
	}
}
