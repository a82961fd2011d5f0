package main

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store/etcdtest"
)

const cliTTL = 3 // seconds

// cliHeld is a command that holds a lock and writes with its token all the time, with somebody in line behind it. What is
// before the command starts it.
type cliHeld struct {
	*cliProgram
	resource *cliResource
	job      int // its process group
	token    int64
	next     chan answer
}

func cliHold(t *testing.T, name string, servers []string, elsewhere string, before ...string) *cliHeld {
	t.Helper()
	h := &cliHeld{resource: newCLIResource(t), next: make(chan answer, 1)}
	h.cliProgram = cliStart(t, cliServer(servers...), cliRun(name, []string{fmt.Sprintf("--ttl=%ds", cliTTL)}, append(before, h.resource.job()...)...)...)
	h.job = h.group()
	h.token = h.resource.awaitWrites(t)
	c := newClient(t)
	behind := c.claim(elsewhere, "", api.LockRequest{Name: name, TTLSeconds: 30, Queue: true})
	if !behind.queued() {
		t.Fatalf("a claim behind a command that holds the lock: %v", behind)
	}
	go func() {
		for {
			a := c.poll(elsewhere, behind.lock.ID, 20)
			if !a.queued() {
				h.next <- a
				return
			}
		}
	}()
	return h
}

// granted is the next one's lock. It may be had only when nothing of the command lives, and when its last write was before.
func (h *cliHeld) granted() answer {
	h.t.Helper()
	select {
	case a := <-h.next:
		if cliAlive(h.job) {
			h.t.Error("the command is dead before anybody else can be granted the lock, but somebody is and it lives")
		}
		if !a.held() || a.lock.FencingToken <= h.token {
			h.t.Fatalf("the next in line is told %v, after token %d", a, h.token)
		}
		if !h.resource.take(a.lock.FencingToken) {
			h.t.Error("the next one's write is refused")
		}
		return a
	case <-time.After(seconds(cliTTL) + 2*bound):
		h.t.Fatalf("nobody is granted the lock of a command that lost it; it says %s", h.stderr)
		return answer{}
	}
}

// wroteNoMore asks that none of its writes was taken after those of the next.
func (h *cliHeld) wroteNoMore(since time.Time) {
	h.t.Helper()
	for _, w := range h.resource.of(h.token) {
		if w.taken && w.at.After(since) {
			h.t.Errorf("a write with the old token was taken %v after the next grant was told", w.at.Sub(since))
		}
	}
	if h.resource.take(h.token) {
		h.t.Error("a token that is lower than another that was accepted is refused, but is taken")
	}
}

// TestCLIRunStopped: latchkey run is stopped by SIGSTOP for longer than the TTL, and its command runs on.
func TestCLIRunStopped(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	h := cliHold(t, "stopped", []string{r.url}, r.url)
	h.signal(syscall.SIGSTOP)
	next := h.granted()
	h.signal(syscall.SIGCONT)
	h.want(exitLost)
	h.wroteNoMore(next.got)
	if !strings.Contains(h.stderr.String(), "lost") {
		t.Errorf("it says %q", h.stderr)
	}
}

// TestCLIRunStoppedForAWhile: a stop that is shorter than the TTL costs nothing.
func TestCLIRunStoppedForAWhile(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	p := cliStart(t, cliServer(r.url), cliRun("for a while", []string{"--ttl=30s"}, "bash", "-c", `trap "exit 4" USR1; `+cliBegun+"while :; do sleep 0.1; done")...)
	p.group()
	p.signal(syscall.SIGSTOP)
	over := time.NewTimer(time.Second)
	<-over.C
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGUSR1)
	p.want(4)
	wantFree(t, r)
}

// TestCLIRunAllStopped: so are the guard and the command, as when the machine is paused. They wake after somebody else has
// been granted the lock.
func TestCLIRunAllStopped(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	h := cliHold(t, "all stopped", []string{r.url}, r.url)
	guard := h.guard()
	all := []int{h.cmd.Process.Pid, guard, -h.job}
	t.Cleanup(func() { syscall.Kill(guard, syscall.SIGCONT) })
	for _, pid := range all {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	next := <-h.next
	if !next.held() || !h.resource.take(next.lock.FencingToken) {
		t.Fatalf("the next in line is told %v", next)
	}
	woke := time.Now()
	for i := range all { // the command first, which is the worst
		syscall.Kill(all[len(all)-1-i], syscall.SIGCONT)
	}
	took := eventually(t, bound, "the command is ended when all go on", func() bool { return !cliAlive(h.job) })
	t.Logf("the command is dead %v after the wake", took.Round(time.Millisecond))
	h.want(exitLost)
	h.wroteNoMore(next.got)
	late := 0
	for _, w := range h.resource.of(h.token) {
		if w.at.After(woke) {
			late++
		}
	}
	t.Logf("it wrote %d times after the wake, each refused", late)
}

// TestCLIRunLost: somebody else releases the lock.
func TestCLIRunLost(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	t.Run("and the command is told before it is stopped", func(t *testing.T) {
		p := cliStart(t, cliServer(r.url), cliRun("lost", []string{"--ttl=3s", "--grace=1s"}, "bash", "-c", `trap "echo told; exit 0" TERM; `+cliBegun+"while :; do sleep 0.1; done")...)
		p.group()
		releaseAll(t, r, "held")
		p.want(exitLost)
		if !strings.Contains(p.stdout.String(), "told") || !strings.Contains(p.stderr.String(), "lost") {
			t.Errorf("it says %q %q", p.stdout, p.stderr)
		}
	})
	t.Run("and the command does not listen", func(t *testing.T) {
		p := cliStart(t, cliServer(r.url), cliRun("lost", []string{"--ttl=3s"}, newCLIResource(t).job()...)...)
		group := p.group()
		releaseAll(t, r, "held")
		p.want(exitLost)
		if cliAlive(group) {
			t.Error("the command lives on")
		}
	})
	t.Run("and nobody knew before the release", func(t *testing.T) {
		p := cliStart(t, cliServer(r.url), cliRun("lost", nil, "bash", "-c", cliBegun+"read -t 60 < <(sleep 60); exit 0")...)
		group := p.group()
		releaseAll(t, r, "held")
		syscall.Kill(-group, syscall.SIGINT) // long before it would be renewed
		p.want(exitLost)
		if !strings.Contains(p.stderr.String(), "gone before it was released") {
			t.Errorf("it says %q", p.stderr)
		}
	})
}

// TestCLIRunLostByWhatLeavesTheGroup: jobs of a shell and commands of another latchkey run are in groups of their own.
func TestCLIRunLostByWhatLeavesTheGroup(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a process of its orphans")
	}
	r := cliService(t)
	for name, wrap := range map[string]string{
		"a job of a shell":     `set -m; "$@" & wait`,
		"another latchkey run": `"$0" run inner --ttl=1h -- "$@"`,
		"both":                 `set -m; "$0" run inner --ttl=1h -- bash -mc '"$@" & wait' bash "$@"; sleep 60`,
	} {
		t.Run(name, func(t *testing.T) {
			job := newCLIResource(t).job()
			p := cliStart(t, append(cliServer(r.url), asProgram+"=1"), cliRun("outer", []string{"--ttl=3s"}, append([]string{"bash", "-c", wrap, os.Args[0]}, job...)...)...)
			inner := p.group()
			for _, lock := range listed(t, r, "held") {
				if lock["name"] == "outer" {
					if status := newClient(t).release(r.url, lock["id"].(string)).status; status != http.StatusNoContent {
						t.Fatal(status)
					}
				}
			}
			p.want(exitLost)
			if cliAlive(inner) {
				t.Error("a process of the command's lives on when the lock is lost")
			}
			releaseAll(t, r, "held")
		})
	}
}

// TestCLIRunKilled: what is left when one of the processes is killed.
func TestCLIRunKilled(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	t.Run("latchkey run", func(t *testing.T) {
		h := cliHold(t, "run killed", []string{r.url}, r.url)
		h.signal(syscall.SIGKILL)
		h.wroteNoMore(h.granted().got)
	})
	t.Run("the guard", func(t *testing.T) {
		h := cliHold(t, "guard killed", []string{r.url}, r.url)
		syscall.Kill(h.guard(), syscall.SIGKILL)
		h.wroteNoMore(h.granted().got)
		h.want(128 + int(syscall.SIGKILL))
	})
	t.Run("the guard, while latchkey run is stopped", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("only Linux ends a process with its parent")
		}
		h := cliHold(t, "both gone", []string{r.url}, r.url)
		h.signal(syscall.SIGSTOP)
		syscall.Kill(h.guard(), syscall.SIGKILL)
		eventually(t, bound, "the command dies with its guard", func() bool { return !cliAlive(h.job) })
	})
	t.Run("not at all, but the guard is stopped", func(t *testing.T) {
		p := cliStart(t, cliServer(r.url), cliRun("guard stopped", []string{"--ttl=3s"}, newCLIResource(t).job()...)...)
		job, guard := p.group(), p.guard()
		t.Cleanup(func() { syscall.Kill(guard, syscall.SIGKILL) })
		syscall.Kill(guard, syscall.SIGSTOP)
		releaseAll(t, r, "held")
		p.want(exitLost)
		eventually(t, slack, "the command is ended without its guard", func() bool { return !cliAlive(job) })
	})
	t.Run("latchkey run, before the command has begun", func(t *testing.T) {
		acquire(t, r, "never")
		p := cliStart(t, cliServer(r.url), cliRun("never", nil, "echo", "ran")...)
		awaitQueued(t, r, 1)
		p.signal(syscall.SIGSTOP)
		releaseAll(t, r, "held")
		p.signal(syscall.SIGKILL)
		p.code()
		if p.stdout.String() != "" {
			t.Errorf("it says %q", p.stdout)
		}
	})
}

// TestCLIRunCutOff: the service cannot be reached any more, or does not answer, while another replica lets others wait.
func TestCLIRunCutOff(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.NewCluster(t, 1)
	for name, fault := range map[string]func(*replica){"dead": (*replica).kill, "silent": (*replica).pause} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := []string{"--etcd-endpoints=" + strings.Join(etcd.Endpoints(), ","), "--waiting-ttl=5s", "--etcd-prefix=/" + name + "/"}
			ours, others := startReplica(t, flags...), startReplica(t, flags...)
			h := cliHold(t, "cut off", []string{ours.url()}, others.url())
			fault(ours)
			next := h.granted()
			h.want(exitLost)
			h.wroteNoMore(next.got)
		})
	}
}

// TestCLIRunOutlivesAReplica: the replica that serves one who holds and one who waits is killed, and another goes on.
func TestCLIRunOutlivesAReplica(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.NewCluster(t, 1)
	flags := []string{"--etcd-endpoints=" + strings.Join(etcd.Endpoints(), ","), "--waiting-ttl=5s"}
	first, second := startReplica(t, flags...), startReplica(t, flags...)
	servers := cliServer(first.url(), second.url())
	c := newClient(t)
	resource := newCLIResource(t)

	holder := cliStart(t, servers, cliRun("shared", []string{"--ttl=3s"}, "bash", "-c", `trap "exit 0" USR1; `+cliBegun+`exec 3>/dev/tcp/`+resource.address+
		`; while echo $LATCHKEY_FENCING_TOKEN >&3; do sleep 0.05; done`)...)
	group := holder.group()
	token := resource.awaitWrites(t)
	waiters := make([]*cliProgram, 2)
	for i := range waiters {
		waiters[i] = cliStart(t, servers, cliRun("shared", []string{"--ttl=3s"}, "sh", "-c", "echo token $LATCHKEY_FENCING_TOKEN")...)
		c.awaitClaims(t, second.url(), "shared", 2+i, bound, "a command waits in line")
	}
	before, err := c.list(second.url(), "shared")
	if err != nil {
		t.Fatal(err)
	}
	first.kill()
	over := time.NewTimer(seconds(3 * cliTTL)) // whoever does not renew, and ask, elsewhere has lost it by then
	<-over.C
	after, err := c.list(second.url(), "shared")
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(before) {
		t.Fatalf("after the death of a replica the claims are %v, before %v", after, before)
	}
	for i := range after {
		if after[i].ID != before[i].ID {
			t.Errorf("at place %d stands another claim than before the death of a replica", i)
		}
	}
	if !cliAlive(group) {
		t.Fatalf("the command was ended: %s", holder.stderr)
	}
	holder.signal(syscall.SIGUSR1)
	holder.want(0)
	for _, w := range waiters {
		w.want(0)
		var next int64
		fmt.Sscanf(w.stdout.String(), "token %d", &next)
		if next <= token {
			t.Errorf("token %d after %d: the waiters are not served in their order", next, token)
		}
		token = next
	}
}

// TestCLIRunFromTwoCrontabs: two machines start the same job at the same moment.
func TestCLIRunFromTwoCrontabs(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	dir := t.TempDir()
	// the job fails if it meets itself
	const job = `mkdir "$0/busy" || exit 1; sleep 1; echo "$LATCHKEY_FENCING_TOKEN" >>"$0/ran"; rmdir "$0/busy"`
	both := func(flags ...string) (codes [2]int, said string) {
		var programs [2]*cliProgram
		for i := range programs {
			programs[i] = cliStart(t, cliServer(r.url), cliRun("nightly", flags, "sh", "-c", job, dir)...)
		}
		for i, p := range programs {
			codes[i] = p.code()
			said += p.stdout.String() + p.stderr.String()
		}
		return codes, said
	}
	if codes, said := both(); codes != [2]int{} || said != "" {
		t.Errorf("both run, one after the other, and say nothing; the codes are %v, and they say %q", codes, said)
	}
	if codes, said := both("--no-wait"); codes != [2]int{0, exitNotAcquired} && codes != [2]int{exitNotAcquired, 0} {
		t.Errorf("one runs and one leaves; the codes are %v, and they say %q", codes, said)
	}
	wantFree(t, r)
}
