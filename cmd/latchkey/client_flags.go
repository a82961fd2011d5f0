package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"os/user"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// Bounds of the clients' settings. The server may have narrower ones, and says so.
const (
	leastTimeout, mostTimeout = time.Second, 10 * time.Minute
	leastTTL, mostTTL         = 2 * time.Second, mostMaxTTL
	mostWait                  = 365 * 24 * time.Hour
	leastGrace, mostGrace     = time.Duration(0), time.Hour
	leastEvery, mostEvery     = 200 * time.Millisecond, time.Hour
	maxNameBytes              = 255
	maxHolderBytes            = 255
)

// serviceFlags say where the service is.
type serviceFlags struct {
	Server  []string `default:"http://127.0.0.1:8080" placeholder:"URL" group:"service" help:"Where latchkey is: http://HOST:PORT or https://HOST:PORT, several separated by commas (default: ${default}). When one does not answer, the next is tried."`
	Header  []string `sep:"none" placeholder:"NAME:VALUE" group:"service" help:"A header for every request, such as Authorization for a proxy on the way. The flag may be repeated. Other users of a machine can read its command lines: prefer the variable for a secret."`
	Timeout duration `default:"10s" placeholder:"DURATION" group:"service" help:"How long the servers may take to answer, all tries together, beyond what they are asked to wait: ${timeout} (default: ${default})."`
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
	for i, h := range f.Header {
		if name, value, found := strings.Cut(h, ":"); !found || !headerName.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") {
			bad.add("header", "must be NAME:VALUE, and the one at place %d is not", i+1) // its value may be secret
		}
	}
	f.Timeout.within(bad, "timeout", leastTimeout, mostTimeout)
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// client is of flags that have been checked.
func (f *serviceFlags) client(log *slog.Logger) (*latchkey.Client, error) {
	header := http.Header{}
	for _, h := range f.Header {
		name, value, _ := strings.Cut(h, ":")
		header.Add(textproto.TrimString(name), textproto.TrimString(value))
	}
	return latchkey.New(latchkey.Config{Servers: f.Server, Header: header, Timeout: f.Timeout.Duration, Logger: log})
}

// claimFlags say what is claimed, and how long to wait for it.
type claimFlags struct {
	Name string `arg:"" help:"What to lock: 1 to 255 bytes of UTF-8 without control characters."`

	TTL      duration          `name:"ttl" default:"30s" placeholder:"DURATION" group:"claim" help:"How long the lock outlives its last renewal: whole seconds from ${ttl} (default: ${default})."`
	Wait     wait              `default:"forever" placeholder:"DURATION" group:"claim" help:"How long to wait in line: whole seconds from ${wait}, or forever (default: ${default})."`
	NoWait   bool              `name:"no-wait" group:"claim" help:"Do not wait, whatever --wait says."`
	Holder   string            `placeholder:"TEXT" group:"claim" help:"Who claims, shown to others: up to 255 bytes (default: user@host)."`
	Metadata map[string]string `placeholder:"KEY=VALUE" group:"claim" help:"Shown to others too: up to 16 pairs, separated by semicolons; the flag may be repeated."`
	Verbose  bool              `short:"v" group:"claim" help:"Say on standard error who holds the lock and what the position is while waiting, and what happens to the lock."`
}

func (f *claimFlags) check(bad *faults) {
	checkName(bad, f.Name)
	f.TTL.seconds(bad, "ttl", leastTTL, mostTTL)
	f.Wait.check(bad)
	if len(f.Holder) > maxHolderBytes || strings.ContainsRune(f.Holder, 0) || !utf8.ValidString(f.Holder) {
		bad.add("holder", "must have at most %d bytes of UTF-8", maxHolderBytes)
	}
}

func checkName(bad *faults, name string) {
	if name == "" || len(name) > maxNameBytes || strings.ContainsFunc(name, unicode.IsControl) {
		bad.arg("NAME", "must have 1 to %d bytes and no control characters, not %q", maxNameBytes, name)
	}
}

// options are those of flags that have been checked.
func (f *claimFlags) options() latchkey.LockOptions {
	o := latchkey.LockOptions{TTL: f.TTL.Duration, Wait: f.Wait.Duration, Holder: f.Holder, Metadata: f.Metadata}
	if f.NoWait {
		o.Wait = 0
	}
	if f.Holder == "" {
		o.Holder = userAtHost()
	}
	return o
}

func userAtHost() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	text := name + "@" + host
	return strings.ToValidUTF8(text[:min(len(text), maxHolderBytes)], "")
}

// logger tells what happens to the lock, if that was asked for.
func (f *claimFlags) logger(to io.Writer) *slog.Logger {
	if !f.Verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// wait is a duration that may be forever.
type wait struct{ duration }

func (w *wait) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		w.Duration = latchkey.Forever
		w.text = "forever"
		return nil
	}
	return w.duration.UnmarshalText(text)
}

func (w *wait) check(bad *faults) {
	if w.text != "forever" && (w.err != nil || w.Duration < 0 || w.Duration > mostWait || w.Duration%time.Second != 0) {
		bad.add("wait", "must be whole seconds from %s, or forever, not %q", span(0, mostWait), w.text)
	}
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

// arg tells a fault of an argument.
func (f *faults) arg(name, format string, args ...any) {
	*f = append(*f, fmt.Errorf("  %s %s", name, fmt.Sprintf(format, args...)))
}
