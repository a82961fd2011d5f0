package server

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Nothing is agreed that others could read later, or change.
func TestTLSTakesNoWeakClient(t *testing.T) {
	a := newAuthority(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecdsaServer := serveWith(t, &fakeStore{}, ListenConfig{TLS: openTLS(t, filesFor(t, a.issue(t)))}, HTTPConfig{})
	rsaServer := serveWith(t, &fakeStore{}, ListenConfig{TLS: openTLS(t, filesFor(t, a.issueFor(t, key)))}, HTTPConfig{})
	for name, c := range map[string]struct {
		least, most uint16
		suite       uint16
		rsa, served bool
	}{
		"1.3":                     {tls.VersionTLS13, tls.VersionTLS13, 0, false, true},
		"1.2, AES-128-GCM":        {tls.VersionTLS12, tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, false, true},
		"1.2, AES-256-GCM, RSA":   {tls.VersionTLS12, tls.VersionTLS12, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, true, true},
		"1.2, ChaCha20":           {tls.VersionTLS12, tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, false, true},
		"1.2, CBC":                {tls.VersionTLS12, tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, false, false},
		"1.2, CBC, SHA-256":       {tls.VersionTLS12, tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256, false, false},
		"1.2, CBC, RSA":           {tls.VersionTLS12, tls.VersionTLS12, tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, true, false},
		"1.2, no forward secrecy": {tls.VersionTLS12, tls.VersionTLS12, tls.TLS_RSA_WITH_AES_128_GCM_SHA256, true, false},
		"1.1":                     {tls.VersionTLS10, tls.VersionTLS11, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, false, false},
		"1.0":                     {tls.VersionTLS10, tls.VersionTLS10, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := a.client()
			cfg.MinVersion, cfg.MaxVersion = c.least, c.most
			if c.suite != 0 {
				cfg.CipherSuites = []uint16{c.suite}
			}
			ts := ecdsaServer
			if c.rsa {
				ts = rsaServer
			}
			conn := dialTLS(t, ts, cfg)
			err := conn.Handshake()
			if !c.served {
				if err == nil || !strings.Contains(err.Error(), "remote error") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			conn.expectServed(t)
		})
	}
}

// HTTP/1.1 alone is spoken, even to those who would rather have HTTP/2.
func TestTLSSpeaksHTTP11(t *testing.T) {
	ts, a := serveTLS(t, &fakeStore{})
	transport := &http.Transport{TLSClientConfig: a.client(), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Get("https://" + ts.Listener.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 || res.Proto != "HTTP/1.1" || res.TLS.NegotiatedProtocol != "http/1.1" {
		t.Errorf("got %d over %s, %q", res.StatusCode, res.Proto, res.TLS.NegotiatedProtocol)
	}
	only := a.client()
	only.NextProtos = []string{"h2"}
	if err := dialTLS(t, ts, only).Handshake(); err == nil || !strings.Contains(err.Error(), "no application protocol") {
		t.Errorf("a client of HTTP/2 alone got %v", err)
	}
}

// Who connects again is judged anew, so that no client comes in under what was trusted once.
func TestNoSessionIsResumed(t *testing.T) {
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			server, clients := newAuthority(t), newAuthority(t)
			secret := openTLS(t, filesFor(t, server.issue(t), clients))
			ts := serveWith(t, &fakeStore{}, ListenConfig{TLS: secret}, HTTPConfig{})
			cfg := server.client(clients.issue(t))
			cfg.MaxVersion, cfg.ClientSessionCache = version, tls.NewLRUClientSessionCache(0)
			for range 2 {
				conn := dialTLS(t, ts, cfg)
				conn.expectServed(t) // a ticket of 1.3 would come with the answer
				if conn.ConnectionState().DidResume {
					t.Error("a session was resumed")
				}
				conn.Close()
			}
		})
	}
}

// Whoever takes http for https is told.
func TestPlainHTTPToTheTLSPortIsAnswered(t *testing.T) {
	registry := prometheus.NewRegistry()
	cfg := filesFor(t, newAuthority(t).issue(t))
	cfg.Registerer = registry
	ts := serveWith(t, &fakeStore{}, ListenConfig{TLS: openTLS(t, cfg)}, HTTPConfig{})
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/healthz", ""},
		{"DELETE", "/locks/x", ""},
		{"POST", "/locks", `{"name":"a"}`},
		{"POST", "/locks", strings.Repeat(" ", 60<<10)},
	} {
		got := send(t, ts, c.method, c.path, c.body)
		if p := got.problem(t); p.Status != 400 || p.Code != "invalid_request" || !strings.Contains(p.Detail, "https") {
			t.Errorf("%s: got %s", c.method, got.body)
		}
	}
	conn := dial(t, ts)
	say(t, conn, "SSH-2.0-client\r\n")
	if text, err := io.ReadAll(conn); len(text) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("what is no HTTP either got %q, %v", text, err)
	}
	expectFailed(t, registry, failedPlain, 5)
}

// expectFailed waits for as many failures for that reason, and wants none for another. A client can know sooner that it is refused
// than that is counted.
func expectFailed(t *testing.T, registry *prometheus.Registry, reason string, want float64) {
	t.Helper()
	eventually(t, "a handshake that failed is counted", func() bool { return failedOf(t, registry)[reason] >= want })
	for of, got := range failedOf(t, registry) {
		if of == reason && got != want || of != reason && got != 0 {
			t.Errorf("%s: got %v, want %v of %s alone", of, got, want, reason)
		}
	}
}

// failedOf are the failed handshakes by reason.
func failedOf(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	failed := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "latchkey_tls_handshakes_failed_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			failed[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return failed
}

func TestTLSMetricsAreWellNamed(t *testing.T) {
	registry := prometheus.NewRegistry()
	cfg := filesFor(t, newAuthority(t).issue(t))
	cfg.Registerer = registry
	serveWith(t, &fakeStore{}, ListenConfig{TLS: openTLS(t, cfg), Registerer: registry}, HTTPConfig{})
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 3+5 {
		t.Errorf("got %d series, %v", n, err)
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	if _, err := OpenTLS(cfg); err == nil {
		t.Error("a registry has the metrics twice")
	}
}

// A certificate's end is seen before it comes.
func TestTheExpiryIsAMetric(t *testing.T) {
	registry, end := prometheus.NewRegistry(), time.Now().Add(42*time.Minute)
	a := newAuthority(t)
	cfg := filesFor(t, a.issue(t, until(end)))
	cfg.Registerer = registry
	openTLS(t, cfg)
	if got := gathered(t, registry, "latchkey_tls_certificate_expiry_timestamp_seconds"); got != float64(end.Unix()) {
		t.Errorf("got %v, want %d", got, end.Unix())
	}
}
