package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// cliTerminal is a terminal at which bash runs, as somebody sits there.
type cliTerminal struct {
	t    *testing.T
	keys *os.File
	said *output
}

func newCLITerminal(t *testing.T, r *running) *cliTerminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { keys.Close() })
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	shell := exec.Command("bash", "--norc", "--noprofile", "-i")
	shell.Env = append(os.Environ(), asProgram+"=1", "LATCHKEY_SERVER="+r.url, "PS1=$ ", "TERM=dumb")
	shell.Stdin, shell.Stdout, shell.Stderr = screen, screen, screen
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	c := &cliTerminal{t: t, keys: keys, said: newOutput()}
	go io.Copy(c.said, keys) // ends when the last process has left the terminal
	t.Cleanup(func() {
		shell.Process.Kill()
		shell.Wait()
	})
	c.said.await(t, `\$ $`)
	return c
}

func (c *cliTerminal) press(keys string) {
	c.t.Helper()
	if _, err := c.keys.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// latchkey types a command line that ends with its exit code.
func (c *cliTerminal) latchkey(args string) { c.press(os.Args[0] + " " + args + "; echo code=$?\n") }

// cliAsk lets a job ask for what answer answers. The quotes keep what is typed from being taken for what is printed.
const cliAsk = `echo ask""ing; read answer; `

func (c *cliTerminal) answer() {
	c.t.Helper()
	c.said.await(c.t, `asking`)
	c.press("answer\n")
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	ctrlZ = "\x1a"
)

func TestCLIRunAtATerminal(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	t.Run("reads from it", func(t *testing.T) {
		c := newCLITerminal(t, r)
		c.latchkey(`run reads -- bash -c 'echo ask""ing; read answer; echo "got <$answer>"'`)
		c.said.await(t, `asking`)
		c.press("yes\n")
		c.said.await(t, `got <yes>[\s\S]*code=0`)
	})
	t.Run("leaves it to the others of a pipe", func(t *testing.T) {
		c := newCLITerminal(t, r)
		c.latchkey(`run pipe -- sh -c 'echo one; sleep 0.3; echo two' | { read a; echo ask""ing; read b </dev/tty; cat; echo "$a and $b"; }`)
		c.answer()
		c.said.await(t, `two\s+one and answer`)
	})
	for name, script := range map[string]string{"has not": "", "has": cliAsk} {
		t.Run("is interrupted from it, where the command "+name+" asked for it", func(t *testing.T) {
			c := newCLITerminal(t, r)
			c.latchkey(`run interrupted -- bash -c '` + script + `echo beg""un; sleep 60'`)
			if script != "" {
				c.answer()
			}
			c.said.await(t, `begun`)
			c.press(ctrlC)
			c.said.await(t, `code=130`)
			wantFree(t, r)
		})
		t.Run("is stopped from it and goes on, where the command "+name+" asked for it", func(t *testing.T) {
			c := newCLITerminal(t, r)
			c.latchkey(`run stops -- bash -c '` + script + `echo beg""un; sleep 1; echo do""ne'`)
			if script != "" {
				c.answer()
			}
			c.said.await(t, `begun`)
			c.press(ctrlZ)
			c.said.await(t, `Stopped`)
			if strings.Contains(c.said.String(), "done") {
				t.Errorf("it goes on though it was stopped: %s", c.said)
			}
			c.press("fg; echo fore=$?\n")
			c.said.await(t, `done[\s\S]*fore=0`)
			wantFree(t, r)
		})
	}
	t.Run("is stopped from it for longer than the TTL", func(t *testing.T) {
		c := newCLITerminal(t, r)
		c.latchkey(`run too-long --ttl=2s -- bash -c '` + cliAsk + `echo beg""un $$; sleep 60'`)
		c.answer()
		var group int
		fmt.Sscan(c.said.await(t, `begun (\d+)`), &group)
		c.press(ctrlZ)
		c.said.await(t, `Stopped`)
		eventually(t, bound, "the command is ended in time", func() bool { return !cliAlive(group) })
		eventually(t, bound, "the lock runs out", func() bool { return len(listed(t, r, "held")) == 0 })
		c.press("fg; echo fore=$?\n")
		c.said.await(t, `(is|may be) lost[\s\S]*fore=76`)
	})
	t.Run("gives it back", func(t *testing.T) {
		c := newCLITerminal(t, r)
		c.latchkey(`run back -- sh -c 'echo ask""ing; cat'`)
		c.said.await(t, `asking`)
		c.press("line\n")
		c.said.await(t, `line\s+line`)
		c.press(ctrlD)
		c.said.await(t, `code=0`)
		c.press("echo shell \"goes\" on\n")
		c.said.await(t, `shell goes on`)
	})
}
