package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cliProgram is a command of the client, a process as a shell starts it.
type cliProgram struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr *output
	ended          chan struct{}
}

// cliStart starts a command in a process group of its own. The variables are of the form NAME=value.
func cliStart(t *testing.T, variables []string, args ...string) *cliProgram {
	t.Helper()
	return cliStartReading(t, nil, variables, args...)
}

func cliStartReading(t *testing.T, stdin io.Reader, variables []string, args ...string) *cliProgram {
	t.Helper()
	return cliStartFile(t, os.Args[0], stdin, variables, args...)
}

// heedsHangup sees to it that what is started heeds a hangup: who runs the tests by nohup hands down that it is ignored.
func heedsHangup() {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangups, syscall.SIGHUP)
	}
}

var hangups = make(chan os.Signal, 1)

func cliStartFile(t *testing.T, file string, stdin io.Reader, variables []string, args ...string) *cliProgram {
	t.Helper()
	p := cliPrepare(t, args...)
	p.cmd.Path, p.cmd.Args[0] = file, file
	p.cmd.Env, p.cmd.Stdin = append(p.cmd.Env, variables...), stdin
	p.start()
	return p
}

// cliPrepare is a command that can be changed before its start.
func cliPrepare(t *testing.T, args ...string) *cliProgram {
	p := &cliProgram{t: t, cmd: exec.Command(os.Args[0], args...), stdout: newOutput(), stderr: newOutput(), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = bound
	return p
}

func (p *cliProgram) start() {
	p.t.Helper()
	heedsHangup()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		p.cmd.Wait()
	}()
	p.t.Cleanup(func() {
		p.cmd.Process.Signal(syscall.SIGCONT)
		p.cmd.Process.Kill() // its guard ends the rest
		<-p.ended
	})
}

// code is the exit code, once it has ended.
func (p *cliProgram) code() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(2 * bound):
		p.t.Fatalf("%q has not ended within %v; it says %s%s", p.cmd.Args, 2*bound, p.stdout, p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// want is code, and complains of another one.
func (p *cliProgram) want(code int) {
	p.t.Helper()
	if got := p.code(); got != code {
		p.t.Errorf("%q: exit code %d, want %d; it says %s%s", p.cmd.Args[1:], got, code, p.stdout, p.stderr)
	}
}

func (p *cliProgram) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// group is the process group of the job that says it.
func (p *cliProgram) group() int {
	p.t.Helper()
	group, err := strconv.Atoi(p.stdout.await(p.t, `begun (\d+)\n`))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { syscall.Kill(-group, syscall.SIGKILL) })
	return group
}

// guard is the process that the job's is a child of.
func (p *cliProgram) guard() int {
	p.t.Helper()
	guard, err := strconv.Atoi(p.stdout.await(p.t, `guarded by (\d+)\n`))
	if err != nil {
		p.t.Fatal(err)
	}
	return guard
}

const cliBegun = `echo guarded by $PPID; echo begun $$; `

// cliAlive says whether a process of the group can still do anything.
func cliAlive(group int) bool {
	alive, _ := survivors(group)
	return alive
}

// cliResource is what a lock protects, on a line: each token that is written there is a write. It follows the fencing rule,
// and keeps what it was asked.
type cliResource struct {
	register
	address string
	mu      sync.Mutex
	writes  []cliWrite
}

type cliWrite struct {
	token int64
	at    time.Time
	taken bool
}

func newCLIResource(t *testing.T) *cliResource {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &cliResource{address: strings.Replace(listener.Addr().String(), ":", "/", 1)}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			line, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { line.Close() })
			serving.Go(func() { r.serve(line) })
		}
	})
	t.Cleanup(func() { listener.Close() })
	return r
}

func (r *cliResource) serve(line net.Conn) {
	for from := bufio.NewScanner(line); from.Scan(); {
		if token, err := strconv.ParseInt(from.Text(), 10, 64); err == nil {
			r.take(token)
		}
	}
}

func (r *cliResource) take(token int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.write(token)
	r.writes = append(r.writes, cliWrite{token, time.Now(), taken})
	return taken
}

// of are the writes with a token.
func (r *cliResource) of(token int64) []cliWrite {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.writes), func(w cliWrite) bool { return w.token != token })
}

// awaitWrites waits until something was written, and returns by which token.
func (r *cliResource) awaitWrites(t *testing.T) int64 {
	t.Helper()
	var token int64
	eventually(t, bound, "the command writes", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.writes) > 0 {
			token = r.writes[len(r.writes)-1].token
		}
		return token != 0
	})
	return token
}

// job is a command for bash that writes for ever, and does not listen to SIGTERM.
func (r *cliResource) job() []string {
	return []string{"bash", "-c", cliBegun + `trap "" TERM; exec 3>/dev/tcp/` + r.address + `; while echo $LATCHKEY_FENCING_TOKEN >&3; do sleep 0.02; done`}
}

// cliRun are the arguments of run.
func cliRun(name string, flags []string, command ...string) []string {
	return slices.Concat([]string{"run", name}, flags, []string{"--"}, command)
}

func cliServer(urls ...string) []string {
	return []string{"LATCHKEY_SERVER=" + strings.Join(urls, ",")}
}

// cliOther is a server that is not latchkey.
func cliOther(t *testing.T, status int) string {
	t.Helper()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(other.Close)
	return other.URL
}

// cliService is latchkey on an etcd of its own, a process: etcd cannot be started more than once at a time in one.
func cliService(t *testing.T) *running {
	t.Helper()
	served := startReplica(t, "--data-dir="+t.TempDir()+"/data")
	return &running{t: t, url: served.url(), log: served.life.Load().log}
}
