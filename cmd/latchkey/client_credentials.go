package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// credentialFlags say who calls, and whom to trust.
type credentialFlags struct {
	TokenFile string `placeholder:"FILE" group:"service" help:"A file that holds the token to send, an API token or a JWT; spaces and line breaks around it do no harm. It is read again when a request is answered 401. Without one the token is that of $$LATCHKEY_TOKEN, for which there is no flag: other users of a machine can read its command lines."`
	CACert    string `name:"cacert" placeholder:"FILE" group:"service" help:"The CA certificates, PEM, by which the servers' certificates are verified, in place of the system's."`
	Cert      string `placeholder:"FILE" group:"service" help:"The client certificate to show, PEM; with --cert-key. Both are read again for each connection."`
	CertKey   string `placeholder:"FILE" group:"service" help:"The key of --cert, PEM."`
}

// tokenEnv is a variable only: a flag would be seen by everybody.
const tokenEnv = "LATCHKEY_TOKEN"

const mostTokenFile = 64 << 10 // bytes

func (f *credentialFlags) check(bad *faults) {
	if token := os.Getenv(tokenEnv); token != "" && !soundToken(token) {
		bad.arg(tokenEnv, "must be printable ASCII without spaces")
	}
	if f.TokenFile != "" {
		if err := checkTokenFile(f.TokenFile); err != nil {
			bad.add("token-file", "%v", err)
		}
	}
	if f.CACert != "" {
		if _, err := readCertificates(f.CACert); err != nil {
			bad.add("cacert", "%v", err)
		}
	}
	if (f.Cert == "") != (f.CertKey == "") {
		bad.add("cert", "and --cert-key need each other")
	} else if f.Cert != "" {
		if _, err := tls.LoadX509KeyPair(f.Cert, f.CertKey); err != nil {
			bad.add("cert", "and --cert-key cannot be used: %v", err)
		}
	}
}

func soundToken(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// tokenFileBound is for a file system that hangs.
const tokenFileBound = 5 * time.Second

// checkTokenFile reads the file as it will be read, unless it is a pipe or the like: that can hold a reader up, and be read once.
func checkTokenFile(file string) error {
	checked := make(chan error, 1)
	go func() {
		info, err := os.Stat(file)
		if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			checked <- nil
			return
		}
		_, err = readToken(file)
		checked <- err
	}()
	select {
	case err := <-checked:
		return err
	case <-time.After(tokenFileBound):
		return fmt.Errorf("could not be read within %v", tokenFileBound)
	}
}

func readToken(file string) (string, error) {
	from, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	defer from.Close()
	text, err := io.ReadAll(io.LimitReader(from, mostTokenFile))
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	token := string(bytes.TrimSpace(text))
	if !soundToken(token) {
		return "", errors.New("must hold one token, of printable ASCII without spaces")
	}
	return token, nil
}

func readCertificates(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("holds no certificate: %s", file)
	}
	return pool, nil
}

// tokens is asked for the first token, and again when one was refused; nil if there is none to send.
func (f *credentialFlags) tokens() func(context.Context) (string, error) {
	file, token := f.TokenFile, os.Getenv(tokenEnv)
	switch {
	case file != "":
		return func(context.Context) (string, error) {
			token, err := readToken(file)
			if err != nil {
				return "", fmt.Errorf("--token-file %w", err)
			}
			return token, nil
		}
	case token != "":
		return func(context.Context) (string, error) { return token, nil }
	}
	return nil
}

// tls is nil where Go's own ways will do.
func (f *credentialFlags) tls() (*tls.Config, error) {
	if f.CACert == "" && f.Cert == "" {
		return nil, nil
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CACert != "" {
		pool, err := readCertificates(f.CACert)
		if err != nil {
			return nil, err
		}
		secure.RootCAs = pool
	}
	if f.Cert != "" {
		secure.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(f.Cert, f.CertKey)
			return &pair, err
		}
	}
	return secure, nil
}
