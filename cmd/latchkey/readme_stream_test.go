package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestReadmeScriptThatHoldsByAStream runs the README's hold-lock, through a proxy that can end its streams.
func TestReadmeScriptThatHoldsByAStream(t *testing.T) {
	needCurl(t)
	const ttl = 9
	r := serve(t, "--data-dir="+t.TempDir()+"/data")
	target, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	var streams atomic.Int64
	var silent atomic.Bool
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.FlushInterval = -1
	forward.ErrorLog = log.New(io.Discard, "", 0)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !strings.HasSuffix(req.URL.Path, "/keepalive") {
			forward.ServeHTTP(w, req)
			return
		}
		streams.Add(1)
		if silent.Load() {
			<-req.Context().Done()
			return
		}
		cut, cancel := context.WithTimeout(req.Context(), 1500*time.Millisecond)
		defer cancel()
		forward.ServeHTTP(w, req.WithContext(cut))
	}))
	t.Cleanup(proxy.Close)
	start := func(t *testing.T, job ...string) *withLock {
		t.Helper()
		w := newScript(t, proxy.URL, "hold-lock", append([]string{"job"}, job...)...)
		w.cmd.Env = append(w.cmd.Env, fmt.Sprint("LOCK_TTL=", ttl))
		w.start(t)
		return w
	}

	t.Run("passes the token in and the status on", func(t *testing.T) {
		w := start(t, "bash", "-c", "echo token $FENCING_TOKEN; exit 7")
		if got := w.status(); got != 7 {
			t.Errorf("status %d, want the job's 7: %s", got, w.out)
		}
		if token, _ := strconv.ParseFloat(w.out.await(t, `token (\d+)\n`), 64); token == 0 {
			t.Errorf("no token: %s", w.out)
		}
		wantFree(t, r)
	})
	t.Run("opens the stream again", func(t *testing.T) {
		before := streams.Load()
		w := start(t, "bash", "-c", "echo begun $$; cat")
		w.job(t)
		for late := time.Now().Add(bound); streams.Load() < before+8; { // which takes longer than the TTL
			if time.Now().After(late) {
				t.Fatalf("%d streams within %v: %s", streams.Load()-before, bound, w.out)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if held := listed(t, r, "held"); len(held) != 1 {
			t.Errorf("held is %v, want the one lock: %s", held, w.out)
		}
		w.stdin.Close()
		if got := w.status(); got != 0 {
			t.Errorf("status %d: %s", got, w.out)
		}
		wantFree(t, r)
	})
	t.Run("stops the job when the lock is gone", func(t *testing.T) {
		w := start(t, "bash", "-c", "echo begun $$; cat; echo went on")
		w.job(t)
		releaseAll(t, r, "held")
		if got := w.status(); got != 75 || !strings.Contains(w.out.String(), "job was lost") || strings.Contains(w.out.String(), "went on") {
			t.Errorf("status %d, want 75: %s", got, w.out)
		}
	})
	t.Run("stops the job before another can have the lock when nothing is renewed", func(t *testing.T) {
		silent.Store(true)
		defer silent.Store(false)
		began := time.Now()
		w := start(t, "bash", "-c", "trap '' TERM; echo begun $$; cat; cat")
		w.job(t)
		if got, took := w.status(), time.Since(began); got != 75 || took >= ttl*time.Second {
			t.Errorf("status %d after %v, want 75 before the TTL of %d s is over: %s", got, took, ttl, w.out)
		}
		wantFree(t, r)
	})
	t.Run("ends the job with itself", func(t *testing.T) {
		w := start(t, "bash", "-c", "echo begun $$; cat")
		job := w.job(t)
		w.signal(syscall.SIGTERM)
		if got := w.status(); got != 143 {
			t.Errorf("status %d, want 143: %s", got, w.out)
		}
		if err := syscall.Kill(-job, 0); err == nil {
			t.Error("the job goes on")
		}
		wantFree(t, r)
	})
	t.Run("is told that another holds it", func(t *testing.T) {
		acquire(t, r, "job")
		w := start(t, "echo", "ran")
		if got := w.status(); got != 75 || w.out.String() != "hold-lock: job was not to be had\n" {
			t.Errorf("status %d, want 75: %s", got, w.out)
		}
		releaseAll(t, r, "held")
	})
	t.Run("is told that nobody answers", func(t *testing.T) {
		w := newScript(t, "http://127.0.0.1:1", "hold-lock", "job", "echo", "ran")
		w.cmd.Env = append(w.cmd.Env, fmt.Sprint("LOCK_TTL=", ttl))
		w.start(t)
		if got := w.status(); got != 75 || !strings.Contains(w.out.String(), "no answer from http://127.0.0.1:1") {
			t.Errorf("status %d, want 75: %s", got, w.out)
		}
	})
	t.Run("says how to call it", func(t *testing.T) {
		w := newScript(t, proxy.URL, "hold-lock", "job")
		w.start(t)
		if got := w.status(); got != 64 || !strings.HasPrefix(w.out.String(), "usage: ") {
			t.Errorf("status %d, want 64: %s", got, w.out)
		}
	})
}
