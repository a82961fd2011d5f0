package embedded

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const bound = 10 * time.Second

func start(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, s *Server, key, value string) *clientv3.PutResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	resp, err := s.Client().Put(ctx, key, value)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func get(t *testing.T, s *Server, key string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	resp, err := s.Client().Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

func TestStoreKeepsItsDataAndIsNewWithoutIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "data")
	s := start(t, dir)
	first := put(t, s, "a", "1").Header.ClusterId
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("the data directory has mode %o, want 700", got)
	}
	stop(t, s)

	s = start(t, dir)
	if got := get(t, s, "a"); got != "1" {
		t.Errorf("after a restart a is %q, want 1", got)
	}
	stop(t, s)

	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	defer stop(t, s)
	if got := get(t, s, "a"); got != "" {
		t.Errorf("a new store has a = %q", got)
	}
	if again := put(t, s, "a", "2").Header.ClusterId; again == first {
		t.Error("a new store has the cluster id of the old one")
	}
}

func TestSecondServerIsToldThatTheDirectoryIsInUse(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	defer stop(t, s)
	began := time.Now()
	_, err := Start(t.Context(), Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("error %v, want ErrInUse with the directory", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("told after %v", took)
	}
	put(t, s, "a", "1") // the first goes on
}

func TestSocketIsForThisUserAndNeedsNoShortPath(t *testing.T) {
	for name, dir := range map[string]string{
		"in the data directory": t.TempDir(),
		"elsewhere":             filepath.Join(t.TempDir(), strings.Repeat("long", maxSocketPath/4)),
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, dir)
			put(t, s, "a", "1")
			info, err := os.Stat(s.socket.path)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != 0o600 {
				t.Errorf("the socket has mode %o, want 600", got)
			}
			made := s.socket.dir
			if elsewhere := len(dir) > maxSocketPath; (made != "") != elsewhere {
				t.Errorf("socket at %s, data in %s", s.socket.path, dir)
			}
			stop(t, s)
			if _, err := os.Stat(s.socket.path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket is left: %v", err)
			}
			if _, err := os.Stat(made); made != "" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket's directory is left: %v", err)
			}
		})
	}
}

func TestSocketLeftByAKilledProcessIsReplaced(t *testing.T) {
	dir := t.TempDir()
	left, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer left.listener.Close()
	s := start(t, dir)
	defer stop(t, s)
	if s.socket.dir != "" {
		t.Errorf("the socket went to %s", s.socket.dir)
	}
	put(t, s, "a", "1")
}

func TestDirectoryThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{Dir: file, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v, want one that names %s", err, file)
	}
}

func TestStartAndEndAreQuiet(t *testing.T) {
	var log bytes.Buffer
	s, err := Start(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "new"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "1")
	stop(t, s)
	<-s.Done()
	if log.Len() > 0 {
		t.Errorf("logged:\n%s", &log)
	}
}
