package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestCLIRunLostByWhatLeavesTheSession: su and the like have sessions of their own, and die before what they have started.
func TestCLIRunLostByWhatLeavesTheSession(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	for name, before := range map[string][]string{
		"setsid": {"setsid", "-w"},
		"su":     {"su", "root", "-s", "/bin/bash", "-c", `exec "$@"`, "--", "bash"},
		"both":   {"setsid", "-w", "bash", "-c", `setsid -w "$@"; true`, "bash"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(before[0]); err != nil || before[0] == "su" && os.Getuid() != 0 {
				t.Skipf("there is no %s here, or not without a password", before[0])
			}
			line := etcdtest.NewProxy(t, r.url[len("http://"):])
			h := cliHold(t, "session "+name, []string{"http://" + line.Addr()}, r.url, before...)
			line.Cut()
			next := h.granted()
			h.want(exitLost)
			h.wroteNoMore(next.got)
		})
	}
}

// TestCLIRunLostByJobsWhileTheGuardIsStopped: nobody else ends them in time.
func TestCLIRunLostByJobsWhileTheGuardIsStopped(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	for name, wrap := range map[string]string{
		"a job of a shell":   `echo guarded by $PPID; set -m; "$@" & wait`,
		"one that left":      `echo guarded by $PPID; setsid -w "$@"`,
		"a job's grandchild": `echo guarded by $PPID; set -m; bash -c '"$@" & wait' bash "$@" & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line := etcdtest.NewProxy(t, r.url[len("http://"):])
			h := cliHold(t, "jobs, "+name, []string{"http://" + line.Addr()}, r.url, "bash", "-c", wrap, "bash")
			guard := h.guard()
			t.Cleanup(func() { syscall.Kill(guard, syscall.SIGKILL) })
			if err := syscall.Kill(guard, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			line.Cut()
			next := h.granted()
			h.want(exitLost)
			h.wroteNoMore(next.got)
		})
	}
}
