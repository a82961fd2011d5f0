package main

import (
	"io"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

const (
	maxNameBytes   = 255
	maxHolderBytes = 255
	maxPairs       = 16
	maxPairsBytes  = 2048
)

// claimFlags say what is claimed, and how long to wait for it.
type claimFlags struct {
	Name string `arg:"" help:"What to lock: 1 to 255 bytes of UTF-8 without control characters."`

	TTL      period   `name:"ttl" default:"30s" placeholder:"DURATION" group:"claim" help:"How long the lock outlives its last renewal: whole seconds from ${ttl} (default: ${default})."`
	Wait     wait     `default:"forever" placeholder:"DURATION" group:"claim" help:"How long to wait in line: whole seconds from ${wait}, or forever (default: ${default}). It lasts through outages, but for one at the very start, which --timeout bounds."`
	NoWait   bool     `name:"no-wait" group:"claim" help:"Do not wait, whatever --wait says."`
	Holder   string   `placeholder:"TEXT" group:"claim" help:"Who claims, shown to others: up to 255 bytes (default: user@host)."`
	Metadata []string `sep:";" placeholder:"KEY=VALUE" group:"claim" help:"Shown to others too: up to 16 pairs, separated by semicolons, 2048 bytes in all; the flag may be repeated."`
	Verbose  bool     `short:"v" group:"claim" help:"Say on standard error who holds the lock and what the position is while waiting, what keeps the wait from getting on, and what happens to the lock."`
}

func (f *claimFlags) check(bad *faults) {
	checkName(bad, f.Name)
	f.TTL.seconds(bad, "ttl", leastTTL, mostTTL)
	f.Wait.check(bad)
	if len(f.Holder) > maxHolderBytes || strings.ContainsRune(f.Holder, 0) || !utf8.ValidString(f.Holder) {
		bad.add("holder", "must have at most %d bytes of UTF-8 without NUL", maxHolderBytes)
	}
	f.checkMetadata(bad)
}

func (f *claimFlags) checkMetadata(bad *faults) {
	bytes := 0
	for _, pair := range f.Metadata {
		if !strings.Contains(pair, "=") || strings.ContainsRune(pair, 0) || !utf8.ValidString(pair) {
			bad.add("metadata", "must be KEY=VALUE in UTF-8 without NUL, not %q", pair)
		}
		bytes += len(pair) - len("=")
	}
	if len(f.Metadata) > maxPairs || bytes > maxPairsBytes || len(f.metadata()) < len(f.Metadata) {
		bad.add("metadata", "must be at most %d pairs with different keys, and %d bytes", maxPairs, maxPairsBytes)
	}
}

func (f *claimFlags) metadata() map[string]string {
	pairs := map[string]string{}
	for _, pair := range f.Metadata {
		key, value, _ := strings.Cut(pair, "=")
		pairs[key] = value
	}
	return pairs
}

func checkName(bad *faults, name string) {
	if name == "" || len(name) > maxNameBytes || strings.ContainsFunc(name, unicode.IsControl) {
		bad.arg("NAME", "must have 1 to %d bytes and no control characters, not %q", maxNameBytes, name)
	}
}

// options are those of flags that have been checked.
func (f *claimFlags) options() latchkey.LockOptions {
	o := latchkey.LockOptions{TTL: f.TTL.Duration, Wait: f.Wait.Duration, Holder: f.Holder, Metadata: f.metadata()}
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
	return slog.New(teller{to: to})
}

// outageHelp is told by the commands that wait in line.
const outageHelp = "A service that answers nothing at first is given up after --timeout, whatever --wait says, so that a wrong address hangs no job for " +
	"ever. An outage later, while waiting in line, is waited out for as long as the lock is.\n\n"

// wait is a duration that may be forever.
type wait struct{ period }

func (w *wait) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		w.Duration = latchkey.Forever
		w.text = "forever"
		return nil
	}
	return w.period.UnmarshalText(text)
}

func (w *wait) check(bad *faults) {
	if w.text != "forever" && (w.err != nil || w.Duration < 0 || w.Duration > mostWait || w.Duration%time.Second != 0) {
		bad.add("wait", "must be whole seconds from %s, or forever, not %q", span(0, mostWait), w.text)
	}
}
