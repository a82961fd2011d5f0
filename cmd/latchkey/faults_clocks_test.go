package main

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var faultsClocks = flag.Bool("faults.clocks", false, "F16: let the replicas' clocks jump two hours ahead and back every few seconds")

// clockEdit is package time with a clock that jumps: what it shows alternates, for each process at another time, while
// what it measures (the monotonic reading) goes on.
var clockEdit = edit{"time/time.go",
	"\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {\n\t\treturn Time{uint64(nsec), sec + unixToInternal, Local}",
	"\tsec, nsec, mono := runtimeNow()\n\tif (mono+startNano)/4_000_000_000%2 == 0 {\n\t\tsec += 7200\n\t}\n" +
		"\tif mono == 0 {\n\t\treturn Time{uint64(nsec), sec + unixToInternal, Local}"}

// jumpingClocks builds a replica whose clock jumps. All of the standard library is built anew for that.
func jumpingClocks(t *testing.T) string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(strings.TrimSpace(string(root)), "src", clockEdit.file)
	text, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), clockEdit.old) != 1 {
		t.Fatalf("package time of %s reads the clock in another way", runtime.Version())
	}
	dir := t.TempDir()
	jumping, overlay, program := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "latchkey")
	encoded, err := json.Marshal(map[string]any{"Replace": map[string]string{real: jumping}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{jumping: strings.Replace(string(text), clockEdit.old, clockEdit.new, 1), overlay: string(encoded)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build with a clock that jumps: %v\n%s", err, said)
	}
	return program
}
