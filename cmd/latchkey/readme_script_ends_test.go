package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leavesBehind ends at once, and leaves a process that ends when there is a file, or is made to.
const leavesBehind = `(trap 'echo cleaning; until [ -e done ]; do sleep 0.1; done; echo cleaned; exit' TERM
touch ready; while :; do sleep 0.1; done) &
echo begun $$; until [ -e ready ]; do sleep 0.1; done; exit 7`

func TestReadmeScriptsKeepTheLockForWhatTheJobLeaves(t *testing.T) {
	needCurl(t)
	for _, script := range readmeScripts {
		t.Run(script+": until it has ended", func(t *testing.T) {
			t.Parallel()
			r := serve(t, "--data-dir="+t.TempDir()+"/data")
			w := startScript(t, r.url, script, "bash", "-c", leavesBehind)
			w.out.await(t, "cleaning")
			if held := listed(t, r, "held"); len(held) != 1 {
				t.Errorf("while it cleans up, held is %v, want the one lock: %s", held, w.out)
			}
			saveText(t, filepath.Join(w.cmd.Dir, "done"), "")
			if got := w.status(); got != 7 || !strings.Contains(w.out.String(), "cleaned") {
				t.Errorf("status %d, want the job's 7: %s", got, w.out)
			}
			wantFree(t, r)
		})
		t.Run(script+": and ends it when it does not", func(t *testing.T) {
			t.Parallel()
			r := serve(t, "--data-dir="+t.TempDir()+"/data")
			w := startScript(t, r.url, script, "bash", "-c", leavesBehind)
			job := w.job(t)
			if got := w.status(); got != 7 || strings.Contains(w.out.String(), "cleaned") {
				t.Errorf("status %d, want the job's 7: %s", got, w.out)
			}
			wantGroupGone(t, job)
			wantFree(t, r)
		})
	}
}

// wantGroupGone asks that nothing is left of a process group. Who was killed may take a moment to be reaped.
func wantGroupGone(t *testing.T, group int) {
	t.Helper()
	for late := time.Now().Add(bound); syscall.Kill(-group, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the job goes on")
		}
	}
}

// startsSomething are the lines of a script after which something runs, or is there, that a signal must not leave behind.
var startsSomething = regexp.MustCompile(`[^&]&$|=\$\((curl|mktemp) `)

// signalsItself is done once, by the script.
const signalsItself = `[ -e signalled ] || { touch signalled; kill -TERM $$; }`

func TestReadmeScriptsLeaveNothingWhenASignalComesAtAStart(t *testing.T) {
	needCurl(t)
	_, fences := readme(t)
	for i, block := range fencesOf(fences, "bash") {
		for n, line := range block.text {
			if !startsSomething.MatchString(line) {
				continue
			}
			t.Run(fmt.Sprintf("%s, line %d", readmeScripts[i], n+1), func(t *testing.T) {
				t.Parallel()
				r := serve(t, "--data-dir="+t.TempDir()+"/data")
				w := newScript(t, r.url, readmeScripts[i], "job", "bash", "-c", "echo begun $$; cat")
				text := strings.Join(block.text[:n+1], "\n") + "\n" + signalsItself + "\n" + strings.Join(block.text[n+1:], "\n") + "\n"
				saveText(t, filepath.Join(w.cmd.Dir, readmeScripts[i]), text)
				scratch := t.TempDir()
				w.cmd.Env = append(w.cmd.Env, "LOCK_TTL=9", "TMPDIR="+scratch)
				w.start(t)
				if got := w.status(); got != 143 {
					t.Errorf("status %d after %q, want 143: %s", got, line, w.out)
				}
				if begun := regexp.MustCompile(`begun (\d+)`).FindStringSubmatch(w.out.String()); begun != nil {
					job, _ := strconv.Atoi(begun[1])
					t.Cleanup(func() { syscall.Kill(-job, syscall.SIGKILL) })
					if syscall.Kill(-job, 0) == nil {
						t.Errorf("after %q the job goes on", line)
					}
				}
				if left := append(listed(t, r, "held"), listed(t, r, "queued")...); len(left) > 0 {
					t.Errorf("after %q claims are left: %v", line, left)
				}
				if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
					t.Errorf("after %q files are left: %v (%v)", line, left, err)
				}
			})
		}
	}
}
