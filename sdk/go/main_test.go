package latchkey_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"go.uber.org/goleak"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// bound is how long a test waits for what must happen soon; the machine may be busy.
const bound = 30 * time.Second

// parallel is how many tests run at a time: they wait more than they compute.
const parallel = "12"

var (
	program string // the built binary
	shared  string // the base URL of a server for all tests, each with lock names of its own
)

func TestMain(m *testing.M) {
	if name := os.Getenv(holderEnv); name != "" {
		os.Exit(beHolder(name))
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "latchkey-sdk-go-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "latchkey")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/latchkey/latchkey/cmd/latchkey").CombinedOutput(); err != nil {
		return fail(fmt.Errorf("go build: %w: %s", err, out))
	}
	server, err := startReplica("--data-dir=" + filepath.Join(dir, "data"))
	if err != nil {
		return fail(err)
	}
	defer server.kill()
	shared = server.url
	os.Setenv("LATCHKEY_SERVER", shared) // for the examples
	flag.Parse()
	flag.Set("test.parallel", parallel)
	code := m.Run()
	server.kill()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			return fail(fmt.Errorf("goroutines outlive the tests: %w", err))
		}
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// replica is a process of the service.
type replica struct {
	cmd   *exec.Cmd
	url   string
	ended chan struct{}
}

var listens = regexp.MustCompile(`listens on (http://[^,]+), store: `)

// startReplica starts the binary on a free port, and returns when it serves.
func startReplica(args ...string) (*replica, error) {
	r := &replica{
		cmd:   exec.Command(program, append([]string{"serve", "--listen=127.0.0.1:0"}, args...)...),
		ended: make(chan struct{}),
	}
	r.cmd.SysProcAttr = tied()
	log, err := r.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	serves := make(chan string, 1)
	go func() {
		defer close(r.ended)
		defer close(serves)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if found := listens.FindStringSubmatch(lines.Text()); found != nil {
				serves <- found[1]
				break
			}
		}
		io.Copy(io.Discard, log) // until it ends
		r.cmd.Wait()             // killed by us
	}()
	select {
	case r.url = <-serves:
	case <-time.After(bound):
	}
	if r.url == "" {
		r.kill()
		return nil, fmt.Errorf("latchkey serve %q does not serve", args)
	}
	return r, nil
}

func (r *replica) kill() {
	r.cmd.Process.Kill()
	<-r.ended
}

// serve starts a replica for this test alone.
func serve(t *testing.T, args ...string) *replica {
	t.Helper()
	r, err := startReplica(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kill)
	return r
}

// newClient returns a client that the test's end closes.
func newClient(t testing.TB, cfg latchkey.Config) *latchkey.Client {
	t.Helper()
	if len(cfg.Servers) == 0 {
		cfg.Servers = []string{shared}
	}
	c, err := latchkey.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
