package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestCLIRunPassesOn(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	server := cliServer(r.url)
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tt := range map[string]struct {
		command []string
		stdin   string
		code    int
		stdout  string
	}{
		"success":                {[]string{"true"}, "", 0, ""},
		"the exit code":          {[]string{"sh", "-c", "exit 42"}, "", 42, ""},
		"a signal as the end":    {[]string{"sh", "-c", "kill -USR1 $$"}, "", 128 + int(syscall.SIGUSR1), ""},
		"standard input":         {[]string{"cat"}, "from\nhere", 0, "from\nhere"},
		"arguments as they are":  {[]string{"printf", `%s|`, "--ttl", "-h", "a b", "\xff\xfe", "", "--"}, "", 0, "--ttl|-h|a b|\xff\xfe||--|"},
		"a script without a #!":  {[]string{file("plain.sh", "echo plain $1\n", 0o700), "one"}, "", 0, "plain one\n"},
		"no such command":        {[]string{"no-such-command"}, "", exitNoCommand, ""},
		"no such file":           {[]string{dir + "/nowhere"}, "", exitNoCommand, ""},
		"a file that is no code": {[]string{file("data", "", 0o600)}, "", exitCannotRun, ""},
		"no interpreter":         {[]string{file("lost.sh", "#!/no/where\n", 0o700)}, "", exitNoCommand, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := cliStartReading(t, strings.NewReader(tt.stdin), server, cliRun("passes on", nil, tt.command...)...)
			p.want(tt.code)
			if got := p.stdout.String(); got != tt.stdout {
				t.Errorf("it prints %q, want %q", got, tt.stdout)
			}
			if said := p.stderr.String(); (said == "") != (tt.code != exitNoCommand && tt.code != exitCannotRun) {
				t.Errorf("quiet by default, it says %q", said)
			}
			wantFree(t, r)
		})
	}
	t.Run("what the lock is", func(t *testing.T) {
		p := cliStartReading(t, strings.NewReader(""), server, cliRun("na'me \u00e9", []string{"--holder=me"}, "sh", "-c",
			`echo "$LATCHKEY_NAME|$LATCHKEY_FENCING_TOKEN|$LATCHKEY_LOCK_ID"; echo begun $$; cat`)...)
		p.want(0)
		parts := strings.Split(strings.Split(p.stdout.String(), "\n")[0], "|")
		if token, _ := strconv.ParseInt(parts[1], 10, 64); parts[0] != "na'me \u00e9" || token < 1 || len(parts[2]) < 40 {
			t.Errorf("its variables are %q", parts)
		}
	})
	t.Run("descriptors that it was given", func(t *testing.T) {
		inner := strings.Join([]string{os.Args[0], "run", "fds", "--", "sh", "-c", "'echo five >&5'"}, " ")
		p := cliStart(t, append(server, asProgram+"=1"), "run", "outer", "--", "sh", "-c", inner+" 5>&1")
		p.want(0)
		if got := p.stdout.String(); got != "five\n" {
			t.Errorf("it prints %q, want five", got)
		}
	})
}

func TestCLIRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	for sig, whole := range map[syscall.Signal]bool{
		syscall.SIGINT: true, syscall.SIGTERM: true, syscall.SIGHUP: true, syscall.SIGQUIT: true, syscall.SIGUSR1: false, syscall.SIGUSR2: false,
	} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			// bash waits for its child before it looks at the trap: it is told in time only if the child is told too
			n := strconv.Itoa(int(sig))
			script := `trap "echo told; exit 9" ` + n + `; sh -c "echo begun \$PPID; exec sleep 60"`
			if !whole {
				script = `trap "echo told; kill -0 \$! && echo child untouched; exit 9" ` + n + `; sleep 60 & echo begun $$; wait`
			}
			p := cliStart(t, cliServer(r.url), cliRun("signal "+n, nil, "bash", "-c", script)...)
			p.group()
			p.signal(sig)
			p.want(9)
			if got := strings.Contains(p.stdout.String(), "child untouched"); !strings.Contains(p.stdout.String(), "told\n") || got == whole {
				t.Errorf("it says %q", p.stdout)
			}
		})
	}
	t.Run("of which it was started to ignore some", func(t *testing.T) {
		p := cliStart(t, append(cliServer(r.url), asProgram+"=1"), "run", "nohup", "--", "bash", "-c",
			`trap "" HUP INT; echo runner $$; exec "$0" run ignoring -- bash -c 'echo begun $$; read -t 60 < <(sleep 60); exit 3'`, os.Args[0])
		group := p.group()
		runner, err := strconv.Atoi(p.stdout.await(t, `runner (\d+)\n`))
		if err != nil {
			t.Fatal(err)
		}
		for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
			syscall.Kill(runner, sig)
			syscall.Kill(group, sig)
		}
		syscall.Kill(runner, syscall.SIGTERM)
		p.want(128 + int(syscall.SIGTERM))
	})
}

func TestCLIRunEndsWhatTheCommandLeavesBehind(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	resource := newCLIResource(t)
	left := resource.job()[2]
	p := cliStart(t, cliServer(r.url), cliRun("left", []string{"--ttl=3s"}, "bash", "-c", `echo begun $$; (`+left+`) & sleep 0.3; exit 5`)...)
	group := p.group()
	token := resource.awaitWrites(t)
	p.want(5)
	if cliAlive(group) {
		t.Error("what the command left in its group lives on after the release")
	}
	before := len(resource.of(token))
	if next := acquire(t, r, "left"); int64(next) <= token {
		t.Errorf("token %.0f after %d", next, token)
	}
	if after := len(resource.of(token)); after != before {
		t.Errorf("what it left behind wrote %d times after its end", after-before)
	}
}

func TestCLIRunWaitsInLine(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	server := cliServer(r.url)
	acquire(t, r, "job")

	t.Run("until its time is over", func(t *testing.T) {
		p := cliStart(t, server, "run", "job", "--wait=1s", "--", "echo", "ran")
		p.want(exitNotAcquired)
		if p.stdout.String() != "" || !strings.Contains(p.stderr.String(), "held by") {
			t.Errorf("it says %q %q", p.stdout, p.stderr)
		}
		awaitQueued(t, r, 0)
	})
	t.Run("or not at all", func(t *testing.T) {
		cliStart(t, append(server, "LATCHKEY_NO_WAIT=true"), "run", "job", "--", "echo", "ran").want(exitNotAcquired)
	})
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run("until told to stop by "+sig.String(), func(t *testing.T) {
			p := cliStart(t, server, "run", "job", "--", "echo", "ran")
			awaitQueued(t, r, 1)
			p.signal(sig)
			p.want(128 + int(sig))
			awaitQueued(t, r, 0)
			if said := p.stdout.String() + p.stderr.String(); said != "" {
				t.Errorf("it says %q", said)
			}
		})
	}
	t.Run("and tells how that goes, if asked to", func(t *testing.T) {
		p := cliStart(t, server, "run", "job", "-v", "--", "echo", "ran")
		p.stderr.await(t, `job: waiting, 1 ahead, held by - with token \d+\n`)
		awaitQueued(t, r, 1)
		releaseAll(t, r, "queued") // its place is lost
		p.stderr.await(t, `job: the place in the queue was lost`)
		awaitQueued(t, r, 1)
		releaseAll(t, r, "held")
		p.want(0)
		p.stderr.await(t, `job: held, with token \d+\n`)
	})
	t.Run("though its own file is removed meanwhile", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("only Linux keeps a program that has no file")
		}
		file := filepath.Join(t.TempDir(), "latchkey")
		program, err := os.ReadFile(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, program, 0o700); err != nil {
			t.Fatal(err)
		}
		acquire(t, r, "upgraded")
		p := cliStartFile(t, file, nil, server, cliRun("upgraded", nil, "echo", "ran")...)
		awaitQueued(t, r, 1)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		releaseAll(t, r, "held")
		p.want(0)
	})
	t.Run("and renews while the command runs", func(t *testing.T) {
		p := cliStart(t, server, cliRun("renewed", []string{"--ttl=2s"}, "sh", "-c", cliBegun+"sleep 30")...)
		group := p.group()
		before := listed(t, r, "held")
		r.log.await(t, `(?s)(operation=renewLease.*){5}`) // more than the TTL has room for
		if after := listed(t, r, "held"); len(before) != 1 || len(after) != 1 || before[0]["id"] != after[0]["id"] {
			t.Errorf("held is %v, then %v", before, after)
		}
		if !cliAlive(group) {
			t.Errorf("the command was ended: %s", p.stderr)
		}
	})
}

func TestCLIRunWithoutAService(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"that would wait": nil, "that would not": {"--no-wait"}} {
		t.Run(name, func(t *testing.T) {
			p := cliStart(t, cliServer("http://127.0.0.1:1", "http://127.0.0.1:2"), cliRun("job", append(flags, "--timeout=1s"), "echo", "ran")...)
			p.want(exitUnreachable)
			if p.stdout.String() != "" || !strings.Contains(p.stderr.String(), "refused") {
				t.Errorf("it says %q %q", p.stdout, p.stderr)
			}
		})
	}
	t.Run("that is another", func(t *testing.T) {
		other := cliOther(t, http.StatusNotFound)
		cliStart(t, cliServer(other), "run", "job", "--timeout=1s", "--", "echo", "ran").want(exitUnreachable)
	})
}

func TestCLIRunLeavesDaemonsAlone(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("there is no setsid here")
	}
	t.Parallel()
	r := cliService(t)
	p := cliStart(t, cliServer(r.url), cliRun("daemon", nil, "sh", "-c", `setsid sleep 60 >/dev/null 2>&1 & echo begun $!`)...)
	daemon := p.group()
	p.want(0)
	wantFree(t, r)
	if !cliAlive(daemon) {
		t.Error("a daemon that the command has started is ended with it")
	}
}

func TestCLISurvivors(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	group := cmd.Process.Pid
	if !cliAlive(group) {
		t.Error("a process that sleeps is not found")
	}
	cmd.Process.Signal(syscall.SIGSTOP)
	if !cliAlive(group) {
		t.Error("a process that is stopped is not found")
	}
	cmd.Process.Kill()
	if runtime.GOOS == "linux" {
		eventually(t, bound, "what is killed counts as dead before anybody has waited for it", func() bool { return !cliAlive(group) })
	}
	cmd.Wait()
	if cliAlive(group) {
		t.Error("a process that has ended is found")
	}
}
