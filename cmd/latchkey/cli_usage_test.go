package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func TestCLIMisuseIsToldWithWhereToReadOn(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no such command":             {[]string{"runn", "a"}, exitUsage, `there is no command "runn", but serve, run, acquire, `},
		"no such command, and a flag": {[]string{"runn", "--ttl=1s"}, exitUsage, `there is no command "runn"`},
		"no such command below":       {[]string{"epoch", "raise"}, exitUsage, `there is no command "raise", but show, bump; see latchkey epoch --help`},
		"no command":                  {nil, exitUsage, "a command is missing: serve, run, "},
		"no command below":            {[]string{"completion"}, exitUsage, "a command is missing: bash, zsh, fish; see latchkey completion --help"},
		"a duration's value":          {[]string{"run", "a", "--wait"}, exitUsage, "--wait needs a value, such as 5m; see latchkey run --help"},
		"a value before a flag":       {[]string{"acquire", "--ttl", "--no-wait", "a"}, exitUsage, "--ttl needs a value, such as 5m; see latchkey acquire --help"},
		"another value":               {[]string{"list", "--prefix"}, exitUsage, "--prefix needs a value: --prefix=TEXT; see latchkey list --help"},
		"a flag of no command":        {[]string{"list", "--wach"}, exitUsage, `unknown flag --wach, did you mean "--watch"?; see latchkey list --help`},
		"a flag before its command":   {[]string{"--no-wait", "run", "a"}, exitUsage, "unknown flag --no-wait: the flags of a command come after it, as in latchkey run --no-wait; see latchkey --help"},
		"one with a value":            {[]string{"--max-wait=5s", "serve"}, exitUsage, "come after it, as in latchkey serve --max-wait;"},
		"a short one":                 {[]string{"-v", "run", "a"}, exitUsage, "unknown flag -v: the flags of a command come after it, as in latchkey run -v;"},
		"one before its subcommand":   {[]string{"epoch", "--etcd-prefix=/a/", "show"}, exitUsage, "come after it, as in latchkey epoch show --etcd-prefix;"},
		"a flag of none":              {[]string{"--nowhere", "run", "a"}, exitUsage, "unknown flag --nowhere; see latchkey --help"},
		"an argument":                 {[]string{"renew"}, exitUsage, `"<id>"; see latchkey renew --help`},
		"an argument too many":        {[]string{"version", "x"}, exitUsage, "unexpected argument x; see latchkey version --help"},
		"a value of the service's":    {[]string{"serve", "--max-wait"}, exitBadStart, "--max-wait needs a value, such as 5m; see latchkey serve --help"},
		"a setting of the service's":  {[]string{"serve", "--max-wait=1h"}, exitBadStart, "--max-wait"},
		"an argument of epoch's":      {[]string{"epoch", "show", "x"}, exitBadStart, "see latchkey epoch show --help"},
		"a setting of a client's":     {[]string{"run", "a", "--ttl=0", "--", "true"}, exitUsage, "--ttl"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := call(tt.args...)
			if err == nil || exitCode(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("ended with code %d and %v, want %d and %q", exitCode(err), err, tt.code, tt.want)
			}
			for _, strange := range []string{"EOL", "guard", "value value"} {
				if strings.Contains(err.Error(), strange) {
					t.Errorf("%q speaks of %q", err, strange)
				}
			}
		})
	}
}

func TestCLIVersionIsToldEitherWay(t *testing.T) {
	want, err := call("version")
	if err != nil || want == "" {
		t.Fatalf("version says %q, and ends with %v", want, err)
	}
	if got, err := call("--version"); err != nil || got != want {
		t.Errorf("--version says %q, and ends with %v, want %q", got, err, want)
	}
}

func TestCLINumbersAloneAreSeconds(t *testing.T) {
	t.Setenv("LATCHKEY_TIMEOUT", "7")
	chosen, err := parse([]string{"run", "a", "--ttl", "30", "--wait=90", "--grace", "1", "--", "true"}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var bad faults
	run := chosen.(*runCommand)
	run.check(&bad)
	if err := bad.join(); err != nil {
		t.Fatal(err)
	}
	got := []time.Duration{run.TTL.Duration, run.Wait.Duration, run.Grace.Duration, run.Timeout.Duration}
	for i, want := range []time.Duration{30 * time.Second, 90 * time.Second, time.Second, 7 * time.Second} {
		if got[i] != want {
			t.Errorf("the durations are %v, want %v at place %d", got, want, i)
		}
	}
	if said, err := call("run", "--help"); err != nil || !strings.Contains(strings.Join(strings.Fields(said), " "), "a number alone counts seconds") {
		t.Errorf("run --help does not tell how to write durations (%v)", err)
	}
	for _, arg := range []string{"--ttl=1", "--ttl=1.5", "--ttl=-30", "--ttl=30 ", "--ttl=1e3", "--ttl=", "--wait=31536001", "--timeout=0"} {
		_, typed, _ := strings.Cut(arg, "=")
		if _, err := call("acquire", "a", arg); exitCode(err) != exitUsage || !strings.Contains(err.Error(), fmt.Sprintf("not %q", typed)) {
			t.Errorf("%q: ended with %v, want bad usage, and what was typed", arg, err)
		}
	}
}
