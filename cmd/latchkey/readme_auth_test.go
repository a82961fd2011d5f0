package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/latchkey/latchkey/server/access"
)

// saveAuth writes the README's auth file, with hashes of tokens that are made here, and the token of each principal beside it.
func saveAuth(t *testing.T, fences []fence, dir string) {
	t.Helper()
	blocks := fencesOf(fences, "yaml")
	if len(blocks) != 2 {
		t.Fatalf("README.md has %d blocks of yaml, want the auth file, and what JWTs need of it", len(blocks))
	}
	names := []string{"billing", "ops"}
	text := regexp.MustCompile("sha256:[0-9a-f]{64}").ReplaceAllStringFunc(blocks[0].String(), func(string) string {
		if len(names) == 0 {
			t.Fatal("README.md's auth file has more tokens than this test knows")
		}
		token, kept := access.NewToken()
		saveText(t, filepath.Join(dir, names[0]+".token"), token+"\n")
		names = names[1:]
		return kept
	})
	saveText(t, filepath.Join(dir, "auth.yaml"), text)
	whole := filepath.Join(t.TempDir(), "auth.yaml")
	saveText(t, whole, text+blocks[1].String())
	if _, err := access.Open(access.Config{File: whole}, slog.New(slog.DiscardHandler), prometheus.NewRegistry()); err != nil {
		t.Errorf("README.md's auth file: %v", err)
	}
}

func saveText(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
