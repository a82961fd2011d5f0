package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// process is a server that the benchmark has started.
type process struct {
	name  string
	log   string // a file
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{}
}

// startRole starts this very program in a role.
func startRole(dir, name string, r role) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleEnv+"="+string(encoded))
	return start(dir, name, cmd)
}

// start starts a server whose log goes to a file in dir.
func start(dir, name string, cmd *exec.Cmd) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), cmd: cmd, ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = tied()
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.ended)
		cmd.Wait() // killed by us, or its log says why
	}()
	return p, nil
}

// await asks until the server answers.
func (p *process) await(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	for {
		try, cancel := context.WithTimeout(ctx, readyTry)
		err := ask(try)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended by itself: its log is %s", p.name, p.log)
		case <-ctx.Done():
			return fmt.Errorf("%s did not get ready: %w: its log is %s", p.name, err, p.log)
		case <-pause(readyPause):
		}
	}
}

func (p *process) alive() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s ended by itself: its log is %s", p.name, p.log)
	default:
		return nil
	}
}

// say writes a line to the server's standard input.
func (p *process) say(line string) error {
	_, err := fmt.Fprintln(p.stdin, line)
	return err
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
	p.stdin.Close()
}

// freeAddresses names n loopback addresses that nobody listens on just now.
func freeAddresses(n int) ([]string, error) {
	list := make([]string, 0, n)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // kept until all are found, or one could be found twice
		list = append(list, l.Addr().String())
	}
	return list, nil
}
