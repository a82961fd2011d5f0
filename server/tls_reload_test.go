package server

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func until(end time.Time) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.NotAfter = end }
}

// What is open goes on; who comes later sees the new certificate.
func TestACertificateIsReplacedUnderLiveConnections(t *testing.T) {
	a := newAuthority(t)
	before, after := a.issue(t), a.issue(t)
	cfg := filesFor(t, before)
	secret := openTLS(t, cfg)
	ts := serveWith(t, &fakeStore{}, ListenConfig{TLS: secret}, HTTPConfig{})
	live := dialTLS(t, ts, a.client())
	live.expectServed(t)

	writePair(t, cfg, after)
	if err := secret.Reload(); err != nil {
		t.Fatal(err)
	}
	live.expectServed(t)
	later := dialTLS(t, ts, a.client())
	later.expectServed(t)
	if got, want := serialOf(live.Conn), before.Leaf.SerialNumber.String(); got != want {
		t.Errorf("the live connection saw %s, want %s", got, want)
	}
	if got, want := serialOf(later.Conn), after.Leaf.SerialNumber.String(); got != want {
		t.Errorf("the later connection saw %s, want %s", got, want)
	}
}

// Kubernetes writes a folder and turns one link to it: nobody calls Reload.
func TestASwappedLinkIsNoticed(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t), t.TempDir()
	before, after := a.issue(t), a.issue(t)
	mount := func(version string, pair tls.Certificate) {
		t.Helper()
		folder := filepath.Join(dir, version)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		writePair(t, TLSConfig{CertFile: filepath.Join(folder, "tls.crt"), KeyFile: filepath.Join(folder, "tls.key")}, pair)
		link(t, version, filepath.Join(dir, "..new"))
		if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	mount("..1", before)
	cfg := TLSConfig{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	link(t, filepath.Join("..data", "tls.crt"), cfg.CertFile)
	link(t, filepath.Join("..data", "tls.key"), cfg.KeyFile)
	ts := serveWith(t, &fakeStore{}, ListenConfig{TLS: openTLS(t, cfg)}, HTTPConfig{})
	shown := func() string {
		conn := dialTLS(t, ts, a.client())
		defer conn.Close()
		conn.expectServed(t)
		return serialOf(conn.Conn)
	}
	if got, want := shown(), before.Leaf.SerialNumber.String(); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	mount("..2", after)
	if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new certificate", func() bool { return shown() == after.Leaf.SerialNumber.String() })
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

// badFiles are what replaces good files by mistake.
var badFiles = map[string]struct {
	spoil func(t *testing.T, cfg TLSConfig, a *authority)
	cause string
}{
	"the key of another": {func(t *testing.T, cfg TLSConfig, a *authority) {
		cert, _ := texts(t, a.issue(t))
		writeFile(t, cfg.CertFile, cert)
	}, "does not match"},
	"an empty certificate": {func(t *testing.T, cfg TLSConfig, _ *authority) { writeFile(t, cfg.CertFile, nil) }, "cert.pem"},
	"no key": {func(t *testing.T, cfg TLSConfig, _ *authority) {
		if err := os.Remove(cfg.KeyFile); err != nil {
			t.Fatal(err)
		}
	}, "no such file"},
	"a huge key": {func(t *testing.T, cfg TLSConfig, _ *authority) {
		writeFile(t, cfg.KeyFile, make([]byte, maxPEM+1))
	}, "larger than"},
	"no client CA": {func(t *testing.T, cfg TLSConfig, _ *authority) {
		writeFile(t, cfg.ClientCAFile, []byte("# none\n"))
	}, "holds no certificate"},
	"half a client CA": {func(t *testing.T, cfg TLSConfig, a *authority) {
		text := bundle(a, newAuthority(t))
		writeFile(t, cfg.ClientCAFile, text[:len(text)-60])
	}, "block 2 of 2"},
	"a key among the client CAs": {func(t *testing.T, cfg TLSConfig, a *authority) {
		_, key := texts(t, a.issue(t))
		writeFile(t, cfg.ClientCAFile, append(key, bundle(a)...))
	}, "block 1 of 2"},
}

// Bad files change nothing, and are told of: once, however often they are looked at. No part of a key is told.
func TestBadFilesKeepTheOldOnes(t *testing.T) {
	for name, bad := range badFiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log lockedBuffer
			a := newAuthority(t)
			pair := a.issue(t)
			cfg := filesFor(t, pair, a)
			cfg.Logger = debugLogger(&log)
			secret := openTLS(t, cfg)
			ts := serveWith(t, &fakeStore{}, ListenConfig{TLS: secret}, HTTPConfig{})
			bad.spoil(t, cfg, a)
			for range 3 {
				if err := secret.Reload(); err == nil || !strings.Contains(err.Error(), bad.cause) {
					t.Errorf("got %v, want %q in it", err, bad.cause)
				}
			}
			if n := strings.Count(log.String(), `"level":"ERROR"`); n != 1 || strings.Contains(log.String(), "BEGIN") {
				t.Errorf("%d lines:\n%s", n, log.String())
			}
			conn := dialTLS(t, ts, a.client(a.issue(t)))
			conn.expectServed(t)
			if got, want := serialOf(conn.Conn), pair.Leaf.SerialNumber.String(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}

			replacement := a.issue(t)
			writePair(t, cfg, replacement)
			writeFile(t, cfg.ClientCAFile, bundle(a))
			if err := secret.Reload(); err != nil {
				t.Fatalf("good files again: %v", err)
			}
			again := dialTLS(t, ts, a.client())
			again.expectServed(t)
			if got, want := serialOf(again.Conn), replacement.Leaf.SerialNumber.String(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestBadFilesAreNoStart(t *testing.T) {
	for name, bad := range badFiles {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t)
			cfg := filesFor(t, a.issue(t), a)
			bad.spoil(t, cfg, a)
			if secret, err := OpenTLS(cfg); err == nil {
				secret.Close()
				t.Error("it starts")
			} else if !strings.Contains(err.Error(), bad.cause) {
				t.Errorf("got %v, want %q in it", err, bad.cause)
			}
		})
	}
	cfg := filesFor(t, newAuthority(t).issue(t))
	cfg.RequireClientCert = true
	if secret, err := OpenTLS(cfg); err == nil {
		secret.Close()
		t.Error("clients are to be judged by no CA")
	}
	_, err := OpenTLS(TLSConfig{CertFile: "no-cert", KeyFile: "no-key"})
	if err == nil || !strings.Contains(err.Error(), "no-cert") || !strings.Contains(err.Error(), "no-key") {
		t.Errorf("got %v, want both files named", err)
	}
}

// An operator is warned of a certificate that clients will refuse, and gets what they asked for.
func TestAnExpiredCertificateIsToldOf(t *testing.T) {
	var log lockedBuffer
	cfg := filesFor(t, newAuthority(t).issue(t, until(time.Now().Add(-time.Minute))))
	cfg.Logger = debugLogger(&log)
	openTLS(t, cfg)
	if !strings.Contains(log.String(), `"level":"WARN"`) {
		t.Errorf("got %s", log.String())
	}
}
