package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/latchkey/latchkey/store"
)

const whoami = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// tellPeer answers who the client is.
var tellPeer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	name := "nobody"
	if cert := PeerCertificate(r.Context()); cert != nil {
		name = cert.SerialNumber.String()
	}
	fmt.Fprint(w, name)
})

func (c *secureConn) expectKnown(t *testing.T, as string) {
	t.Helper()
	if status, body, err := c.ask(whoami); err != nil || status != 200 || body != as {
		t.Fatalf("got %d %q, %v, want %q", status, body, err, as)
	}
}

func forServers(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }

func TestClientCertificates(t *testing.T) {
	ours, foreign := newAuthority(t), newAuthority(t)
	good := ours.issue(t)
	for name, c := range map[string]struct {
		own      []tls.Certificate
		optional string // who the client is, or what the refusal says
		required string
		reason   string
	}{
		"none":                {nil, "nobody", "certificate required", failedAnother},
		"good":                {[]tls.Certificate{good}, good.Leaf.SerialNumber.String(), good.Leaf.SerialNumber.String(), ""},
		"of a foreign CA":     {[]tls.Certificate{foreign.issue(t)}, "unknown certificate authority", "unknown certificate authority", failedPeer},
		"expired":             {[]tls.Certificate{ours.issue(t, until(time.Now().Add(-time.Minute)))}, "expired certificate", "expired certificate", failedPeer},
		"for servers":         {[]tls.Certificate{ours.issue(t, forServers)}, "bad certificate", "bad certificate", failedPeer},
		"not its own":         {[]tls.Certificate{{Certificate: good.Certificate, PrivateKey: newKey(t)}}, "error decrypting", "error decrypting", failedAnother},
		"by a client's":       {[]tls.Certificate{by(t, good)}, "certificate", "certificate", failedPeer},
		"of none of our time": {[]tls.Certificate{ours.issue(t, notYet)}, "expired certificate", "expired certificate", failedPeer},
	} {
		for mode, want := range map[string]string{"optional": c.optional, "required": c.required} {
			t.Run(name+", "+mode, func(t *testing.T) {
				t.Parallel()
				registry, cfg := prometheus.NewRegistry(), filesFor(t, ours.issue(t), ours)
				cfg.RequireClientCert, cfg.Registerer = mode == "required", registry
				ts := serveHandlerWith(t, tellPeer, ListenConfig{TLS: openTLS(t, cfg)}, HTTPConfig{})
				client := ours.client()
				client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					if len(c.own) == 0 {
						return &tls.Certificate{}, nil
					}
					return &c.own[0], nil // whatever the server says it takes
				}
				conn := dialTLS(t, ts, client)
				if want == "nobody" || want == good.Leaf.SerialNumber.String() {
					conn.expectKnown(t, want)
					return
				}
				if err := conn.expectRefused(t); !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
				expectFailed(t, registry, c.reason, 1)
			})
		}
	}
}

func notYet(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) }

// by makes a certificate that a client signed, as if its own were a CA's.
func by(t *testing.T, client tls.Certificate) tls.Certificate {
	t.Helper()
	made := (&authority{client.Leaf, client.PrivateKey.(*ecdsa.PrivateKey)}).issue(t)
	made.Certificate = append(made.Certificate, client.Certificate...)
	return made
}

// What the handlers see of a request has the certificate too.
func TestThePeerIsKnownBehindTheServer(t *testing.T) {
	a, seen := newAuthority(t), make(chan *x509.Certificate, 1)
	own := a.issue(t)
	fake := &fakeStore{look: func(ctx context.Context, _ string) (store.Lock, error) {
		seen <- PeerCertificate(ctx)
		return store.Lock{}, store.ErrNoLock
	}}
	ts := serveWith(t, fake, ListenConfig{TLS: openTLS(t, filesFor(t, a.issue(t), a))}, HTTPConfig{})
	if status, body, err := dialTLS(t, ts, a.client(own)).ask("GET /locks/x HTTP/1.1\r\nHost: x\r\n\r\n"); status != 404 {
		t.Fatalf("got %d, %v: %s", status, err, body)
	}
	if got := receive(t, "the request", seen); got == nil || !got.Equal(own.Leaf) {
		t.Errorf("got %v", got)
	}
}

func TestWithoutTLSNobodyIsKnown(t *testing.T) {
	if PeerCertificate(t.Context()) != nil {
		t.Error("a context of no request has a client")
	}
	ts := serveHandlerWith(t, tellPeer, ListenConfig{}, HTTPConfig{})
	if got := send(t, ts, "GET", "/", ""); got.body != "nobody" {
		t.Errorf("got %+v", got)
	}
}

// A live connection is no way around a CA that was taken away: its client is served once more only if it is still
// trusted. What it waits for already goes on.
func TestAClientWhoseCAWasTakenAwayIsOut(t *testing.T) {
	server, old, other := newAuthority(t), newAuthority(t), newAuthority(t)
	cfg := filesFor(t, server.issue(t), old)
	secret := openTLS(t, cfg)
	fake, waiting, grant, _ := waits(t)
	ts := serveWith(t, fake, ListenConfig{TLS: secret}, HTTPConfig{})
	trust := func(authorities ...*authority) {
		t.Helper()
		writeFile(t, cfg.ClientCAFile, bundle(authorities...))
		if err := secret.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	client, anonymous := server.client(old.issue(t)), dialTLS(t, ts, server.client())
	idle, busy := dialTLS(t, ts, client), dialTLS(t, ts, client)
	idle.expectServed(t)
	anonymous.expectServed(t)
	say(t, busy, waitingClaim)
	receive(t, "the claim", waiting)

	trust(old, other)
	idle.expectServed(t)
	trust(other)
	grant <- struct{}{}
	expectAnswer(t, busy.reader, 201)
	for name, conn := range map[string]*secureConn{"idle": idle, "busy": busy, "new": dialTLS(t, ts, client)} {
		if err := conn.expectRefused(t); name == "new" && !strings.Contains(err.Error(), "unknown certificate authority") {
			t.Errorf("got %v", err)
		}
	}
	dialTLS(t, ts, server.client(other.issue(t))).expectServed(t)
	anonymous.expectServed(t)
}

// Nor does a live connection outlive its client's certificate by more than a request.
func TestAClientWhoseCertificateExpiresIsOut(t *testing.T) {
	t.Parallel()
	a, end := newAuthority(t), time.Now().Add(3*time.Second)
	ts := serveWith(t, &fakeStore{}, ListenConfig{TLS: openTLS(t, filesFor(t, a.issue(t), a))}, HTTPConfig{})
	conn := dialTLS(t, ts, a.client(a.issue(t, until(end))))
	conn.expectServed(t)
	expired := time.NewTimer(time.Until(end.Add(time.Second))) // a certificate knows whole seconds
	<-expired.C
	conn.expectRefused(t)
}
