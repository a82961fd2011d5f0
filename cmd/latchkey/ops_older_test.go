package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var older = flag.String("latchkey.older", "HEAD^", "the commit whose program -latchkey.long upgrades from")

// olderProgram builds the program as it was at an earlier commit.
func olderProgram(t *testing.T) string {
	t.Helper()
	source, program := t.TempDir(), filepath.Join(t.TempDir(), "older")
	archive := exec.Command("git", "archive", "--format=tar", *older)
	archive.Dir = repository // its root, else git archives a folder
	packed, err := archive.Output()
	if err != nil {
		t.Fatalf("the source of %s: %v", *older, err)
	}
	unpack(t, packed, source)
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-X main.version=older", "-o", program, "./cmd/latchkey")
	build.Dir = source
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", *older, err, said)
	}
	return program
}

func unpack(t *testing.T, packed []byte, dir string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for r := tar.NewReader(bytes.NewReader(packed)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(filepath.Clean(h.Name), 0o755)
		case tar.TypeReg:
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = root.WriteFile(filepath.Clean(h.Name), text, 0o600)
			}
		}
		if err != nil {
			t.Fatalf("unpack %s: %v", h.Name, err)
		}
	}
}
