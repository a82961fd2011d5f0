package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/latchkey/latchkey/server/access"
)

// saveAuth writes the README's auth file, with the hash of each principal's token, which is made here unless the README's lines
// have made it.
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
		file := filepath.Join(dir, names[0]+".token")
		names = names[1:]
		if made, err := os.ReadFile(file); err == nil {
			sum := sha256.Sum256(bytes.TrimSpace(made))
			return "sha256:" + hex.EncodeToString(sum[:])
		}
		token, kept := access.NewToken()
		saveText(t, file, token+"\n")
		return kept
	})
	saveText(t, filepath.Join(dir, "auth.yaml"), text)
	whole := filepath.Join(t.TempDir(), "auth.yaml")
	saveText(t, whole, text+blocks[1].String())
	if _, err := access.Open(access.Config{File: whole}, slog.New(slog.DiscardHandler), prometheus.NewRegistry()); err != nil {
		t.Errorf("README.md's auth file: %v", err)
	}
}

// metricsOfDoors are those that only a server with authentication and TLS has, as Prometheus is told them.
func metricsOfDoors(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "auth.yaml")
	saveText(t, file, "principals: [{name: a, grants: [{prefix: a, rights: [lock]}]}]\n")
	cert, key := newAuthority(t).issue(t)
	registry := prometheus.NewRegistry()
	c := serveCommand{Listen: "127.0.0.1:0", accessFlags: accessFlags{AuthFile: file, TLSCert: cert, TLSKey: key}}
	doors, err := c.findDoors(t.Context(), slog.New(slog.DiscardHandler), registry)
	if err != nil {
		t.Fatal(err)
	}
	defer doors.close()
	if err := c.openDoors(t.Context(), doors, registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		text.WriteString("\n# TYPE " + f.GetName() + " ")
	}
	return text.String()
}

func saveText(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
