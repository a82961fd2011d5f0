//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestCLIAcquireThatCannotTell gives the lock back: nobody knows its id.
func TestCLIAcquireThatCannotTell(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	closed, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	t.Cleanup(func() { pipe.Close() })
	outputs := map[string]*os.File{"a closed pipe": pipe}
	if full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0); err == nil {
		t.Cleanup(func() { full.Close() })
		outputs["a full disk"] = full
	}
	for name, to := range outputs {
		for _, flags := range [][]string{nil, {"--json"}} {
			p := cliPrepare(t, append([]string{"acquire", "untold", "--ttl=10m", "--no-wait"}, flags...)...)
			p.cmd.Env = append(p.cmd.Env, cliServer(r.url)...)
			p.cmd.Stdout = to
			p.start()
			p.want(exitNotTold)
			if !strings.Contains(p.stderr.String(), "could not be written") {
				t.Errorf("to %s it says %q", name, p.stderr)
			}
			wantFree(t, r)
		}
	}
}

func TestCLIAcquireHeedsEachSignalThatStops(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	acquire(t, r, "job")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		p := cliStart(t, cliServer(r.url), "acquire", "job")
		awaitQueued(t, r, 1)
		p.signal(sig)
		p.want(128 + int(sig))
		awaitQueued(t, r, 0)
		if said := p.stdout.String() + p.stderr.String(); said != "" {
			t.Errorf("%v: it says %q", sig, said)
		}
	}
}

func TestCLITokenFileThatIsAPipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "token")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	service := cliPlay(t, cliHolding(30, nil))
	args := [][]string{{"run", "job", "--token-file=" + pipe, "--", "true"}, {"acquire", "job", "--token-file=" + pipe}, {"list", "--token-file=" + pipe}}
	for _, args := range args {
		p := cliStart(t, cliServer(service.URL), args...)
		time.AfterFunc(time.Second, func() { p.cmd.Process.Signal(syscall.SIGTERM) }) // it may not have begun by then
		code, status := p.code(), p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		if code != 128+int(syscall.SIGTERM) && !(status.Signaled() && status.Signal() == syscall.SIGTERM) {
			t.Errorf("%q: told to end, it ends with code %d", args, code)
		}
	}
	for _, args := range args {
		cliStart(t, append(cliServer(service.URL), "LATCHKEY_TIMEOUT=1s"), args...).want(exitUnreachable)
	}
	p := cliStart(t, cliServer(service.URL), args[0]...)
	if err := os.WriteFile(pipe, []byte(cliToken+"\n"), 0); err != nil {
		t.Fatal(err)
	}
	p.want(0)
	if sent := service.tokens(); !sent["Bearer "+cliToken] || len(sent) != 1 {
		t.Errorf("sent were %v", sent)
	}
}

// TestCLIIsQuietAboutGarbage: package net/http would show the bytes that a server sent unasked.
func TestCLIIsQuietAboutGarbage(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			line, err := listener.Accept()
			if err != nil {
				return
			}
			line.Read(make([]byte, 64<<10))
			line.Write([]byte("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\nbytes of a garbled server"))
		}
	}()
	p := cliStart(t, cliServer("http://"+listener.Addr().String()), "run", "job", "--no-wait", "--timeout=1s", "--", "true")
	p.want(exitUnreachable)
	if said := p.stderr.String(); strings.Contains(said, "nsolicited") || strings.Count(said, "\n") != 1 {
		t.Errorf("it says %q", said)
	}
}

// TestCLIRunSaysThatNoServerAnswered, and not that it was held up, whoever is the first to see it.
func TestCLIRunSaysThatNoServerAnswered(t *testing.T) {
	t.Parallel()
	r := cliService(t)
	line := etcdtest.NewProxy(t, strings.TrimPrefix(r.url, "http://"))
	var all []*cliProgram
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		p := cliStart(t, cliServer("http://"+line.Addr()), cliRun("silence "+name, []string{"--ttl=3s"}, "sh", "-c", cliBegun+"exec sleep 60")...)
		p.group()
		all = append(all, p)
	}
	line.Blackhole()
	for _, p := range all {
		p.want(exitLost)
		if said := p.stderr.String(); !strings.Contains(said, "could not be renewed in time") {
			t.Errorf("it says %q", said)
		}
	}
}
