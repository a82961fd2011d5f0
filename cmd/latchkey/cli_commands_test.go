package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// cliDo runs a command to its end.
func cliDo(t *testing.T, r *running, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	p := cliStart(t, cliServer(r.url), args...)
	p.want(code)
	return p.stdout.String(), p.stderr.String()
}

func TestCLIPlainCalls(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	said, _ := cliDo(t, r, 0, "acquire", "plain", "--ttl=5m", "--holder=alice")
	var id string
	var token int64
	if _, err := fmt.Sscanf(said, "%s %d\n", &id, &token); err != nil {
		t.Fatalf("acquire prints %q: %v", said, err)
	}
	if held := listed(t, r, "held"); len(held) != 1 || held[0]["id"] != id || held[0]["fencing_token"] != float64(token) || held[0]["ttl_seconds"] != 300.0 {
		t.Fatalf("acquire prints %q, held is %v", said, held)
	}

	t.Run("get", func(t *testing.T) {
		said, _ := cliDo(t, r, 0, "get", id)
		if want := fmt.Sprintf("NAME   STATE  POSITION  TOKEN             TTL  HOLDER\nplain  held   0         %d  5m   alice\n", token); said != want {
			t.Errorf("prints\n%s, want\n%s", said, want)
		}
		said, _ = cliDo(t, r, 0, "get", "--json", id)
		var claim latchkey.Claim
		if err := json.Unmarshal([]byte(said), &claim); err != nil || claim.ID != id || claim.FencingToken != token {
			t.Errorf("prints %q, %v", said, err)
		}
	})
	t.Run("the id in the environment", func(t *testing.T) {
		cliStart(t, append(cliServer(r.url), "LATCHKEY_LOCK_ID="+id), "get").want(0)
	})
	t.Run("renew", func(t *testing.T) {
		before := strings.Count(r.log.String(), "operation=renewLease")
		if said, _ := cliDo(t, r, 0, "renew", id); said != "" {
			t.Errorf("prints %q", said)
		}
		if said, _ := cliDo(t, r, 0, "renew", id, "--json"); !strings.Contains(said, fmt.Sprintf(`"fencing_token":%d`, token)) {
			t.Errorf("prints %q", said)
		}
		r.log.await(t, fmt.Sprintf(`(?s)(operation=renewLease [^\n]* status=200.*){%d}`, before+2))
	})
	t.Run("acquire what is held", func(t *testing.T) {
		if _, said := cliDo(t, r, exitNotAcquired, "acquire", "plain", "--no-wait"); !strings.Contains(said, `held by "alice"`) {
			t.Errorf("says %q", said)
		}
	})
	t.Run("acquire in line, with a key", func(t *testing.T) {
		const key = "0123456789abcdef"
		p := cliStart(t, cliServer(r.url), "acquire", "plain", "--key="+key, "--json")
		awaitQueued(t, r, 1)
		queued := listed(t, r, "queued")[0]["id"].(string)
		if said, _ := cliDo(t, r, exitNotAcquired, "get", queued); !strings.Contains(said, "queued  1") {
			t.Errorf("get of a queued claim prints %q", said)
		}
		cliDo(t, r, exitNotAcquired, "renew", queued)
		cliDo(t, r, 0, "release", id)
		p.want(0)
		var lock struct {
			ID    string `json:"id"`
			Token int64  `json:"fencing_token"`
			TTL   int    `json:"ttl_seconds"`
		}
		if err := json.Unmarshal([]byte(p.stdout.String()), &lock); err != nil || lock.ID != queued || lock.Token <= token || lock.TTL != 30 {
			t.Errorf("prints %q, %v", p.stdout, err)
		}
		again, _ := cliDo(t, r, 0, "acquire", "plain", "--key="+key)
		if again != fmt.Sprintf("%s %d\n", lock.ID, lock.Token) {
			t.Errorf("the same key gets %q, and got %s %d before", again, lock.ID, lock.Token)
		}
		cliDo(t, r, 0, "release", lock.ID)
	})
	t.Run("who claims", func(t *testing.T) {
		cliDo(t, r, 0, "acquire", "who", "--holder=me, myself", "--metadata=a=1;b=x=y", "--metadata", "c=")
		held := listed(t, r, "held")[0]
		if got, want := fmt.Sprint(held["holder"], held["metadata"]), fmt.Sprint("me, myself", map[string]any{"a": "1", "b": "x=y", "c": ""}); got != want {
			t.Errorf("others are shown %s, want %s", got, want)
		}
		host, _ := os.Hostname()
		releaseAll(t, r, "held")
		cliDo(t, r, 0, "acquire", "who")
		if got := listed(t, r, "held")[0]["holder"].(string); !strings.HasSuffix(got, "@"+host) {
			t.Errorf("untold, others are shown %q", got)
		}
		releaseAll(t, r, "held")
	})
	t.Run("what is gone", func(t *testing.T) {
		for _, args := range [][]string{{"release", id}, {"renew", id}, {"get", id}} {
			if _, said := cliDo(t, r, exitLost, args...); !strings.Contains(said, "not_found") || strings.Contains(said, id) {
				t.Errorf("%q says %q", args, said)
			}
		}
	})
	t.Run("what the service refuses", func(t *testing.T) {
		if _, said := cliDo(t, r, exitUsage, "acquire", "plain", "--ttl=48h"); !strings.Contains(said, "86400") {
			t.Errorf("says %q", said)
		}
	})
	t.Run("a service that is silent", func(t *testing.T) {
		var all []*cliProgram
		for _, args := range [][]string{{"release", id}, {"renew", id}, {"get", id}, {"list"}, {"watch", "a"}, {"acquire", "a"}} {
			all = append(all, cliStart(t, cliServer("http://127.0.0.1:1"), append(args, "--timeout=1s")...))
		}
		for _, p := range all {
			p.want(exitUnreachable)
		}
	})
	t.Run("a second server, where the first is dead", func(t *testing.T) {
		cliStart(t, cliServer("http://127.0.0.1:1", r.url), "list").want(0)
		cliStart(t, nil, "list", "--server=http://127.0.0.1:1", "--server", r.url+"/").want(0)
	})
	t.Run("a header", func(t *testing.T) {
		asked := make(chan string, 1)
		guarded := passing(t, r, func(w http.ResponseWriter, req *http.Request) bool {
			asked <- req.Header.Get("Authorization")
			return false
		})
		cliStart(t, cliServer(guarded), "list", "--header", "Authorization: Bearer a,b").want(0)
		if got := <-asked; got != "Bearer a,b" {
			t.Errorf("it is sent as %q", got)
		}
	})
}

func TestCLIList(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	claim := func(body string) {
		t.Helper()
		if status, answer := ask(t, http.MethodPost, r.url+"/locks", body); status/100 != 2 {
			t.Fatalf("%d %v", status, answer)
		}
	}
	claim(`{"name":"a/1","ttl_seconds":90,"holder":"x\u001b[31m\nforged  held"}`)
	claim(`{"name":"a/1","queue":true,"holder":"b b"}`)
	claim(`{"name":"b"}`)
	rows := func(args ...string) []string {
		t.Helper()
		said, _ := cliDo(t, r, 0, append([]string{"list"}, args...)...)
		said = regexp.MustCompile(`\d{16}`).ReplaceAllString(said, "T")
		return strings.Split(strings.TrimSuffix(regexp.MustCompile(` +`).ReplaceAllString(said, " "), "\n"), "\n")[1:]
	}
	held, queued, other := `a/1 held 0 T 1m30s "x\x1b[31m\nforged held"`, "a/1 queued 1 - 30s b b", "b held 0 T 30s -"
	for name, tt := range map[string]struct{ args, want []string }{
		"all":         {nil, []string{held, queued, other}},
		"a name":      {[]string{"b"}, []string{other}},
		"a prefix":    {[]string{"--prefix=a/"}, []string{held, queued}},
		"a state":     {[]string{"--state=queued"}, []string{queued}},
		"both":        {[]string{"--prefix=b", "--state=held"}, []string{other}},
		"none at all": {[]string{"a"}, []string{}},
	} {
		if got := rows(tt.args...); strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s: prints %q, want %q", name, got, tt.want)
		}
	}
	t.Run("as JSON", func(t *testing.T) {
		said, _ := cliDo(t, r, 0, "list", "--json")
		var list latchkey.ClaimList
		if err := json.Unmarshal([]byte(said), &list); err != nil || len(list.Locks) != 3 || list.Locks[0].ID == "" {
			t.Errorf("prints %q, %v", said, err)
		}
		if said, _ := cliDo(t, r, 0, "list", "--json", "nobody"); said != "{\"locks\":[]}\n" {
			t.Errorf("prints %q for none", said)
		}
	})
	t.Run("again and again", func(t *testing.T) {
		p := cliStart(t, cliServer(r.url), "list", "--watch", "--every=200ms", "--state=held")
		p.stdout.await(t, `\nb +held`)
		claim(`{"name":"c"}`)
		p.stdout.await(t, `(?s)\nb +held.*\n\nNAME.*\nb +held.*\nc +held`)
		p.signal(syscall.SIGTERM)
		p.want(128 + int(syscall.SIGTERM))
		if n := strings.Count(p.stdout.String(), "NAME"); n != 2 {
			t.Errorf("it prints %d tables, want one for each change:\n%s", n, p.stdout)
		}
	})
}

func TestCLIWatch(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	plain := cliStart(t, cliServer(r.url), "watch", "w", "--every=200ms")
	lines := cliStart(t, cliServer(r.url), "watch", "w", "--every=200ms", "--json")
	plain.stdout.await(t, `Z free, 0 waiting\n`)
	lines.stdout.await(t, `,"waiting":0}\n`)
	token := acquire(t, r, "w")
	plain.stdout.await(t, fmt.Sprintf(`held by - with token %.0f, 0 waiting\n`, token))
	lines.stdout.await(t, fmt.Sprintf(`"fencing_token":%.0f,"waiting":0}\n`, token))
	run := cliStart(t, cliServer(r.url), cliRun("w", []string{"--holder=next"}, "sleep", "60")...)
	plain.stdout.await(t, fmt.Sprintf(`token %.0f, 1 waiting\n`, token))
	releaseAll(t, r, "held")
	plain.stdout.await(t, `held by next with token \d+, 0 waiting\n`)
	run.signal(syscall.SIGTERM)
	plain.stdout.await(t, `(?s)next.*free, 0 waiting\n`)
	plain.signal(syscall.SIGINT)
	plain.want(128 + int(syscall.SIGINT))
}

func TestCLIBadUsageIsToldTogether(t *testing.T) {
	for name, tt := range map[string]struct{ args, want []string }{
		"all of run's": {
			[]string{"run", "a\tb", "--ttl=1s", "--wait=-1s", "--grace=x", "--holder=" + strings.Repeat("h", 256), "--metadata=novalue", "--metadata=a=1;a=2", "--server=localhost:8080", "--timeout=0s", "--", ""},
			[]string{"COMMAND", "NAME", "--ttl (LATCHKEY_TTL)", "--wait (LATCHKEY_WAIT)", "--holder (LATCHKEY_HOLDER)", "--metadata (LATCHKEY_METADATA)", "--metadata (LATCHKEY_METADATA)", "--grace (LATCHKEY_GRACE)", "--server (LATCHKEY_SERVER)", "--timeout (LATCHKEY_TIMEOUT)"}},
		"a grace too long":   {[]string{"run", "a", "--ttl=30s", "--grace=11s", "--", "true"}, []string{"--grace"}},
		"half a second":      {[]string{"acquire", "a", "--wait=1500ms"}, []string{"--wait"}},
		"a key too short":    {[]string{"acquire", "a", "--key=short"}, []string{"--key"}},
		"a header":           {[]string{"list", "--header=Authorization"}, []string{"--header"}},
		"a header's end":     {[]string{"list", "--header=A: b\r\nC: d"}, []string{"--header"}},
		"a path for an id":   {[]string{"release", "../leases/x"}, []string{"ID"}},
		"a name and prefix":  {[]string{"list", "a", "--prefix=b", "--state=free", "--every=1ms"}, []string{"--prefix", "--state", "--every"}},
		"a name too long":    {[]string{"watch", strings.Repeat("n", 256)}, []string{"NAME"}},
		"a server with more": {[]string{"get", "abc", "--server=http://h/?a=b"}, []string{"--server"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := call(tt.args...)
			if exitCode(err) != exitUsage {
				t.Fatalf("ended with %v, want bad usage", err)
			}
			var told []string
			for _, line := range strings.Split(err.Error(), "\n")[1:] {
				told = append(told, strings.TrimSpace(line))
			}
			if len(told) != len(tt.want) {
				t.Fatalf("told of %q, want %q", told, tt.want)
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(told[i], want+" ") {
					t.Errorf("told of %q, want %q", told[i], want)
				}
			}
		})
	}
	for name, args := range map[string][]string{
		"an unknown flag": {"run", "a", "--weight=1", "--", "true"}, "no command": {"run", "a"}, "no name": {"acquire"}, "no id": {"renew"},
		"bytes that are no text": {"list", "--prefix=\xff"}, "no shell": {"completion", "bash", "more"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := call(args...); exitCode(err) != exitUsage {
				t.Errorf("ended with %v, want bad usage", err)
			}
		})
	}
	t.Run("but secrets are not", func(t *testing.T) {
		for _, args := range [][]string{{"list", "--header=hush\n"}, {"get", "hush/"}, {"list", "--server=ftp://u:hush@h"}, {"acquire", "a", "--key=hush"}} {
			if _, err := call(args...); err == nil || strings.Contains(err.Error(), "hush") {
				t.Errorf("%q: told %v", args, err)
			}
		}
	})
}

func TestCLITakesIDsThatBeginWithADash(t *testing.T) {
	const rest = "DhMvaaa4jkk3hbMyCGqQAAAAAAAAAGMkBdPOS_TodvHQ9fJ-CFXHBsYWlu"
	for _, id := range []string{"-5" + rest, "--" + rest, "-h" + rest, "---" + rest, "-v" + rest, "-aaaaaaaaaaaaaaaaaaaaa"} {
		for _, args := range [][]string{{"get", id, "--json"}, {"get", "--timeout=2s", id}, {"get", "--json", "--", id}} {
			chosen, err := parse(args, io.Discard, io.Discard)
			if err != nil {
				t.Errorf("%q: %v", args, err)
			} else if got := chosen.(*getCommand).ID; got != id {
				t.Errorf("%q: the id is %q", args, got)
			}
		}
	}
	for _, want := range [][]string{{"--", "tool", "-5" + rest, "--", "b"}, {"tool", "-5" + rest, "b", "--ttl=1"}, {"tool", "--", "-5" + rest}} {
		chosen, err := parse(append([]string{"run", "a", "--no-wait"}, want...), io.Discard, io.Discard)
		if err != nil || !slices.Equal(chosen.(*runCommand).Command, want) {
			t.Errorf("the command's own arguments are %q, want %q (%v)", chosen.(*runCommand).Command, want, err)
		}
	}
}

func TestCLIHelpTellsWhichOutagesAWaitLastsThrough(t *testing.T) {
	for _, command := range []string{"run", "acquire"} {
		said, err := call(command, "--help")
		said = strings.Join(strings.Fields(said), " ")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"but for one at the very start, which --timeout bounds", "is given up after --timeout, whatever --wait says", "is waited out for as long as the lock is"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s --help does not tell %q", command, want)
			}
		}
	}
}

func TestCLIHelpTellsTheExitCodes(t *testing.T) {
	for _, command := range []string{"run", "acquire", "renew", "release", "get", "list", "watch"} {
		said, err := call(command, "--help")
		said = strings.Join(strings.Fields(said), " ")
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range []string{"64 bad usage", "69 no server", "75 not acquired", "76 ", "77 not allowed"} {
			if !strings.Contains(said, code) {
				t.Errorf("%s --help does not tell %q", command, code)
			}
		}
	}
}
