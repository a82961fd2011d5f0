//go:build unix

package etcdtest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// process is one run of a member.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer     // closed, it ends the member
	ended chan struct{} // when the process has been waited for
}

// startMember runs this very binary as a member. What it logs is appended to the file logPath.
func startMember(spec memberSpec, logPath string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), memberEnv+"="+string(encoded))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = tied()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start member: %w", err)
	}
	p := &process{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		cmd.Wait() // killed by us or seen in its log
	}()
	return p, nil
}

func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// kill ends the process, be it stopped, and waits until it is gone.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
	p.stdin.Close()
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}
