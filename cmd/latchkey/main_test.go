package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// asProgram makes this test binary the program itself.
const asProgram = "LATCHKEY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	etcdtest.Main(m)
}

const bound = 20 * time.Second

// output is what a program writes, while it does.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{}
}

func newOutput() *output { return &output{wrote: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await returns what pattern's group finds, once it is there.
func (o *output) await(t *testing.T, pattern string) string {
	t.Helper()
	late := time.After(bound)
	for {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(o.String()); found != nil {
			return found[len(found)-1]
		}
		select {
		case <-o.wrote:
		case <-late:
			t.Fatalf("%q was not written within %v, but:\n%s", pattern, bound, o)
		}
	}
}

const listens = `listens on (http://[^,]+), store: `

// running is a server in this process.
type running struct {
	t         *testing.T
	url       string
	log       *output
	stop, cut context.CancelFunc
	ended     chan error
}

// launch runs the program on a free port. It does not wait until it serves.
func launch(t *testing.T, args ...string) *running {
	t.Helper()
	stop, stopNow := context.WithCancel(context.Background())
	cut, cutNow := context.WithCancel(context.Background())
	r := &running{t: t, log: newOutput(), stop: stopNow, cut: cutNow, ended: make(chan error, 1)}
	go func() {
		defer close(r.ended)
		r.ended <- run(stop, cut, append([]string{"serve", "--listen=127.0.0.1:0"}, args...), io.Discard, r.log)
	}()
	t.Cleanup(func() {
		stopNow()
		cutNow()
		<-r.ended
	})
	return r
}

func serve(t *testing.T, args ...string) *running {
	t.Helper()
	r := launch(t, args...)
	r.url = r.log.await(t, listens)
	return r
}

// end stops the server softly and returns what it ended with.
func (r *running) end() error {
	r.t.Helper()
	r.stop()
	return r.wait()
}

func (r *running) wait() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(bound):
		r.t.Fatalf("did not end within %v; log:\n%s", bound, r.log)
		return nil
	}
}

// ask makes a request without keeping its connection, and reads its JSON answer.
func ask(t *testing.T, method, url, body string) (int, map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatalf("%s %s: %s with a body that is not JSON: %v", method, url, resp.Status, err)
	}
	return resp.StatusCode, answer
}

// acquire claims a free name and returns its token.
func acquire(t *testing.T, r *running, name string) float64 {
	t.Helper()
	status, lock := ask(t, http.MethodPost, r.url+"/locks", `{"name":"`+name+`"}`)
	if status != http.StatusCreated {
		t.Fatalf("claim of %s answers %d %v, want 201", name, status, lock)
	}
	return lock["fencing_token"].(float64)
}

// call runs a command that ends by itself.
func call(args ...string) (stdout string, err error) {
	out := newOutput()
	err = run(context.Background(), context.Background(), args, out, io.Discard)
	return out.String(), err
}

func isStartError(err error) bool {
	var start *startError
	return errors.As(err, &start)
}

func TestExitCodesAndSignals(t *testing.T) {
	start := func(args ...string) (*exec.Cmd, *output) {
		log := newOutput()
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		cmd.Stderr = log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		return cmd, log
	}
	code := func(cmd *exec.Cmd) int {
		late := time.AfterFunc(bound, func() { cmd.Process.Kill() })
		defer late.Stop()
		cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}

	for name, tt := range map[string]struct {
		args []string
		want int
		says string
	}{
		"a bad setting":   {[]string{"serve", "--max-wait=1h"}, 2, "--max-wait"},
		"an unknown flag": {[]string{"serve", "--max-weight=1h"}, 2, "--max-weight"},
		"a bad end":       {[]string{"healthcheck", "--url=http://127.0.0.1:1"}, 1, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, log := start(tt.args...)
			if got := code(cmd); got != tt.want || !strings.Contains(log.String(), tt.says) {
				t.Errorf("exit code %d, want %d; it says %q, want %q in it", got, tt.want, log, tt.says)
			}
		})
	}

	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(sig.String(), func(t *testing.T) {
			cmd, log := start("serve", "--listen=127.0.0.1:0", "--data-dir="+t.TempDir()+"/data")
			log.await(t, listens)
			cmd.Process.Signal(sig)
			if got := code(cmd); got != 0 {
				t.Errorf("exit code %d, want 0; it says %s", got, log)
			}
		})
	}

	t.Run("a second signal cuts short", func(t *testing.T) {
		cmd, log := start("serve", "--listen=127.0.0.1:0", "--data-dir="+t.TempDir()+"/data", "--drain-timeout=5m")
		url := log.await(t, listens)
		holdRequest(t, url)
		cmd.Process.Signal(syscall.SIGTERM)
		log.await(t, "draining")
		cmd.Process.Signal(syscall.SIGTERM)
		if got := code(cmd); got != 0 {
			t.Errorf("exit code %d, want 0; it says %s", got, log)
		}
		if !strings.Contains(log.String(), "cutting off") {
			t.Errorf("it does not say that it cut off a request: %s", log)
		}
	})
}
