package server

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// serials makes every certificate of a test another.
var serials atomic.Int64

// authority issues certificates for this machine.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "an authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = a.sign(t, template, template, a.key.Public())
	return a
}

// issue makes a certificate with its key, for a server and for a client unless change says otherwise.
func (a *authority) issue(t *testing.T, change ...func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	return a.issueFor(t, newKey(t), change...)
}

func (a *authority) issueFor(t *testing.T, key crypto.Signer, change ...func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "somebody"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, c := range change {
		c(template)
	}
	cert := a.sign(t, template, a.cert, key.Public())
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

func (a *authority) sign(t *testing.T, cert, by *x509.Certificate, key crypto.PublicKey) *x509.Certificate {
	t.Helper()
	cert.SerialNumber = big.NewInt(serials.Add(1))
	der, err := x509.CreateCertificate(rand.Reader, cert, by, key, a.key)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// client is the configuration of one that trusts a, and has these certificates.
func (a *authority) client(own ...tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", Certificates: own}
}

// bundle is the text of a file of CAs.
func bundle(authorities ...*authority) []byte {
	var text bytes.Buffer
	for _, a := range authorities {
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
	}
	return text.Bytes()
}

// texts are those of the files of a certificate and its key.
func texts(t *testing.T, pair tls.Certificate) (cert, key []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// filesFor writes what a server needs, and takes clients' certificates from an authority if there is one.
func filesFor(t *testing.T, pair tls.Certificate, clients ...*authority) TLSConfig {
	t.Helper()
	dir := t.TempDir()
	cfg := TLSConfig{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	writePair(t, cfg, pair)
	if len(clients) > 0 {
		cfg.ClientCAFile = filepath.Join(dir, "clients.pem")
		writeFile(t, cfg.ClientCAFile, bundle(clients...))
	}
	return cfg
}

func writePair(t *testing.T, cfg TLSConfig, pair tls.Certificate) {
	t.Helper()
	cert, key := texts(t, pair)
	writeFile(t, cfg.CertFile, cert)
	writeFile(t, cfg.KeyFile, key)
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
