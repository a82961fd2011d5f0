package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"
)

type healthcheckCommand struct {
	URL         string   `name:"url" placeholder:"URL" help:"Where latchkey is, such as http://127.0.0.1:8080 (default: this machine, at the port of --listen)."`
	Listen      string   `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"What the server was told to listen on (default: ${default}); read if there is no --url."`
	AdminListen string   `placeholder:"HOST:PORT" help:"The server's listener for administration, if it has one: asked in place of --listen."`
	TLSCert     string   `name:"tls-cert" placeholder:"FILE" help:"The server's certificate, if it has one: it is asked over HTTPS, and must show this one. A server with --tls-client-required can be asked at its --admin-listen only."`
	Live        bool     `help:"Ask only whether it is alive (/healthz), and not whether it can serve (/readyz)."`
	Timeout     duration `default:"3s" placeholder:"DURATION" help:"How long the answer may take: 100ms to 1m (default: ${default})."`
}

func (c *healthcheckCommand) check(bad *faults) {
	if c.URL != "" {
		u, err := url.Parse(c.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			bad.add("url", "must begin with http:// or https:// and name a host")
		}
	} else if err := hostPort(c.where()); err != nil {
		bad.add("listen", "%v, not %q", err, c.where())
	}
	c.Timeout.within(bad, "timeout", 100*time.Millisecond, time.Minute)
}

func (c *healthcheckCommand) run(s surroundings) error {
	ctx, cancel := context.WithTimeout(s.stop, c.Timeout.Duration)
	defer cancel()
	target, err := c.target()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	// straight there: no proxy of the environment, no redirect, no connection kept
	line := &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if c.URL == "" && c.AdminListen == "" && c.TLSCert != "" {
		if line.TLSClientConfig, err = pinned(c.TLSCert); err != nil {
			return err
		}
	}
	var wanted atomic.Bool
	line.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		wanted.Store(true)
		return &tls.Certificate{}, nil // none
	}
	client := &http.Client{Transport: line, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil && wanted.Load() && ctx.Err() == nil {
		return fmt.Errorf("%w: the server wants certificates of its clients, and there is none here; if it has --tls-client-required, give it --admin-listen, and the same here", err)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealthBody))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", target, resp.Status, body)
	}
	_, err = fmt.Fprintf(s.stdout, "%s\n", bytes.TrimSpace(body))
	return err
}

const maxHealthBody = 4 << 10

func (c *healthcheckCommand) target() (string, error) {
	path := "/readyz"
	if c.Live {
		path = "/healthz"
	}
	if c.URL != "" {
		return url.JoinPath(c.URL, path)
	}
	host, port, err := net.SplitHostPort(c.where())
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	scheme := "http://"
	if c.AdminListen == "" && c.TLSCert != "" {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port) + path, nil
}

// where is the listener that is asked.
func (c *healthcheckCommand) where() string {
	if c.AdminListen != "" {
		return c.AdminListen
	}
	return c.Listen
}

// pinned trusts the certificate in a file and no other: the name in it is not the one by which this machine is reached here.
func pinned(file string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text)
	for block != nil && block.Type != "CERTIFICATE" { // the key may be in the same file
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // in place of it:
		VerifyConnection: func(state tls.ConnectionState) error {
			if !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return errors.New("it shows another certificate than " + file + " has")
			}
			return nil
		},
	}, nil
}
