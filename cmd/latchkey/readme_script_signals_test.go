package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// passing serves what r does, but for the requests that refuse wants to answer itself.
func passing(t *testing.T, r *running, refuse func(w http.ResponseWriter, req *http.Request) bool) string {
	t.Helper()
	target, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	proxy := &httputil.ReverseProxy{Rewrite: func(pr *httputil.ProxyRequest) { pr.SetURL(target) }, Transport: transport}
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !refuse(w, req) {
			proxy.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(between.Close)
	return between.URL
}

func awaitAsked(t *testing.T, w *withLock, asks <-chan struct{}) {
	t.Helper()
	select {
	case <-asks:
	case <-time.After(bound):
		t.Fatalf("it does not ask within %v: %s", bound, w.out)
	}
}

// slowToEnd begins, and when told to end does so once there is a file.
const slowToEnd = `trap 'echo cleaning; until [ -e done ]; do sleep 0.1; done; echo cleaned; exit 0' TERM
echo begun $$
while :; do sleep 0.1; done`

func TestReadmeScriptWithSignals(t *testing.T) {
	needCurl(t)
	r := serve(t, "--data-dir="+t.TempDir()+"/data")

	for _, tt := range []struct {
		signal syscall.Signal
		status int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}, {syscall.SIGHUP, 129}} {
		t.Run("keeps the lock until the job has ended: "+tt.signal.String(), func(t *testing.T) {
			w := startWithLock(t, r.url, "bash", "-c", slowToEnd)
			w.job(t)
			mine := listed(t, r, "held")[0]["id"]
			status, other := ask(t, http.MethodPost, r.url+"/locks", `{"name":"job","queue":true}`)
			if status != http.StatusAccepted {
				t.Fatalf("the other's claim answers %d %v, want 202", status, other)
			}
			w.signal(tt.signal)
			w.out.await(t, "cleaning")
			w.signal(tt.signal)
			awaitRenewals(t, r)
			if held := listed(t, r, "held"); len(held) != 1 || held[0]["id"] != mine {
				t.Errorf("while the job ends, held is %v, want %v: %s", held, mine, w.out)
			}
			if strings.Contains(w.out.String(), "cleaned") {
				t.Fatalf("the job ended early: %s", w.out)
			}
			if err := os.WriteFile(filepath.Join(w.cmd.Dir, "done"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := w.status(); got != tt.status || !strings.Contains(w.out.String(), "cleaned") {
				t.Errorf("status %d, want %d: %s", got, tt.status, w.out)
			}
			if held := listed(t, r, "held"); len(held) > 0 && held[0]["id"] == mine {
				t.Errorf("it has not released")
			}
			if _, lock := ask(t, http.MethodGet, r.url+"/locks/"+other["id"].(string)+"?wait_seconds=10", ""); lock["state"] != "held" {
				t.Errorf("the other then has %v", lock)
			}
			releaseAll(t, r, "held")
		})
	}
	t.Run("stops a job that stands still", func(t *testing.T) {
		w := startWithLock(t, r.url, "bash", "-c", "echo begun $$; cat; echo went on")
		syscall.Kill(-w.job(t), syscall.SIGSTOP)
		w.cmd.Process.Signal(syscall.SIGTERM)
		if got := w.status(); got != 143 || strings.Contains(w.out.String(), "went on") {
			t.Errorf("status %d, want 143: %s", got, w.out)
		}
		wantFree(t, r)
	})
	t.Run("killed, it renews as long as the job runs", func(t *testing.T) {
		w := startWithLock(t, r.url, "bash", "-c", "echo begun $$; cat")
		w.job(t)
		w.cmd.Process.Kill()
		awaitRenewals(t, r)
		if held := listed(t, r, "held"); len(held) != 1 {
			t.Errorf("while the job runs, held is %v: %s", held, w.out)
		}
		w.stdin.Close()
		if status, next := ask(t, http.MethodPost, r.url+"/locks", `{"name":"job","wait_seconds":15}`); status != http.StatusCreated {
			t.Errorf("after the job has ended, a claim answers %d %v, want 201", status, next)
		}
		releaseAll(t, r, "held")
		w.status()
	})
	t.Run("leaves the line at once", func(t *testing.T) {
		acquire(t, r, "job")
		asks := make(chan struct{}, 1)
		between := passing(t, r, func(_ http.ResponseWriter, req *http.Request) bool {
			if req.Method == http.MethodGet {
				asks <- struct{}{}
			}
			return false
		})
		w := startWithLock(t, between, "echo", "ran")
		awaitAsked(t, w, asks)
		w.cmd.Process.Signal(syscall.SIGTERM)
		if got := w.status(); got != 143 || w.out.String() != "" {
			t.Errorf("status %d, want 143: %s", got, w.out)
		}
		if left := listed(t, r, "queued"); len(left) > 0 {
			t.Errorf("still queued: %v", left)
		}
		releaseAll(t, r, "held")
	})
	t.Run("leaves the line though it has not been told its place", func(t *testing.T) {
		acquire(t, r, "job")
		asks, told := make(chan struct{}, 1), make(chan struct{})
		between := passing(t, r, func(_ http.ResponseWriter, req *http.Request) bool {
			if req.Method == http.MethodPost {
				asks <- struct{}{}
				select {
				case <-told:
				case <-time.After(bound):
				}
			}
			return false
		})
		w := startWithLock(t, between, "echo", "ran")
		awaitAsked(t, w, asks)
		w.cmd.Process.Signal(syscall.SIGTERM)
		close(told)
		if got := w.status(); got != 143 || w.out.String() != "" {
			t.Errorf("status %d, want 143: %s", got, w.out)
		}
		if left := listed(t, r, "queued"); len(left) > 0 {
			t.Errorf("still queued: %v", left)
		}
		releaseAll(t, r, "held")
	})
}

func TestReadmeScriptTriesTheFirstRenewalAgain(t *testing.T) {
	needCurl(t)
	r := serve(t, "--data-dir="+t.TempDir()+"/data")
	for name, tt := range map[string]struct {
		failures int64
		status   int
		says     string
	}{
		"once":  {1, 0, "ran\n"},
		"often": {1000, 75, "with-lock: job was granted, but could not be renewed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var puts atomic.Int64
			between := passing(t, r, func(w http.ResponseWriter, req *http.Request) bool {
				if req.Method != http.MethodPut || puts.Add(1) > tt.failures {
					return false
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			})
			w := startWithLock(t, between, "echo", "ran")
			if got := w.status(); got != tt.status || w.out.String() != tt.says {
				t.Errorf("status %d, want %d: %q, want %q", got, tt.status, w.out, tt.says)
			}
			wantFree(t, r)
		})
	}
}
