package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestImageIsBuiltFromAllThatIsNeeded: what .dockerignore keeps out of the build is nothing that the binary imports. Without it
// only a build of the image would tell.
func TestImageIsBuiltFromAllThatIsNeeded(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(text)) {
		if path, is := strings.CutPrefix(strings.TrimSpace(line), "!"); is {
			kept = append(kept, path)
		}
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}", "./cmd/latchkey")
	list.Dir = repository
	said, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Fields(string(said))
	if len(dirs) < 4 {
		t.Fatalf("the binary is built from %q only", dirs)
	}
	for _, dir := range dirs {
		folder, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(kept, func(path string) bool { return folder == path || strings.HasPrefix(folder, path+"/") }) {
			t.Errorf("%s is kept out of the image's build", folder)
		}
	}
}

// TestBalancerLogsNoPath: the ids in paths, and the tokens in headers, are all it takes to release a lock. What HAProxy calls them
// begins with these; without a format of ours it would log the whole request.
func TestBalancerLogsNoPath(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	formats := 0
	for line := range strings.Lines(string(text)) {
		format, is := strings.CutPrefix(strings.TrimSpace(line), "log-format ")
		if !is {
			continue
		}
		formats++
		for _, field := range strings.FieldsFunc(format, func(c rune) bool { return strings.ContainsRune(` "/`, c) }) {
			switch whole := []string{"%r", "%HU", "%HP", "%HQ", "%HPO", "%hr", "%hs", "%hrl", "%hsl"}; {
			case slices.Contains(whole, field), strings.Contains(field, "%["), strings.Contains(field, "%{"):
				t.Errorf("the balancer logs %s", field)
			}
		}
	}
	if formats != 1 || strings.Contains(string(text), "option httplog") {
		t.Errorf("%d log formats in docker-compose.yml, want 1 and no ready-made one", formats)
	}
}
