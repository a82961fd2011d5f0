package server

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxPEM is the size of a file in bytes.
const maxPEM = 1 << 20

// suites are for TLS 1.2: those with forward secrecy and authenticated encryption. TLS 1.3 has no others.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// tlsFiles are the texts of the files. Which text is whose may be in doubt while they are replaced: what was read half
// before and half after does not fit together, or is read again at the next look.
type tlsFiles struct{ cert, key, clientCAs []byte }

func readTLSFiles(cfg TLSConfig) (tlsFiles, error) {
	var (
		files tlsFiles
		errs  [3]error
	)
	files.cert, errs[0] = readPEM("certificate", cfg.CertFile)
	files.key, errs[1] = readPEM("key", cfg.KeyFile)
	if cfg.ClientCAFile != "" {
		files.clientCAs, errs[2] = readPEM("client CAs", cfg.ClientCAFile)
	}
	return files, errors.Join(errs[:]...)
}

func readPEM(what, path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the %s: %w", what, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPEM+1))
	if err == nil && len(text) > maxPEM {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxPEM)
	}
	if err != nil {
		return nil, fmt.Errorf("read the %s: %w", what, err)
	}
	return text, nil
}

// tlsSum tells files from others without keeping them.
type tlsSum [3][sha256.Size]byte

func (f tlsFiles) sum() tlsSum {
	return tlsSum{sha256.Sum256(f.cert), sha256.Sum256(f.key), sha256.Sum256(f.clientCAs)}
}

// tlsState is what one version of the files says.
type tlsState struct {
	sum      tlsSum
	settings *tls.Config
}

// leaf is the server's own certificate.
func (s *tlsState) leaf() *x509.Certificate { return s.settings.Certificates[0].Leaf }

func (f tlsFiles) state(cfg TLSConfig) (*tlsState, error) {
	pair, err := tls.X509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("use the certificate of %s with the key of %s: %w", cfg.CertFile, cfg.KeyFile, err)
	}
	settings := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		CipherSuites: suites,
		// No HTTP/2, on purpose: with one line a client, a client that leaves is noticed by its line; a flood of streams
		// that are opened and reset cannot come; and what is promised has been tested like this.
		NextProtos: []string{"http/1.1"},
		// A ticket would take in, unasked, a client whose CA is trusted no longer. It would be of little use besides, as
		// only the replica that gave it knows it.
		SessionTicketsDisabled: true,
	}
	if cfg.ClientCAFile != "" {
		settings.ClientAuth = tls.VerifyClientCertIfGiven
		if settings.ClientCAs, err = certPool(f.clientCAs); err != nil {
			return nil, fmt.Errorf("use the client CAs of %s: %w", cfg.ClientCAFile, err)
		}
	}
	if cfg.RequireClientCert {
		settings.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return &tlsState{f.sum(), settings}, nil
}

// certPool takes all certificates of a text or none: both pem and x509 would pass over what they cannot read.
func certPool(text []byte) (*x509.CertPool, error) {
	begun := bytes.Count(text, []byte("-----BEGIN "))
	if begun == 0 {
		return nil, errors.New("it holds no certificate")
	}
	pool := x509.NewCertPool()
	for n := range begun {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil || block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("block %d of %d is no whole certificate", n+1, begun)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("block %d of %d: %w", n+1, begun, err)
		}
		pool.AddCert(cert)
	}
	return pool, nil
}
