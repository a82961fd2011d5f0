package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/server"
	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestServeOnItsOwnEtcd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	began := time.Now()
	r := serve(t, "--data-dir", dir)
	t.Logf("serves after %v", time.Since(began))
	if !strings.Contains(r.log.String(), "embedded etcd in "+dir) {
		t.Errorf("it does not say on what store it works:\n%s", r.log)
	}
	if status, answer := ask(t, http.MethodGet, r.url+"/readyz", ""); status != http.StatusOK {
		t.Errorf("readyz answers %d %v", status, answer)
	}
	acquire(t, r, "kept")
	wantMetrics(t, r.url, "latchkey_", "go_goroutines", "process_")
	if err := r.end(); err != nil {
		t.Fatalf("ended with %v", err)
	}

	r = serve(t, "--data-dir", dir)
	status, answer := ask(t, http.MethodPost, r.url+"/locks", `{"name":"kept"}`)
	if status != http.StatusConflict {
		t.Errorf("after a restart the lock is not held: %d %v", status, answer)
	}
}

func wantMetrics(t *testing.T, url string, families ...string) {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.Contains(string(text), "\n"+f) {
			t.Errorf("no metric begins with %s", f)
		}
	}
	if strings.Contains(string(text), "\netcd_") {
		t.Error("etcd's own metrics are among ours")
	}
}

func TestTokensGrowThoughTheDataIsDeletedTwiceInASecond(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	last := 0.0
	for range 3 {
		r := serve(t, "--data-dir", dir)
		for range 2 {
			token := acquire(t, r, fmt.Sprintf("a%.0f", last))
			if token <= last {
				t.Fatalf("token %.0f after %.0f", token, last)
			}
			last = token
		}
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServeOnACluster(t *testing.T) {
	etcd := etcdtest.New(t)
	t.Setenv("LATCHKEY_ETCD_ENDPOINTS", "http://"+etcd.Endpoint())
	a := serve(t, "--etcd-prefix=/mine/")
	b := serve(t, "--etcd-prefix=/mine/", "--log-format=json")
	acquire(t, a, "shared")
	status, answer := ask(t, http.MethodPost, b.url+"/locks", `{"name":"shared"}`)
	if status != http.StatusConflict {
		t.Errorf("the other replica answers %d %v, want 409", status, answer)
	}
	if got, want := b.log.String(), `"msg":"latchkey `+versionText()+" listens on "; !strings.Contains(got, want) {
		t.Errorf("the log is not JSON:\n%s", got)
	}
	all, err := etcd.Client(t).Get(t.Context(), "\x00", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range all.Kvs {
		if !strings.HasPrefix(string(kv.Key), "/mine/") {
			t.Errorf("a key outside the prefix: %q", kv.Key)
		}
	}
	for _, r := range []*running{a, b} {
		if err := r.end(); err != nil {
			t.Errorf("ended with %v", err)
		}
	}
}

func TestServeEndsWaitsWhenItStops(t *testing.T) {
	r := serve(t, "--data-dir="+t.TempDir()+"/data", "--drain-timeout=5m")
	acquire(t, r, "busy")
	type answer struct {
		status int
		body   map[string]any
	}
	waited := make(chan answer, 1)
	go func() {
		status, body := ask(t, http.MethodPost, r.url+"/locks", `{"name":"busy","wait_seconds":50,"queue":true}`)
		waited <- answer{status, body}
	}()
	for late := time.Now().Add(bound); ; { // the queue shows when it waits
		if _, list := ask(t, http.MethodGet, r.url+"/locks?state=queued", ""); len(list["locks"].([]any)) == 1 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("nobody waits after %v", bound)
		}
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if got := <-waited; got.status != http.StatusAccepted {
		t.Errorf("the wait ended with %d %v, want 202", got.status, got.body)
	}
}

func TestServeCutsOffWhatDoesNotEndInTime(t *testing.T) {
	r := serve(t, "--data-dir="+t.TempDir()+"/data", "--drain-timeout=100ms")
	line := holdRequest(t, r.url)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.log.String(), "cutting off") {
		t.Errorf("it does not say that it cut off a request:\n%s", r.log)
	}
	line.SetReadDeadline(time.Now().Add(bound))
	if _, err := io.Copy(io.Discard, line); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the connection stayed open")
	}
}

// holdRequest leaves a request under way: its body does not come to an end.
func holdRequest(t *testing.T, url string) net.Conn {
	t.Helper()
	line, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { line.Close() })
	fmt.Fprint(line, "POST /locks HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")
	line.SetReadDeadline(time.Now().Add(bound))
	// 100 Continue is sent when a handler reads the body
	if first, err := bufio.NewReader(line).ReadString('\n'); err != nil || !strings.Contains(first, "100") {
		t.Fatalf("got %q, %v, want 100 Continue", first, err)
	}
	return line
}

func TestSecondServerOnTheSameDataIsRefused(t *testing.T) {
	dir := t.TempDir() + "/data"
	first := serve(t, "--data-dir", dir)
	err := launch(t, "--data-dir", dir).wait()
	if !isStartError(err) || !strings.Contains(err.Error(), "another process") || !strings.Contains(err.Error(), dir) {
		t.Errorf("the second ended with %v", err)
	}
	acquire(t, first, "a")
}

func TestServeOnATakenAddressIsRefused(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = launch(t, "--data-dir="+t.TempDir()+"/data", "--listen", taken.Addr().String()).wait()
	if !isStartError(err) || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("ended with %v", err)
	}
}

func TestServeSaysThatItWaitsForEtcd(t *testing.T) {
	etcd := etcdtest.New(t)
	etcd.Stop()
	r := launch(t, "--etcd-endpoints", etcd.Endpoint())
	r.log.await(t, "waiting for etcd at "+etcd.Endpoint())
	etcd.Start()
	r.url = r.log.await(t, listens)
	acquire(t, r, "a")
	if err := r.end(); err != nil {
		t.Fatal(err)
	}

	etcd.Stop()
	r = launch(t, "--etcd-endpoints", etcd.Endpoint())
	r.log.await(t, "waiting for etcd at")
	if err := r.end(); err != nil {
		t.Errorf("stopped while waiting, it ended with %v", err)
	}
}

func TestServeAsAUserOfEtcd(t *testing.T) {
	const password = "correct-horse"
	etcd := etcdtest.New(t)
	c := etcd.Client(t)
	for _, err := range []error{
		second(c.UserAdd(t.Context(), "root", password)), second(c.UserGrantRole(t.Context(), "root", "root")), second(c.AuthEnable(t.Context())),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	user := []string{"--etcd-endpoints", etcd.Endpoint(), "--etcd-username=root", "--log-level=debug"}

	r := serve(t, append(user, "--etcd-password-file", file)...)
	acquire(t, r, "a")
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(r.log.String(), password) {
		t.Error("the log has the password")
	}

	began := time.Now()
	err := launch(t, append(user, "--etcd-password=wrong-horse")...).wait()
	if !isStartError(err) || !strings.Contains(err.Error(), "refuses") || strings.Contains(err.Error(), "horse") {
		t.Errorf("with a wrong password it ended with %v", err)
	}
	if took := time.Since(began); took > reachBound/2 {
		t.Errorf("a wrong password was told after %v", took)
	}
}

func second[T any](_ T, err error) error { return err }

func TestServeEndsWithItsEtcd(t *testing.T) {
	parsed, err := parse([]string{"serve", "--listen=127.0.0.1:0", "--data-dir=" + t.TempDir() + "/data"}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c := parsed.(*serveCommand)
	quiet := slog.New(slog.DiscardHandler)
	e, err := c.open(t.Context(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	locks, err := c.openStore(t.Context(), e, quiet, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	handler, err := server.New(locks, server.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := server.Listen(t.Context(), c.Listen, c.MaxConns.int)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		s := surroundings{t.Context(), t.Context(), io.Discard, io.Discard}
		ended <- c.serve(s, listener, handler, e, quiet)
	}()
	e.server.Close()
	select {
	case err = <-ended:
	case <-time.After(bound):
		t.Fatalf("served on for %v", bound)
	}
	if err == nil || !strings.Contains(err.Error(), "etcd ended") {
		t.Errorf("ended with %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	closeStore(gone, locks) // there is nothing left to close it on
}
