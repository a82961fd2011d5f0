package typescript

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m) }

// TestTypeScriptClient builds the binary, starts an etcd for its replicas, and runs the client's own tests with Node.js.
func TestTypeScriptClient(t *testing.T) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is missing, and CI is set: %v", tool, err)
			}
			t.Skipf("skipped, as %s is missing: %v", tool, err)
		}
	}
	if !installed() {
		run(t, nil, "npm", "ci", "--ignore-scripts")
	}
	binary := filepath.Join(t.TempDir(), "latchkey")
	run(t, nil, "go", "build", "-o", binary, "../../cmd/latchkey")
	run(t, []string{
		"LATCHKEY_TEST_BINARY=" + binary,
		"LATCHKEY_TEST_ETCD=" + etcdtest.Shared(t).Endpoint(),
	}, "npm", "test", "--loglevel=error")
}

// installed says whether the development tools are those of the lock file.
func installed() bool {
	wanted, err := os.Stat("package-lock.json")
	if err != nil {
		return false
	}
	have, err := os.Stat("node_modules/.package-lock.json")
	return err == nil && !have.ModTime().Before(wanted.ModTime())
}

func run(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
}
