//go:build unix

package latchkey_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

func TestProcessThatWasStoppedPastItsTTL(t *testing.T) {
	t.Parallel()
	for _, look := range []string{"check", "context"} {
		t.Run(look, func(t *testing.T) {
			t.Parallel()
			name := "stopped/" + look
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), holderEnv+"="+name)
			cmd.SysProcAttr, cmd.Stderr = tied(), os.Stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
			late := time.AfterFunc(2*bound, func() { cmd.Process.Kill() })
			t.Cleanup(func() { late.Stop() })
			answers := bufio.NewScanner(out)
			read := func() string {
				t.Helper()
				if !answers.Scan() {
					t.Fatalf("the holder says no more: %v", answers.Err())
				}
				return answers.Text()
			}
			token, err := strconv.ParseInt(read(), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(in, look)
			if got := read(); got != "held" {
				t.Fatalf("before it was stopped its lock is %s", got)
			}

			if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			var guard latchkey.FenceGuard
			if err := guard.Accept(name, token); err != nil {
				t.Error(err)
			}
			next := mustLock(t, newClient(t, latchkey.Config{}), name, latchkey.LockOptions{Wait: bound})
			if err := guard.Accept(name, next.Token()); err != nil {
				t.Error(err)
			}
			fmt.Fprintln(in, look) // it reads this the moment that it goes on
			if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if got := read(); !strings.Contains("uncertain lost", got) {
				t.Errorf("after it was stopped past its TTL it counts its lock as %s", got)
			}
			stale := as[*latchkey.StaleTokenError](t, guard.Accept(name, token))
			if stale.Highest != next.Token() {
				t.Errorf("its token was refused for %d, want %d", stale.Highest, next.Token())
			}
		})
	}
}
