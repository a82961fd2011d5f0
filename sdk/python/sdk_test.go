package python

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m) }

const (
	moduleBound    = 3 * time.Minute // for one module of tests, on a slow machine
	interruptBound = 10 * time.Second
	modulesAtOnce  = 4
	mypy           = "mypy==1.18.2"
)

// TestPythonClient runs each module of the client's own tests, which start replicas of the real service on one etcd. It
// uses python3, or what LATCHKEY_TEST_PYTHON names.
func TestPythonClient(t *testing.T) {
	python := findPython(t)
	modules, err := filepath.Glob("tests/test_*.py")
	if err != nil || len(modules) == 0 {
		t.Fatalf("no tests are there: %v", err)
	}
	environment := append(os.Environ(),
		"PYTHONPATH=src", "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=default", "LATCHKEY_SERVER=",
		"LATCHKEY_TEST_BINARY="+buildBinary(t),
		"LATCHKEY_TEST_CONTRACT="+contractAsJSON(t),
		"LATCHKEY_TEST_TLS="+certificate(t),
		"LATCHKEY_TEST_ETCD="+strings.Join(etcdtest.NewCluster(t, 1).Endpoints(), ","),
	)
	// They wait more than they work, so go test's own limit would only draw them out.
	running := make(chan struct{}, modulesAtOnce)
	var all sync.WaitGroup
	for _, module := range modules {
		all.Go(func() {
			running <- struct{}{}
			defer func() { <-running }()
			name := strings.TrimSuffix(filepath.Base(module), ".py")
			t.Run(name, func(t *testing.T) { run(t, environment, python, "-m", "unittest", "--verbose", "tests."+name) })
		})
	}
	all.Wait()
}

// TestPythonPackage installs the client where nothing else is, and checks its type hints with mypy. Both come from PyPI, so
// it is for CI.
func TestPythonPackage(t *testing.T) {
	python := findPython(t)
	if os.Getenv("CI") == "" {
		t.Skip("skipped: CI is not set")
	}
	venv := filepath.Join(t.TempDir(), "venv")
	run(t, os.Environ(), python, "-m", "venv", venv)
	python = filepath.Join(venv, "bin", "python")
	run(t, os.Environ(), python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", mypy, copied(t))
	run(t, os.Environ(), python, "-m", "mypy", "--strict", "--cache-dir="+t.TempDir())
	// In a folder of its own, mypy takes the hints of the package that is installed.
	user := filepath.Join(t.TempDir(), "user.py")
	if err := os.WriteFile(user, []byte("import latchkey\ntoken: int = latchkey.Client().lock('a').fencing_token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, os.Environ(), python, "-m", "mypy", "--strict", "--config-file=", "--cache-dir="+t.TempDir(), user)
}

// copied is the package in a folder that a build may write to.
func copied(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "package")
	if err := os.CopyFS(folder, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	return folder
}

// findPython skips the test where there is no Python that the client is for; in CI that is a failure.
func findPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv("LATCHKEY_TEST_PYTHON")
	if python == "" {
		python = "python3"
	}
	out, err := exec.Command(python, "-c", "import sys; assert sys.version_info >= (3, 9), sys.version").CombinedOutput()
	if err == nil {
		return python
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is not Python 3.9 or later: %v\n%s", python, err, out)
	}
	t.Skipf("skipped: %s is not Python 3.9 or later: %v", python, err)
	return ""
}

func buildBinary(t *testing.T) string {
	t.Helper()
	dependOnSources(t)
	binary := filepath.Join(t.TempDir(), "latchkey")
	run(t, os.Environ(), "go", "build", "-o", binary, "github.com/latchkey/latchkey/cmd/latchkey")
	return binary
}

// dependOnSources looks at what is run here, as go test takes an earlier result if nothing that it saw has changed.
func dependOnSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || len(entry.Name()) > 2 && entry.Name()[0] == '.'):
			return fs.SkipDir
		case slices.Contains([]string{".go", ".py", ".md"}, filepath.Ext(path)):
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func contractAsJSON(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var contract map[string]any
	if err := yaml.Unmarshal(text, &contract); err != nil {
		t.Fatal(err)
	}
	text, err = json.Marshal(contract)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// certificate is a folder with one for 127.0.0.1, of a server and of a client, that vouches for itself.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: text},
	} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// run runs a program within the bound, and shows what it said. One that is overdue is interrupted, to stop what it started.
func run(t *testing.T, environment []string, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), moduleBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = environment
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptBound
	out, err := cmd.CombinedOutput()
	if len(out) > 0 {
		t.Logf("%s", out)
	}
	if err != nil {
		t.Errorf("%s %s: %v", program, strings.Join(args, " "), err)
	}
}
