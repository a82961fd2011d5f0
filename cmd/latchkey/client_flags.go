package main

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// Bounds of the clients' settings. The server may have narrower ones, and says so.
const (
	leastTimeout, mostTimeout = time.Second, 10 * time.Minute
	leastTTL, mostTTL         = 2 * time.Second, mostMaxTTL
	mostWait                  = 365 * 24 * time.Hour
	leastGrace, mostGrace     = time.Duration(0), time.Hour
	leastEvery, mostEvery     = 200 * time.Millisecond, time.Hour
)

// serviceFlags say where the service is.
type serviceFlags struct {
	Server  []string `default:"http://127.0.0.1:8080" placeholder:"URL" group:"service" help:"Where latchkey is: http://HOST:PORT or https://HOST:PORT, several separated by commas (default: ${default}). When one does not answer, the next is tried."`
	Header  []string `sep:"none" placeholder:"NAME:VALUE" group:"service" help:"A header for every request, such as one that a proxy on the way wants. The flag may be repeated. Other users of a machine can read its command lines: prefer the variable for a secret."`
	Timeout period   `default:"10s" placeholder:"DURATION" group:"service" help:"How long the servers may take to answer, all tries together, beyond what they are asked to wait: ${timeout} (default: ${default})."`

	credentialFlags `embed:""`
}

func (f *serviceFlags) ofClient() {}

func (f *serviceFlags) check(bad *faults) {
	for _, s := range f.Server {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			bad.add("server", "must each begin with http:// or https:// and name a host, not %q", redacted(s))
		}
	}
	if len(f.Server) == 0 {
		bad.add("server", "must name a server")
	}
	f.credentialFlags.check(bad)
	for i, h := range f.Header {
		if name, value, found := strings.Cut(h, ":"); !found || !headerName.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") {
			bad.add("header", "must be NAME:VALUE, and the one at place %d is not", i+1) // its value may be secret
		} else if f.tokens() != nil && strings.EqualFold(textproto.TrimString(name), "Authorization") {
			bad.add("header", "must not be Authorization where there is a token too")
		}
	}
	f.Timeout.within(bad, "timeout", leastTimeout, mostTimeout)
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// client is of flags that have been checked.
func (f *serviceFlags) client(logger *slog.Logger) (*latchkey.Client, error) {
	log.SetOutput(io.Discard) // package net/http tells there of what a garbled server sent, even its bytes
	header := http.Header{}
	for _, h := range f.Header {
		name, value, _ := strings.Cut(h, ":")
		header.Add(textproto.TrimString(name), textproto.TrimString(value))
	}
	secure, err := f.tls()
	if err != nil {
		return nil, err
	}
	return latchkey.New(latchkey.Config{
		Servers: f.Server, Header: header, TokenSource: f.tokens(), TLS: secure, Timeout: f.Timeout.Duration, Logger: logger,
	})
}

// claimID is what names one claim.
type claimID struct {
	ID string `arg:"" env:"LATCHKEY_LOCK_ID" help:"The id of the lock, as acquire printed it."`
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func (c *claimID) check(bad *faults) {
	if !idPattern.MatchString(c.ID) {
		bad.arg("ID", "must be a lock's id: letters, digits, - and _") // not shown: it may be one, with something before it
	}
}

// leastID is the length of the shortest id, that of a lease. No flag is as long.
const leastID = 22

// dashedIDLast puts an id that begins with -, as one in 64 does, where it is not taken for flags. Nor is --version one, alone: it is
// what people type at a program that they do not know, and no setting.
func dashedIDLast(args []string) []string {
	if slices.Equal(args, []string{"--version"}) {
		return []string{"version"}
	}
	if len(args) == 0 || !slices.Contains([]string{"renew", "release", "get"}, args[0]) {
		return args
	}
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if strings.HasPrefix(arg, "-") && len(arg) >= leastID && idPattern.MatchString(arg) {
			return slices.Concat(args[:i], args[i+1:], []string{"--", arg})
		}
	}
	return args
}

// arg tells a fault of an argument.
func (f *faults) arg(name, format string, args ...any) {
	*f = append(*f, fmt.Errorf("  %s %s", name, fmt.Sprintf(format, args...)))
}
