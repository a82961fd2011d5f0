package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
	"github.com/latchkey/latchkey/store/etcdtest"
)

// cliLimited is a service at which the principal ci has as many claims as it may.
func cliLimited(t *testing.T) (r *running, token []string, id string) {
	t.Helper()
	r, tokens := cliPrincipals(t, map[string]string{"ci": "[lock, read]"}, "--max-claims-per-principal=1")
	said, _ := cliAs(t, r, tokens["ci"], 0, "acquire", "other", "--ttl=10m", "--no-wait")
	id, _, _ = strings.Cut(said, " ")
	return r, tokens["ci"], id
}

const cliAtLimit = `too_many_claims: this principal has as many claims as it may: 1`

// TestCLIAtALimit: who would wait for the lock waits for the limit too, and can hear so; who would not is told at once.
func TestCLIAtALimit(t *testing.T) {
	t.Parallel()
	r, token, id := cliLimited(t)
	t.Run("without a wait", func(t *testing.T) {
		for _, args := range [][]string{{"acquire", "job", "--no-wait"}, cliRun("job", []string{"--no-wait"}, "echo", "ran")} {
			began := time.Now()
			stdout, stderr := cliAs(t, r, append(token, "LATCHKEY_TIMEOUT=1m"), exitNotAcquired, args...)
			if took := time.Since(began); took > bound {
				t.Errorf("%s tries for %v", args[0], took)
			}
			if want := "latchkey: job: not acquired: the service says " + cliAtLimit + "\n"; stdout != "" || stderr != want {
				t.Errorf("%s says %q %q, want %q", args[0], stdout, stderr, want)
			}
		}
	})
	t.Run("with one", func(t *testing.T) {
		p := cliStart(t, append(cliServer(r.url), token...), cliRun("job", []string{"-v"}, "echo", "ran")...)
		p.stderr.await(t, `latchkey: job: the service says `+cliAtLimit+`; trying on\n`)
		r.log.await(t, `(?s)(operation=createLock[^\n]* code=too_many_claims.*){6}`) // tried again, and not told again
		cliAs(t, r, token, 0, "release", id)
		p.want(0)
		want := `^latchkey: job: the service says [^\n]*; trying on\nlatchkey: job: going on\nlatchkey: job: held, with token \d+\n$`
		if !regexp.MustCompile(want).MatchString(p.stderr.String()) {
			t.Errorf("it says\n%s", p.stderr)
		}
	})
}

// TestCLITriesOnWhereAMomentHelps: at a rate, and where a service is not ready, even without a wait.
func TestCLITriesOnWhereAMomentHelps(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{"too_many_requests": http.StatusTooManyRequests, "unavailable": http.StatusServiceUnavailable} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			var claims atomic.Int64
			service := cliPlay(t, cliHolding(30, map[string]http.HandlerFunc{http.MethodPost: func(w http.ResponseWriter, req *http.Request) {
				if claims.Add(1) <= 2 {
					cliRefusing(status, code, nil)(w, req)
					return
				}
				cliHolding(30, nil)(w, req)
			}}))
			p := cliStart(t, cliServer(service.URL), cliRun("job", []string{"--no-wait", "-v"}, "true")...)
			p.want(0)
			if want := "latchkey: job: the service says " + code + ": the detail; trying on\nlatchkey: job: going on\nlatchkey: job: held, with token 7\n"; p.stderr.String() != want {
				t.Errorf("it says %q, want %q", p.stderr, want)
			}
		})
	}
}

// TestCLIInLineDuringAnOutage: of two servers that are both gone, and of one that comes back.
func TestCLIInLineDuringAnOutage(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	acquire(t, r, "job")
	line := etcdtest.NewProxy(t, strings.TrimPrefix(r.url, "http://"))
	for name, tt := range map[string]struct {
		args  []string
		fail  func()
		cause string
	}{
		"run, refused":    {cliRun("job", []string{"-v", "--timeout=2s"}, "echo", "ran"), line.Cut, "(connection reset by peer|EOF)"},
		"acquire, silent": {[]string{"acquire", "job", "-v", "--timeout=2s"}, func() { line.Blackhole() }, "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			defer line.Heal()
			p := cliStart(t, cliServer("http://"+line.Addr(), "http://"+line.Addr()+"/"), tt.args...)
			p.stderr.await(t, `job: waiting, 1 ahead`)
			tt.fail()
			p.stderr.await(t, `\nlatchkey: job: no server answers \(`+tt.cause+`\); trying on\n`)
			line.Heal()
			p.stderr.await(t, `\nlatchkey: job: going on\n`)
			p.signal(syscall.SIGTERM)
			p.want(exitSignal + int(syscall.SIGTERM))
			awaitQueued(t, r, 0)
		})
	}
}

// TestCLITroubleIsToldOnceInAWhile, though a wait is tried on each second.
func TestCLITroubleIsToldOnceInAWhile(t *testing.T) {
	const full, busy = "the service says too_many_claims: full; trying on\n", "the service says overloaded: busy; trying on\n"
	refusal := func(code latchkey.Code, detail string) error {
		return &latchkey.Error{Problem: latchkey.Problem{Code: code, Detail: detail, Status: http.StatusTooManyRequests}}
	}
	limit, load := refusal(latchkey.ErrTooManyClaims, "full"), refusal(latchkey.ErrOverloaded, "busy")
	for name, tt := range map[string]struct {
		hears []error // one each second
		says  string
	}{
		"nothing wrong":       {[]error{nil, nil}, ""},
		"the same":            {[]error{limit, limit, limit, limit, limit, limit, limit, limit, limit, limit, limit, limit}, full},
		"other at once":       {[]error{limit, load, limit, load, nil}, full + "going on\n"},
		"other, and it lasts": {[]error{limit, load, load, load, load, load, load, load, load, load, load, load}, full + busy},
		"that comes and goes": {[]error{limit, nil, limit, nil, limit, nil}, full + "going on\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said strings.Builder
				teller := troubleTeller{to: &said, name: "job"}
				for _, err := range tt.hears {
					teller.hear(err)
					time.Sleep(time.Second)
				}
				if got := strings.ReplaceAll(said.String(), "latchkey: job: ", ""); got != tt.says {
					t.Errorf("it says %q, want %q", got, tt.says)
				}
			})
		})
	}
}

func TestCLITroubleHasNoPortsInIt(t *testing.T) {
	broken := &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: 40001}, Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for want, err := range map[string]error{
		"no server answers (connection reset by peer)":                               broken,
		"no server answers (EOF)":                                                    io.EOF,
		"no server answers (status 502, and no problem document of latchkey's)":      &latchkey.Error{Problem: latchkey.Problem{Status: 502}},
		"the service says unavailable: etcd is away":                                 &latchkey.UnreachableError{Last: &latchkey.Error{Problem: latchkey.Problem{Code: "unavailable", Detail: "etcd is away"}}},
		"no server answers (tls: failed to verify certificate: x509: of a stranger)": errors.New("tls: failed to verify certificate: x509: of a stranger"),
	} {
		if got := troubleOf(err); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
}
