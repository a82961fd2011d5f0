package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestServeOnAClusterWithTLS(t *testing.T) {
	etcd := etcdtest.New(t)
	ours, another := newAuthority(t), newAuthority(t)
	endpoint := secureFront(t, etcd.Endpoint(), ours)
	cert, key := ours.issue(t)
	files := []string{"--etcd-cacert", ours.file, "--etcd-cert", cert, "--etcd-key", key}

	for name, at := range map[string]string{"by its scheme": "https://" + endpoint, "by its files": endpoint} {
		t.Run(name, func(t *testing.T) {
			r := serve(t, append(files, "--etcd-endpoints", at)...)
			acquire(t, r, t.Name())
			if err := r.end(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("of another authority", func(t *testing.T) {
		r := launch(t, "--etcd-endpoints", endpoint, "--etcd-cacert", another.file)
		cause := r.log.await(t, `waiting for etcd at [^"]*" cause="?(.*)`)
		if !strings.Contains(cause, "certificate") {
			t.Errorf("the log does not tell why: %s", cause)
		}
	})
}

// authority issues certificates for this machine.
type authority struct {
	file string // its own certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t), pool: x509.NewCertPool()}
	der := sign(t, &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, a.key.Public(), a.key)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.file = write(t, "CERTIFICATE", der)
	return a
}

// issue makes a certificate and its key, for a server and for a client.
func (a *authority) issue(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	der := sign(t, &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert, key.Public(), a.key)
	text, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "CERTIFICATE", der), write(t, "EC PRIVATE KEY", text)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, cert, by *x509.Certificate, key crypto.PublicKey, with *ecdsa.PrivateKey) []byte {
	t.Helper()
	if by == nil {
		by = cert
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, by, key, with)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func write(t *testing.T, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// secureFront speaks TLS before etcd and asks clients for a certificate.
func secureFront(t *testing.T, etcd string, a *authority) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.issue(t))
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: a.pool, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var carrying sync.WaitGroup
	carrying.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			carrying.Go(func() { carry(client, etcd) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		carrying.Wait()
	})
	return l.Addr().String()
}

func carry(client net.Conn, etcd string) {
	defer client.Close()
	server, err := net.Dial("tcp", etcd)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		defer client.Close()
		io.Copy(client, server)
	})
	io.Copy(server, client)
	server.Close()
	back.Wait()
}
