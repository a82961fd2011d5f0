package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

var readmeScripts = []string{"with-lock", "hold-lock"}

// startScript runs a script with the TTL that both can have, 9 seconds.
func startScript(t *testing.T, url, script string, job ...string) *withLock {
	t.Helper()
	w := newScript(t, url, script, append([]string{"job"}, job...)...)
	w.cmd.Env = append(w.cmd.Env, "LOCK_TTL=9", "LOCK_WAIT=3")
	w.start(t)
	return w
}

// answering stands where latchkey is thought to be, and answers all alike.
func answering(t *testing.T, answer func(w http.ResponseWriter)) string {
	t.Helper()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
	t.Cleanup(other.Close)
	return other.URL
}

// renews tells of a request that renews, in either script's way.
func renews(req *http.Request) bool { return strings.HasPrefix(req.URL.Path, "/leases/") }

// wantLost asks that the script has stopped its job as one whose lock was lost.
func wantLost(t *testing.T, w *withLock) {
	t.Helper()
	if got := w.status(); got != 75 || !strings.Contains(w.out.String(), "job was lost") {
		t.Errorf("status %d, want 75: %s", got, w.out)
	}
}

func TestReadmeScriptsRunNoJobOnAnAnswerThatIsNotLatchkeys(t *testing.T) {
	needCurl(t)
	const most = 10 // requests in the three seconds that with-lock tries on, one a second
	for name, tt := range map[string]struct {
		status int
		body   string
	}{
		"a login page":            {http.StatusOK, "<html>log in</html>"},
		"a way to the login page": {http.StatusFound, "<html>log in</html>"},
		"a queue":                 {http.StatusAccepted, "<html>log in</html>"},
		"no id":                   {http.StatusCreated, `{"state":"held","fencing_token":7}`},
		"another path for an id":  {http.StatusCreated, `{"id":"a/../b","state":"held","fencing_token":7}`},
		"no state":                {http.StatusCreated, `{"id":"a","fencing_token":7}`},
		"no token":                {http.StatusCreated, `{"id":"a","state":"held"}`},
		"a word for a token":      {http.StatusCreated, `{"id":"a","state":"held","fencing_token":"seven"}`},
	} {
		for _, script := range readmeScripts {
			t.Run(script+": "+name, func(t *testing.T) {
				t.Parallel()
				var asked atomic.Int64
				between := answering(t, func(w http.ResponseWriter) {
					asked.Add(1)
					w.WriteHeader(tt.status)
					io.WriteString(w, tt.body)
				})
				w := startScript(t, between, script, "echo", "ran")
				if got := w.status(); got != 75 || strings.Contains(w.out.String(), "ran\n") {
					t.Errorf("status %d, want 75 and no job: %s", got, w.out)
				}
				if got := asked.Load(); got > most {
					t.Errorf("%d requests, want %d at the most", got, most)
				}
			})
		}
	}
}

func TestReadmeScriptsTakeNoOtherAnswerForARenewal(t *testing.T) {
	needCurl(t)
	for name, body := range map[string]string{
		"a login page": "<html>log in</html>",
		"another id":   `{"id":"another","fencing_token":7,"ttl_seconds":9}`,
		"nothing":      "",
	} {
		for _, script := range readmeScripts {
			t.Run(script+": "+name, func(t *testing.T) {
				t.Parallel()
				r := serve(t, "--data-dir="+t.TempDir()+"/data")
				var instead atomic.Bool
				between := passing(t, r, func(w http.ResponseWriter, req *http.Request) bool {
					if !instead.Load() || !renews(req) {
						return false
					}
					io.WriteString(w, body)
					return true
				})
				w := startScript(t, between, script, "bash", "-c", "echo begun $$; cat")
				w.job(t)
				instead.Store(true)
				wantLost(t, w)
			})
		}
	}
}

func TestReadmeScriptsStopTheJobAtOnceWhenTheLockIsBroken(t *testing.T) {
	needCurl(t)
	for _, script := range readmeScripts {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			r := serve(t, "--data-dir="+t.TempDir()+"/data")
			var broken atomic.Bool
			var told atomic.Int64
			between := passing(t, r, func(w http.ResponseWriter, req *http.Request) bool {
				if !renews(req) {
					return false
				}
				if script == "with-lock" && !broken.Load() { // its first renewal comes before the job
					return false
				}
				told.Add(1)
				w.WriteHeader(http.StatusGone)
				io.WriteString(w, `{"status":410,"code":"lock_broken"}`)
				return true
			})
			w := startScript(t, between, script, "bash", "-c", "echo begun $$; cat")
			w.job(t)
			broken.Store(true)
			wantLost(t, w)
			if got := told.Load(); got != 1 {
				t.Errorf("it was told %d times, want once", got)
			}
		})
	}
}

// TestReadmeScriptsRunNothingTheyAreTold: text of an answer is never evaluated, as arithmetic or otherwise.
func TestReadmeScriptsRunNothingTheyAreTold(t *testing.T) {
	needCurl(t)
	for _, script := range readmeScripts {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			r := serve(t, "--data-dir="+t.TempDir()+"/data")
			file := filepath.Join(t.TempDir(), "ran")
			evil := "ttl[$(touch${IFS}" + file + ")0]"
			between := passing(t, r, func(w http.ResponseWriter, req *http.Request) bool {
				switch {
				case req.Method == http.MethodGet && renews(req):
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "event: renewed\ndata: {\"renewed_after_ms\":%s,\"ttl_seconds\":9}\n\n", evil)
				case req.Method == http.MethodPut:
					fmt.Fprintf(w, `{"id":"%s","fencing_token":%s}`, evil, evil)
				default:
					return false
				}
				return true
			})
			w := startScript(t, between, script, "bash", "-c", "echo begun $$; cat")
			if got := w.status(); got != 75 {
				t.Errorf("status %d, want 75 without a renewal: %s", got, w.out)
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("what was told was run")
			}
		})
	}
	t.Run("in a claim", func(t *testing.T) {
		for _, script := range readmeScripts {
			file := filepath.Join(t.TempDir(), "ran")
			evil := "ttl[$(touch${IFS}" + file + ")0]"
			between := answering(t, func(w http.ResponseWriter) {
				w.WriteHeader(http.StatusCreated)
				fmt.Fprintf(w, `{"id":"a","state":"held","fencing_token":%s}`, evil)
			})
			w := startScript(t, between, script, "echo", "ran")
			if got := w.status(); got != 75 {
				t.Errorf("%s: status %d, want 75: %s", script, got, w.out)
			}
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%s: what was told was run", script)
			}
		}
	})
}

// TestReadmeStreamTrustsNoRenewalOfTomorrow: a stream that says once that the lock was renewed in the time to come, and
// then nothing, keeps no job.
func TestReadmeStreamTrustsNoRenewalOfTomorrow(t *testing.T) {
	needCurl(t)
	r := serve(t, "--data-dir="+t.TempDir()+"/data")
	var streams atomic.Int64
	between := passing(t, r, func(w http.ResponseWriter, req *http.Request) bool {
		if !renews(req) {
			return false
		}
		if streams.Add(1) == 1 {
			io.WriteString(w, "event: renewed\ndata: {\"renewed_after_ms\":999999999,\"ttl_seconds\":9}\n\n")
			return true
		}
		w.(http.Flusher).Flush()
		<-req.Context().Done()
		return true
	})
	wantLost(t, startScript(t, between, "hold-lock", "bash", "-c", "echo begun $$; cat"))
}

// setBack is read by every shell of a script: once there is the file, the clock stands an hour earlier.
const setBack = `set -T; trap '[ ! -e "$CLOCK_IS_SET_BACK" ] || SECONDS=-3600' DEBUG`

func TestReadmeScriptsStopTheJobThoughTheClockIsSetBack(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere they trust the clock, and say so")
	}
	needCurl(t)
	for _, script := range readmeScripts {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			r := serve(t, "--data-dir="+t.TempDir()+"/data")
			var silent atomic.Bool
			between := passing(t, r, func(w http.ResponseWriter, req *http.Request) bool {
				if !silent.Load() || !renews(req) {
					return false
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			})
			dir := t.TempDir()
			saveText(t, filepath.Join(dir, "before"), setBack)
			w := newScript(t, between, script, "job", "bash", "-c", "echo begun $$; cat")
			w.cmd.Env = append(w.cmd.Env, "LOCK_TTL=9", "BASH_ENV="+dir+"/before", "CLOCK_IS_SET_BACK="+dir+"/now")
			w.start(t)
			w.job(t)
			silent.Store(true)
			saveText(t, filepath.Join(dir, "now"), "")
			wantLost(t, w)
		})
	}
}
