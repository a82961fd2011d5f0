package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// cliPrincipals is a service that knows who calls, with more flags: each principal has a grant of its own, and a token.
func cliPrincipals(t *testing.T, rights map[string]string, more ...string) (r *running, tokens map[string][]string) {
	t.Helper()
	tokens = map[string][]string{}
	text := "principals:\n"
	for name, granted := range rights {
		token, entry := tokenNew(t, name)
		tokens[name] = []string{"LATCHKEY_TOKEN=" + token}
		text += strings.NewReplacer("[lock, read]", granted, `prefix: "`+name+`"`, `prefix: "*"`).Replace(entry)
	}
	file := filepath.Join(t.TempDir(), "auth.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	served := startReplica(t, append(more, "--data-dir="+t.TempDir()+"/data", "--auth-file="+file)...)
	return &running{t: t, url: served.url(), log: served.life.Load().log}, tokens
}

// cliAs runs a command of a principal's to its end.
func cliAs(t *testing.T, r *running, token []string, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	p := cliStart(t, append(cliServer(r.url), token...), args...)
	p.want(code)
	return p.stdout.String(), p.stderr.String()
}

// TestCLIOfPrincipals goes the way of a lock between four of them.
func TestCLIOfPrincipals(t *testing.T) {
	t.Parallel()
	r, tokens := cliPrincipals(t, map[string]string{"ci": "[lock, read]", "ops": "[admin, read]", "viewer": "[read]", "writer": "[lock]"})
	job := cliStart(t, append(cliServer(r.url), tokens["ci"]...), cliRun("job", []string{"--holder=me", "--ttl=4"}, "sh", "-c", "echo begun $$; exec sleep 60")...)
	group := job.group()

	idOf := func(name string) string {
		t.Helper()
		said, _ := cliAs(t, r, tokens[name], 0, "list", "--json")
		var list latchkey.ClaimList
		if err := json.Unmarshal([]byte(said), &list); err != nil || len(list.Locks) != 1 {
			t.Fatalf("%s is listed %q: %v", name, said, err)
		}
		return list.Locks[0].ID
	}
	id := idOf("ops")
	if id == "" || idOf("ci") != id || idOf("viewer") != "" {
		t.Error("ids are for their owner and for administrators")
	}
	said, _ := cliAs(t, r, tokens["viewer"], 0, "list")
	if !regexp.MustCompile(`(?m)^NAME +STATE +POSITION +TOKEN +TTL +PRINCIPAL +HOLDER\njob +held +0 +\d+ +4s +ci +me$`).MatchString(said) {
		t.Errorf("a reader is shown\n%s", said)
	}
	cliAs(t, r, nil, exitNotAllowed, "list")
	cliAs(t, r, []string{"LATCHKEY_TOKEN=lk_forged"}, exitNotAllowed, "run", "job", "--", "echo", "ran")
	cliAs(t, r, tokens["viewer"], exitNotAllowed, "run", "job", "--", "echo", "ran")
	if said, _ := cliAs(t, r, tokens["writer"], exitNotAcquired, "run", "job", "-v", "--wait=1", "--", "echo", "ran"); said != "" {
		t.Errorf("a command ran: %q", said)
	}
	cliAs(t, r, tokens["writer"], exitLost, "release", id)
	if !cliAlive(group) {
		t.Fatalf("the command was ended by nobody who may: %s", job.stderr)
	}

	cliAs(t, r, tokens["ops"], 0, "release", id, "--reason=host web-3 is gone")
	job.want(exitLost)
	if want := "latchkey: job: the lock was broken by an administrator: host web-3 is gone; the command was ended\n"; job.stderr.String() != want {
		t.Errorf("it says %q, want %q", job.stderr, want)
	}
	for _, command := range []string{"get", "renew", "release"} {
		if _, said := cliAs(t, r, tokens["ci"], exitLost, command, id); !strings.Contains(said, "lock_broken (410)") || !strings.Contains(said, "host web-3 is gone") {
			t.Errorf("%s of what was broken says %q", command, said)
		}
	}
	for name, token := range tokens {
		if secret := strings.TrimPrefix(token[0], "LATCHKEY_TOKEN="); strings.Contains(fmt.Sprint(r.log, job.stderr), secret) {
			t.Errorf("the token of %s is told", name)
		}
	}
}
