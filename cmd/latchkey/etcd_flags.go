package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.etcd.io/etcd/client/pkg/v3/transport"
)

const maxPrefix = 255

// etcdFlags say on what store to work.
type etcdFlags struct {
	DataDir string `default:"./latchkey-data" placeholder:"DIR" group:"store" help:"Where the embedded etcd keeps its data; made if it is missing (default: ${default}). Not used with --etcd-endpoints."`

	EtcdEndpoints    []string `placeholder:"ENDPOINT" group:"store" help:"Members of an etcd cluster to use in place of the embedded etcd, separated by commas: http://host:2379, https://host:2379, or host:2379 (TLS if one of the TLS files is given)."`
	EtcdUsername     string   `placeholder:"NAME" group:"store" help:"User to authenticate to etcd as."`
	EtcdPassword     string   `placeholder:"PASSWORD" group:"store" help:"That user's password. Other users of a machine can read its command lines: prefer the variable or the file."`
	EtcdPasswordFile string   `placeholder:"FILE" group:"store" help:"A file that holds the password; a line break at its end does not count."`
	EtcdCacert       string   `placeholder:"FILE" group:"store" help:"The CA certificates, PEM, by which etcd's certificate is verified (default with https: those of the system)."`
	EtcdCert         string   `placeholder:"FILE" group:"store" help:"Our own certificate for etcd, PEM; with --etcd-key."`
	EtcdKey          string   `placeholder:"FILE" group:"store" help:"The key of --etcd-cert, PEM."`
	EtcdPrefix       string   `default:"/latchkey/" placeholder:"PREFIX" group:"store" help:"What every key in etcd begins with; ends in / and has up to 255 bytes (default: ${default}). All replicas of one service have the same."`
}

func (f *etcdFlags) check(bad *faults) {
	f.checkPrefix(bad)
	if !f.clustered() {
		f.checkNoCluster(bad)
		return
	}
	f.checkEndpoints(bad)
	f.checkUser(bad)
	f.checkTLS(bad)
}

func (f *etcdFlags) clustered() bool { return len(f.EtcdEndpoints) > 0 }

func (f *etcdFlags) checkPrefix(bad *faults) {
	p := f.EtcdPrefix
	if !strings.HasSuffix(p, "/") || len(p) > maxPrefix || !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl) {
		bad.add("etcd-prefix", "must end in /, have at most %d bytes and no control characters, not %q", maxPrefix, p)
	}
}

// checkNoCluster refuses what only a cluster needs: whoever sets it believes to be using one.
func (f *etcdFlags) checkNoCluster(bad *faults) {
	if f.DataDir == "" {
		bad.add("data-dir", "must name a directory")
	}
	for _, only := range []struct{ flag, value string }{
		{"etcd-username", f.EtcdUsername}, {"etcd-password", f.EtcdPassword}, {"etcd-password-file", f.EtcdPasswordFile},
		{"etcd-cacert", f.EtcdCacert}, {"etcd-cert", f.EtcdCert}, {"etcd-key", f.EtcdKey},
	} {
		if only.value != "" {
			bad.add(only.flag, "needs --etcd-endpoints")
		}
	}
}

func (f *etcdFlags) checkEndpoints(bad *faults) {
	schemes := map[string]bool{}
	for _, e := range f.EtcdEndpoints {
		scheme, ok := schemeOf(e)
		if !ok {
			bad.add("etcd-endpoints", "must each be http://host:port, https://host:port or host:port, not %q", redacted(e))
		}
		schemes[scheme] = true
	}
	if len(schemes) > 1 {
		bad.add("etcd-endpoints", "must all be of one kind: http, https, or without either")
	}
	if schemes["http"] && f.tlsFiles() {
		bad.add("etcd-endpoints", "must be https with --etcd-cacert, --etcd-cert or --etcd-key")
	}
}

// schemeOf is how an endpoint is to be spoken to, "" if it does not say. It is not ok if it says more than a host and a
// port, or less.
func schemeOf(endpoint string) (scheme string, ok bool) {
	scheme, address, said := strings.Cut(endpoint, "://")
	if !said {
		scheme, address = "", endpoint
	} else if _, err := url.Parse(endpoint); err != nil || scheme != "http" && scheme != "https" {
		return scheme, false
	}
	return scheme, hostPort(address) == nil && !strings.ContainsAny(address, "@/?#")
}

// redacted keeps a password that someone put into an endpoint out of our messages.
func redacted(endpoint string) string {
	if strings.Contains(endpoint, "@") {
		if u, err := url.Parse(endpoint); err == nil && u.User != nil {
			return u.Redacted()
		}
		return "(one with @)"
	}
	return endpoint
}

func (f *etcdFlags) checkUser(bad *faults) {
	if f.EtcdPassword != "" && f.EtcdPasswordFile != "" {
		bad.add("etcd-password-file", "cannot be used together with --etcd-password")
	}
	secret := f.EtcdPassword != "" || f.EtcdPasswordFile != ""
	if f.EtcdUsername != "" && !secret {
		bad.add("etcd-username", "needs --etcd-password or --etcd-password-file")
	}
	if f.EtcdUsername == "" && secret {
		bad.add("etcd-password", "needs --etcd-username")
	}
	if _, err := f.password(); err != nil {
		bad.add("etcd-password-file", "%v", err)
	}
}

func (f *etcdFlags) password() (string, error) {
	if f.EtcdPasswordFile == "" {
		return f.EtcdPassword, nil
	}
	text, err := os.ReadFile(f.EtcdPasswordFile)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", errors.New("is empty")
	}
	return password, nil
}

func (f *etcdFlags) checkTLS(bad *faults) {
	if f.EtcdCacert != "" {
		if text, err := os.ReadFile(f.EtcdCacert); err != nil {
			bad.add("etcd-cacert", "cannot be read: %v", err)
		} else if !x509.NewCertPool().AppendCertsFromPEM(text) {
			bad.add("etcd-cacert", "holds no certificate: %s", f.EtcdCacert)
		}
	}
	if (f.EtcdCert == "") != (f.EtcdKey == "") {
		bad.add("etcd-cert", "and --etcd-key need each other")
	} else if f.EtcdCert != "" {
		if _, err := tls.LoadX509KeyPair(f.EtcdCert, f.EtcdKey); err != nil {
			bad.add("etcd-cert", "and --etcd-key cannot be used: %v", err)
		}
	}
}

func (f *etcdFlags) tlsFiles() bool { return f.EtcdCacert != "" || f.EtcdCert != "" || f.EtcdKey != "" }

// tls is nil for a cluster without it.
func (f *etcdFlags) tls() (*tls.Config, error) {
	if !f.tlsFiles() {
		if strings.HasPrefix(f.EtcdEndpoints[0], "https://") {
			return &tls.Config{MinVersion: tls.VersionTLS12}, nil
		}
		return nil, nil
	}
	info := transport.TLSInfo{TrustedCAFile: f.EtcdCacert, CertFile: f.EtcdCert, KeyFile: f.EtcdKey}
	return info.ClientConfig() // reads the certificate again for each connection: it may be renewed
}

// stands says whether the embedded etcd has ever kept anything in the data directory.
func (f *etcdFlags) stands() bool {
	_, err := os.Stat(filepath.Join(f.DataDir, "member"))
	return err == nil
}
