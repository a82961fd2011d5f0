package main

import (
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// TestCLIRunSaysHowItLostTheLock: what it says is one line that names the lock once, and says no more than is known.
func TestCLIRunSaysHowItLostTheLock(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		renewal http.HandlerFunc
		says    string
	}{
		"gone":                       {cliRefusing(http.StatusNotFound, "lease_not_found", nil), `the lock is lost: lease_not_found \(404\): the detail`},
		"broken":                     {cliRefusing(http.StatusGone, "lock_broken", map[string]any{"reason": "host web-3 is gone"}), `the lock was broken by an administrator: host web-3 is gone`},
		"held for too long":          {cliRefusing(http.StatusConflict, "max_hold_reached", nil), `the lock was held for as long as the service allows, and is renewed no more`},
		"refused":                    {cliRefusing(http.StatusUnauthorized, "unauthorized", nil), `the lock may be lost: it could not be renewed in time: unauthorized \(401\): the detail`},
		"not for it any more":        {cliRefusing(http.StatusForbidden, "forbidden", nil), `the lock may be lost: it could not be renewed in time: forbidden \(403\): the detail`},
		"without an answer, for now": {cliRefusing(http.StatusServiceUnavailable, "unavailable", nil), `the lock may be lost: it could not be renewed in time: unavailable \(503\): the detail`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := cliPlay(t, cliHolding(cliTTL, map[string]http.HandlerFunc{http.MethodPut: tt.renewal}))
			p := cliStart(t, cliServer(service.URL), cliRun("job", []string{"--ttl=3"}, "sh", "-c", "echo begun $$; exec sleep 60")...)
			job := p.group()
			p.want(exitLost)
			if want := `^latchkey: job: ` + tt.says + `; the command was ended\n$`; !regexp.MustCompile(want).MatchString(p.stderr.String()) {
				t.Errorf("it says %q, want %q", p.stderr, want)
			}
			if cliAlive(job) {
				t.Error("the command lives on")
			}
		})
	}
}

// TestCLIRunIsToldOfTheLossAtItsRelease: the command ended by itself, under a lock that it had no more.
func TestCLIRunIsToldOfTheLossAtItsRelease(t *testing.T) {
	t.Parallel()
	broken := cliRefusing(http.StatusGone, "lock_broken", map[string]any{"reason": "maintenance"})
	service := cliPlay(t, cliHolding(30, map[string]http.HandlerFunc{http.MethodDelete: broken}))
	p := cliStart(t, cliServer(service.URL), cliRun("job", nil, "true")...)
	p.want(exitLost)
	if want := "latchkey: job: the lock was broken by an administrator: maintenance; the command had not ended by then\n"; p.stderr.String() != want {
		t.Errorf("it says %q, want %q", p.stderr, want)
	}
}

// TestCLIRunWhosePlaceWasBroken: it does not queue again.
func TestCLIRunWhosePlaceWasBroken(t *testing.T) {
	t.Parallel()
	broken := cliRefusing(http.StatusGone, "lock_broken", map[string]any{"reason": "maintenance"})
	service := cliPlay(t, cliHolding(30, map[string]http.HandlerFunc{http.MethodPost: broken}))
	p := cliStart(t, cliServer(service.URL), cliRun("job", nil, "echo", "ran")...)
	p.want(exitLost)
	if said := p.stdout.String() + p.stderr.String(); said != "latchkey: lock_broken (410): the detail: maintenance\n" {
		t.Errorf("it says %q", said)
	}
}

// TestCLIRunSpeaksInOneStyle: whoever asks it to be talkative reads lines of one kind.
func TestCLIRunSpeaksInOneStyle(t *testing.T) {
	t.Parallel()
	var renewals atomic.Int64
	service := cliPlay(t, cliHolding(cliTTL, map[string]http.HandlerFunc{http.MethodPut: func(w http.ResponseWriter, req *http.Request) {
		renewals.Add(1)
		cliRefusing(http.StatusServiceUnavailable, "unavailable", nil)(w, req)
	}}))
	p := cliStart(t, cliServer(service.URL), cliRun("job", []string{"--ttl=3", "--verbose"}, "sleep", "60")...)
	p.want(exitLost)
	said := p.stderr.String()
	if !regexp.MustCompile(`(?m)^latchkey: job: a renewal failed, [0-9.]+m?s left: unavailable \(503\): the detail$`).MatchString(said) {
		t.Errorf("after %d renewals that failed it says\n%s", renewals.Load(), said)
	}
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "latchkey: job: ") || strings.Count(line, "job") > 1 || strings.Contains(line, "level=") {
			t.Errorf("it says %q among other lines", line)
		}
	}
}
