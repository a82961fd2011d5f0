package main

import (
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// FuzzDuration reads any text as a setting in whole seconds: what is taken is what time reads, within the bounds, and its
// own short form means the same; what is refused is told by flag and variable, on one line.
func FuzzDuration(f *testing.F) {
	for _, text := range []string{"15s", "1h", "1h0m0s", "90m", "1500ms", "30", "", "-1s", "0", "+5s", "1e3s", "9223372036854775807ns", "9999999h", ".5m", "5m\n", "1h60m", "\xff", "5\u00b5s"} {
		f.Add(text)
	}
	const least, most = 5 * time.Second, 24 * time.Hour
	f.Fuzz(func(t *testing.T, text string) {
		var d duration
		if err := d.UnmarshalText([]byte(text)); err != nil {
			t.Fatalf("%q: %v, before all settings are judged together", text, err)
		}
		var bad, loose faults
		d.seconds(&bad, "some-time", least, most)
		d.within(&loose, "some-time", least, most)
		want, err := time.ParseDuration(text)
		fits := err == nil && want >= least && want <= most
		if (len(loose) == 0) != fits || (len(bad) == 0) != (fits && want%time.Second == 0) {
			t.Fatalf("%q: told %v and %v", text, bad, loose)
		}
		checkTold(t, bad, "some-time")
		checkTold(t, loose, "some-time")
		if err != nil {
			return
		}
		if d.Duration != want {
			t.Errorf("%q is taken for %v", text, d.Duration)
		}
		if again, err := time.ParseDuration(short(want)); err != nil || again != want {
			t.Errorf("%v is shown as %q", want, short(want))
		}
	})
}

// checkTold asks that each fault is one line that begins with a flag and its variable.
func checkTold(t *testing.T, bad faults, flags ...string) {
	t.Helper()
	for i, fault := range bad {
		if i >= len(flags) {
			t.Fatalf("told of more than %v: %v", flags, bad)
		}
		head := "  --" + flags[i] + " (LATCHKEY_" + strings.ToUpper(strings.ReplaceAll(flags[i], "-", "_")) + ") "
		if !strings.HasPrefix(fault.Error(), head) || strings.ContainsAny(fault.Error(), "\r\n\x1b") {
			t.Errorf("told %q, want it to begin %q and to be one line", fault, head)
		}
	}
}

func FuzzNumber(f *testing.F) {
	for _, text := range []string{"1", "1000000", "1000001", "0", "-1", "many", "", "1.0", "0x10", "9223372036854775808", "1_000", " 1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var n number
		if err := n.UnmarshalText([]byte(text)); err != nil {
			t.Fatalf("%q: %v, before all settings are judged together", text, err)
		}
		var bad faults
		n.within(&bad, "some-number", 1, mostWaiters)
		checkTold(t, bad, "some-number")
		want, err := strconv.ParseInt(text, 10, 64)
		if fits := err == nil && want >= 1 && want <= mostWaiters; (len(bad) == 0) != fits || fits && int64(n.int) != want {
			t.Errorf("%q is taken for %d: %v", text, n.int, bad)
		}
	})
}

// FuzzAddress reads any text as an address to listen on: what is taken, net can resolve the port of.
func FuzzAddress(f *testing.F) {
	for _, text := range []string{"127.0.0.1:8080", ":0", "[::1]:80", "::1:80", "localhost", "a:65536", "a:-1", "a:http", "a:", "a:1:2", "[::1%lo]:80", "a:00080", "a:+80"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if hostPort(text) != nil {
			return
		}
		_, port, err := net.SplitHostPort(text)
		if err != nil {
			t.Fatalf("%q is taken, and is no host:port: %v", text, err)
		}
		if at, err := net.ResolveTCPAddr("tcp", ":"+port); err != nil || at.Port > maxPort || at.Port < 0 {
			t.Errorf("%q is taken, and has no port to listen on: %v, %v", text, at, err)
		}
		healthcheck := healthcheckCommand{Listen: text}
		target, err := healthcheck.target()
		if err != nil {
			t.Fatalf("%q is taken, and the health check has nowhere to ask: %v", text, err)
		}
		if !strings.HasPrefix(target, "http://") || !strings.HasSuffix(target, "/readyz") {
			t.Errorf("%q is asked for its health at %q", text, target)
		}
	})
}

// FuzzEndpoints reads any text as an endpoint of etcd's, with a password that somebody put into it: that is never told.
func FuzzEndpoints(f *testing.F) {
	for _, text := range []string{"http://etcd:2379", "https://etcd:2379", "etcd:2379", "ftp://etcd:1", "http://etcd:2379/v3", "http://etcd", "", "://", "http://u:%s@etcd:2379", "u:%s@etcd:2379", "https://%s@etcd", "http://u:%s@[::1", "http://%s@etcd:1"} {
		f.Add(text)
	}
	const secret = "Tr0ub4dor"
	f.Fuzz(func(t *testing.T, text string) {
		hidden := strings.Contains(text, ":%s@")
		text = strings.Replace(text, ":%s@", ":"+secret+"@", 1)
		flags := etcdFlags{EtcdEndpoints: []string{text}}
		var bad faults
		flags.checkEndpoints(&bad)
		checkTold(t, bad, "etcd-endpoints")
		for _, fault := range bad {
			if hidden && strings.Contains(fault.Error(), secret) {
				t.Errorf("%q: told %v", text, fault)
			}
		}
		if len(bad) > 0 {
			return
		}
		scheme, rest, is := strings.Cut(text, "://")
		if !is {
			scheme, rest = "http", text
		}
		_, port, err := net.SplitHostPort(rest)
		if err != nil || port == "" || scheme != "http" && scheme != "https" || strings.ContainsAny(rest, "/@?#") {
			t.Fatalf("%q is taken for an endpoint: %v", text, err)
		}
		if u, err := url.Parse(text); is && (err != nil || u.Host != rest) {
			t.Errorf("%q is taken for an endpoint: %v", text, err)
		}
	})
}

// FuzzSetting gives one flag of serve any value: it is taken, or refused by that flag's name alone, on one line.
func FuzzSetting(f *testing.F) {
	flags := []string{
		"listen", "max-wait", "drain-timeout", "max-connections", "max-ttl", "waiting-ttl", "request-timeout", "max-waiters", "max-queue", "etcd-prefix",
		"log-format", "log-level", "data-dir",
	}
	for i, value := range []string{"127.0.0.1:0", "55s", "8s", "1", "24h", "15s", "5s", "20000", "5000", "/latchkey/", "text", "info", "./x", "", "\x00", "\xff/", "a\nb", "--help", "/\u0085/", "1e9s"} {
		f.Add(uint8(i), value)
		f.Add(uint8(i+1), value)
	}
	f.Fuzz(func(t *testing.T, which uint8, value string) {
		flag := flags[int(which)%len(flags)]
		chosen, err := parse([]string{"serve", "--" + flag + "=" + value}, io.Discard, io.Discard)
		if err != nil {
			t.Fatalf("--%s=%q: %v, before all settings are judged together", flag, value, err)
		}
		var bad faults
		chosen.check(&bad)
		checkTold(t, bad, flag)
		for _, fault := range bad {
			shown := strings.Trim(strconv.Quote(string([]rune(value))), `"`)
			if !strings.Contains(fault.Error(), shown) && flag != "data-dir" {
				t.Errorf("told %v, which does not say what was given: %q", fault, value)
			}
		}
	})
}
