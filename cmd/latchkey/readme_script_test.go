package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// saveScripts saves the README's scripts as the README says.
func saveScripts(t *testing.T, fences []fence, dir string) {
	t.Helper()
	var saved []string
	for _, script := range fencesOf(fences, "bash") {
		name, _, _ := strings.Cut(strings.TrimPrefix(script.text[1], "# "), " ")
		saved = append(saved, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(saved, []string{"with-lock", "hold-lock"}) {
		t.Fatalf("README.md has the scripts %q", saved)
	}
}

// withLock is a script of the README's, running a job.
type withLock struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *output
}

// newWithLock prepares the script that renews by itself.
func newWithLock(t *testing.T, url string, args ...string) *withLock {
	t.Helper()
	return newScript(t, url, "with-lock", args...)
}

// newScript prepares a script in a process group of its own, as a shell with a terminal does. It is not started.
func newScript(t *testing.T, url, script string, args ...string) *withLock {
	t.Helper()
	heedsHangup()
	dir := t.TempDir()
	_, fences := readme(t)
	saveScripts(t, fences, dir)
	w := &withLock{cmd: exec.Command("bash", append([]string{script}, args...)...), out: newOutput()}
	w.cmd.Dir = dir
	w.cmd.Env = readmeEnvironment(dir, "LATCHKEY_URL="+url+"/", "LOCK_TTL=3", "no_proxy=*")
	w.cmd.Stdout, w.cmd.Stderr = w.out, w.out
	w.cmd.WaitDelay = bound
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return w
}

func (w *withLock) start(t *testing.T) {
	t.Helper()
	var err error
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.signal(syscall.SIGKILL) })
}

func startWithLock(t *testing.T, url string, job ...string) *withLock {
	t.Helper()
	w := newWithLock(t, url, append([]string{"job"}, job...)...)
	w.start(t)
	return w
}

// signal is for the whole process group of the script, as Ctrl-C is.
func (w *withLock) signal(sig syscall.Signal) { syscall.Kill(-w.cmd.Process.Pid, sig) }

// job is the process group of the job that says it.
func (w *withLock) job(t *testing.T) int {
	t.Helper()
	pid, err := strconv.Atoi(w.out.await(t, `begun (\d+)\n`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(-pid, syscall.SIGKILL) })
	return pid
}

// status is what the script ends with.
func (w *withLock) status() int {
	late := time.AfterFunc(bound, func() { w.cmd.Process.Kill() })
	defer late.Stop()
	w.cmd.Wait()
	return w.cmd.ProcessState.ExitCode()
}

// listed are the claims of a state.
func listed(t *testing.T, r *running, state string) []map[string]any {
	t.Helper()
	_, list := ask(t, http.MethodGet, r.url+"/locks?state="+state, "")
	var found []map[string]any
	for _, lock := range list["locks"].([]any) {
		found = append(found, lock.(map[string]any))
	}
	return found
}

// awaitQueued waits until so many wait in line.
func awaitQueued(t *testing.T, r *running, want int) {
	t.Helper()
	for late := time.Now().Add(bound); len(listed(t, r, "queued")) != want; {
		if time.Now().After(late) {
			t.Fatalf("queued are not %d within %v, but %v", want, bound, listed(t, r, "queued"))
		}
	}
}

// awaitRenewals waits for more renewals than the TTL of three seconds has room for, at one a second.
func awaitRenewals(t *testing.T, r *running) {
	t.Helper()
	before := strings.Count(r.log.String(), "operation=renewLease")
	r.log.await(t, fmt.Sprintf(`(?s)^(.*operation=renewLease){%d}`, before+4))
}

// releaseAll gives back all locks, or places, of a state.
func releaseAll(t *testing.T, r *running, state string) {
	t.Helper()
	for _, lock := range listed(t, r, state) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, r.url+"/locks/"+lock["id"].(string), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			t.Fatalf("release answers %s", resp.Status)
		}
	}
}

func wantFree(t *testing.T, r *running) {
	t.Helper()
	if left := listed(t, r, "held"); len(left) > 0 {
		t.Errorf("still held: %v", left)
	}
}

func TestReadmeScript(t *testing.T) {
	needCurl(t)
	r := serve(t, "--data-dir="+t.TempDir()+"/data")
	t.Run("waits in line and passes the status on", func(t *testing.T) {
		first := acquire(t, r, "job")
		w := startWithLock(t, r.url, "bash", "-c", "echo token $FENCING_TOKEN; exit 7")
		awaitQueued(t, r, 1)
		releaseAll(t, r, "held")
		if got := w.status(); got != 7 {
			t.Errorf("status %d, want the job's 7: %s", got, w.out)
		}
		if token, _ := strconv.ParseFloat(w.out.await(t, `token (\d+)\n`), 64); token <= first {
			t.Errorf("token %.0f after %.0f", token, first)
		}
		wantFree(t, r)
	})
	t.Run("renews", func(t *testing.T) {
		w := startWithLock(t, r.url, "bash", "-c", "echo begun $$; cat")
		w.job(t)
		awaitRenewals(t, r)
		if held := listed(t, r, "held"); len(held) != 1 {
			t.Errorf("held is %v, want the one lock", held)
		}
		w.stdin.Close()
		if got := w.status(); got != 0 {
			t.Errorf("status %d: %s", got, w.out)
		}
		wantFree(t, r)
	})
	t.Run("stops the job when the lock is lost", func(t *testing.T) {
		w := startWithLock(t, r.url, "bash", "-c", "echo begun $$; cat; echo went on")
		w.job(t)
		releaseAll(t, r, "held")
		if got := w.status(); got != 75 || !strings.Contains(w.out.String(), "job was lost") || strings.Contains(w.out.String(), "went on") {
			t.Errorf("status %d, want 75: %s", got, w.out)
		}
	})
	t.Run("claims again when its place is lost", func(t *testing.T) {
		acquire(t, r, "job")
		w := startWithLock(t, r.url, "echo", "ran")
		awaitQueued(t, r, 1)
		releaseAll(t, r, "queued")
		awaitQueued(t, r, 1)
		releaseAll(t, r, "held")
		if got := w.status(); got != 0 || !strings.HasSuffix(w.out.String(), "ran\n") {
			t.Errorf("status %d, want 0: %s", got, w.out)
		}
	})
	t.Run("gives up when told to, and leaves the line", func(t *testing.T) {
		acquire(t, r, "job")
		w := newWithLock(t, r.url, "job", "echo", "ran")
		w.cmd.Env = append(w.cmd.Env, "LOCK_WAIT=1")
		w.start(t)
		if got := w.status(); got != 75 || w.out.String() != "with-lock: job was not to be had in 1 seconds\n" {
			t.Errorf("status %d, want 75: %s", got, w.out)
		}
		awaitQueued(t, r, 0)
		releaseAll(t, r, "held")
	})
	t.Run("says once that nobody answers", func(t *testing.T) {
		w := newWithLock(t, "http://127.0.0.1:1", "job", "echo", "ran")
		w.cmd.Env = append(w.cmd.Env, "LOCK_WAIT=3")
		w.start(t)
		if got := w.status(); got != 75 || strings.Count(w.out.String(), "no answer") != 1 || strings.Contains(w.out.String(), "ran") {
			t.Errorf("status %d, want 75: %s", got, w.out)
		}
	})
	t.Run("says what it was refused for", func(t *testing.T) {
		w := newWithLock(t, r.url, strings.Repeat("n", 256), "echo", "ran")
		w.start(t)
		if got := w.status(); got != 75 || !strings.Contains(w.out.String(), "invalid_request") {
			t.Errorf("status %d, want 75: %s", got, w.out)
		}
	})
	for name, tt := range map[string]struct{ env, args []string }{
		"no name":        {},
		"no command":     {args: []string{"job"}},
		"a quote":        {args: []string{`a"b`, "echo", "ran"}},
		"a short TTL":    {env: []string{"LOCK_TTL=2"}, args: []string{"job", "echo", "ran"}},
		"no number":      {env: []string{"LOCK_TTL=30s"}, args: []string{"job", "echo", "ran"}},
		"no number wait": {env: []string{"LOCK_WAIT=1m"}, args: []string{"job", "echo", "ran"}},
	} {
		t.Run("says how to call it: "+name, func(t *testing.T) {
			w := newWithLock(t, r.url, tt.args...)
			w.cmd.Env = append(w.cmd.Env, tt.env...)
			w.start(t)
			if got := w.status(); got != 64 || !strings.HasPrefix(w.out.String(), "usage: ") {
				t.Errorf("status %d, want 64: %s", got, w.out)
			}
		})
	}
}
