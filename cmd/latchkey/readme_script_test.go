package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// saveScript saves the README's script as the README says.
func saveScript(t *testing.T, fences []fence, dir string) {
	t.Helper()
	scripts := fencesOf(fences, "bash")
	if len(scripts) != 1 {
		t.Fatalf("README.md has %d bash blocks, want the one script", len(scripts))
	}
	if err := os.WriteFile(filepath.Join(dir, "with-lock"), []byte(scripts[0].String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// withLock is the README's script, running a job.
type withLock struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *output
}

func startWithLock(t *testing.T, r *running, job ...string) *withLock {
	t.Helper()
	dir := t.TempDir()
	_, fences := readme(t)
	saveScript(t, fences, dir)
	setCurl(t, dir, strings.TrimPrefix(r.url, "http://"))
	w := &withLock{cmd: exec.Command("bash", append([]string{"with-lock", "job"}, job...)...), out: newOutput()}
	w.cmd.Dir = dir
	w.cmd.Env = readmeEnvironment(dir, "LOCK_TTL=3")
	w.cmd.Stdout, w.cmd.Stderr = w.out, w.out
	w.cmd.WaitDelay = bound
	var err error
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.cmd.Process.Kill() })
	return w
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

func TestReadmeScript(t *testing.T) {
	needCurl(t)
	r := serve(t, "--data-dir="+t.TempDir()+"/data")
	release := func(t *testing.T) {
		t.Helper()
		for _, lock := range listed(t, r, "held") {
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
	wantFree := func(t *testing.T) {
		t.Helper()
		if left := listed(t, r, "held"); len(left) > 0 {
			t.Errorf("still held: %v", left)
		}
	}

	t.Run("waits in line and passes the status on", func(t *testing.T) {
		first := acquire(t, r, "job")
		w := startWithLock(t, r, "bash", "-c", "echo token $FENCING_TOKEN; exit 7")
		for late := time.Now().Add(bound); len(listed(t, r, "queued")) == 0; {
			if time.Now().After(late) {
				t.Fatalf("it does not wait after %v: %s", bound, w.out)
			}
		}
		release(t)
		if got := w.status(); got != 7 {
			t.Errorf("status %d, want the job's 7: %s", got, w.out)
		}
		if token, _ := strconv.ParseFloat(w.out.await(t, `token (\d+)\n`), 64); token <= first {
			t.Errorf("token %.0f after %.0f", token, first)
		}
		wantFree(t)
	})
	t.Run("renews", func(t *testing.T) {
		w := startWithLock(t, r, "bash", "-c", "echo begun; cat")
		w.out.await(t, "begun")
		before := strings.Count(r.log.String(), "operation=renewLease")
		r.log.await(t, fmt.Sprintf(`(?s)^(.*operation=renewLease){%d}`, before+4)) // one a second, of a TTL of three
		if held := listed(t, r, "held"); len(held) != 1 {
			t.Errorf("held is %v, want the one lock", held)
		}
		w.stdin.Close()
		if got := w.status(); got != 0 {
			t.Errorf("status %d: %s", got, w.out)
		}
		wantFree(t)
	})
	t.Run("stops the job when the lock is lost", func(t *testing.T) {
		w := startWithLock(t, r, "bash", "-c", "echo begun; cat; echo went on")
		w.out.await(t, "begun")
		release(t)
		if got := w.status(); got != 75 || !strings.Contains(w.out.String(), "job was lost") || strings.Contains(w.out.String(), "went on") {
			t.Errorf("status %d, want 75: %s", got, w.out)
		}
	})
	t.Run("stops the job and releases when told to stop", func(t *testing.T) {
		w := startWithLock(t, r, "bash", "-c", "echo begun; cat; echo went on")
		w.out.await(t, "begun")
		w.cmd.Process.Signal(syscall.SIGTERM)
		if got := w.status(); got != 143 || strings.Contains(w.out.String(), "went on") {
			t.Errorf("status %d, want 143: %s", got, w.out)
		}
		wantFree(t)
	})
}
