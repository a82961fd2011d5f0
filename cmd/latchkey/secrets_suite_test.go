package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	secretsIn  = flag.String("secrets.suite", "", "run the whole suite with all of it overheard, and search what was said for every secret: the `directory` to write it down in; one where that was done before is only searched")
	secretsFor = flag.String("secrets.packages", "./...", "the packages whose tests are run for -secrets.suite")
)

// What there must be some of, or nothing was heard.
var (
	kindsOfSecrets = []string{"lock id", "lease id", "key", "credential", "token", "secret of the store"}
	kindsOfTexts   = []string{"log", "problem", "event", "metric", "etcd"}
)

// TestNoSecretIsToldInTheSuite runs every test of every package, and every program that they build, overheard: each id, key, token and
// credential that there was is then looked for in all logs, problem documents, events, metrics and values of etcd. Traces there are
// none: see TestNothingIsTraced. What a client itself gave as a name, holder or metadata is left out, for others are shown it.
func TestNoSecretIsToldInTheSuite(t *testing.T) {
	if *secretsIn == "" {
		t.Skip("it takes as long as everything else together: .ci/secrets")
	}
	records := filepath.Join(*secretsIn, "records")
	if _, err := os.Stat(records); err != nil {
		runOverheard(t, *secretsIn, records)
	}
	began := time.Now()
	kinds := recordsByKind(t, records)
	s := newSearcher()
	for _, kind := range kindsOfSecrets {
		s.learn(t, kind, kinds["secret "+kind])
	}
	shown := map[int]string{}
	eachRecord(t, kinds["shown"], func(_ string, text []byte) {
		s.search(text, func(secret, _ int) { shown[secret] = string(text) })
	})
	t.Logf("%d of them are left out, as a client gave them as names, holders or metadata", len(shown))
	for secret, as := range shown {
		t.Logf("  %s %.24q in %.100q", s.secrets[secret].kind, s.secrets[secret].text, as)
	}
	for _, kind := range kindsOfTexts {
		s.wantNone(t, kind, kinds[kind], shown)
	}
	t.Logf("the search took %v", time.Since(began).Round(time.Second))
}

// learn adds all secrets of a kind, each once whatever the number of processes that had it.
func (s *searcher) learn(t *testing.T, kind string, files []string) {
	t.Helper()
	known, plain := map[string]bool{}, 0
	eachRecord(t, files, func(_ string, text []byte) {
		if !known[string(text)] {
			known[string(text)] = true
			if !s.add(secretTold{kind, string(text)}) {
				plain++
			}
		}
	})
	if len(known) == plain {
		t.Errorf("there was no %s to look for", kind)
	}
	t.Logf("%-20s %7d, of %d processes; %d too short or too plain to look for", kind, len(known), len(files), plain)
}

// wantNone finds no secret in texts of a kind. What it finds it tells by kinds, with a few of each.
func (s *searcher) wantNone(t *testing.T, kind string, files []string, shown map[int]string) {
	t.Helper()
	texts, size := 0, 0
	finds := map[string][]string{}
	eachRecord(t, files, func(by string, text []byte) {
		texts, size = texts+1, size+len(text)
		s.search(text, func(secret, at int) {
			told := s.secrets[secret]
			kept := kind == "etcd" && told.kind == "secret of the store" && bytes.Contains(text, []byte("/secret = ")) // where it belongs
			if shown[secret] == "" && !kept {
				finds[told.kind] = append(finds[told.kind], fmt.Sprintf("%.12s… by %s: …%q…", told.text, by, text[max(0, at-160):min(len(text), at+80)]))
			}
		})
	})
	if texts == 0 {
		t.Errorf("there was no %s to search", kind)
	}
	t.Logf("%-20s %7d texts, %d KiB, of %d processes", kind, texts, size>>10, len(files))
	for of, found := range finds {
		t.Errorf("%d times a %s is told by: %s\n%s", len(found), of, kind, strings.Join(found[:min(len(found), 20)], "\n"))
	}
}

var testFailure = regexp.MustCompile(`(?m)^(\s*--- FAIL|FAIL|panic:).*`)

// runOverheard runs the tests, with a Go command that lays the overlay over whatever they build, too.
func runOverheard(t *testing.T, dir, records string) {
	t.Helper()
	dir, records = absolute(t, dir), absolute(t, records)
	if err := os.MkdirAll(records, 0o700); err != nil {
		t.Fatal(err)
	}
	flags, err := exec.CommandContext(t.Context(), "go", "env", "GOFLAGS").Output()
	if err != nil {
		t.Fatal(err)
	}
	said, err := os.Create(filepath.Join(dir, "suite.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	suite := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-timeout=40m")
	suite.Args = append(suite.Args, strings.Fields(*secretsFor)...)
	suite.Dir = filepath.Join("..", "..")
	suite.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(string(flags))+" -overlay="+overhearing(t, dir, records))
	suite.Stdout, suite.Stderr = said, said
	began := time.Now()
	failed := suite.Run()
	t.Logf("the suite took %v", time.Since(began).Round(time.Second))
	if failed != nil {
		text, err := os.ReadFile(said.Name())
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("the suite, overheard: %v\n%s\nmore is in %s", failed, bytes.Join(testFailure.FindAll(text, -1), []byte("\n")), said.Name())
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// recordsByKind are the files that were written down, each by one process.
func recordsByKind(t *testing.T, dir string) map[string][]string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*@*@*"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string][]string{}
	for _, file := range all {
		kind, _, _ := strings.Cut(filepath.Base(file), "@")
		kinds[kind] = append(kinds[kind], file)
	}
	return kinds
}

// eachRecord calls do with each text of the files, and the program that it is of. A program that was killed left the last one unfinished.
func eachRecord(t *testing.T, files []string, do func(by string, text []byte)) {
	t.Helper()
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		from := bufio.NewReader(file)
		for by := strings.Split(filepath.Base(name), "@")[1]; ; {
			size, err := binary.ReadUvarint(from)
			if err != nil {
				break
			}
			text := make([]byte, size)
			if _, err := io.ReadFull(from, text); err != nil {
				break
			}
			do(by, text)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNothingIsTraced sees that no code of ours knows of a library for traces. Those that etcd brings do nothing unless told to.
func TestNothingIsTraced(t *testing.T) {
	t.Parallel()
	tracing := regexp.MustCompile(`opentelemetry|opentracing|opencensus|/trace$|jaeger|zipkin|ddtrace`)
	said, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}}\n{{range .Imports}}\t{{.}}\n{{end}}", "../../...").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(said), "\tnet/http\n") {
		t.Fatalf("nothing is imported:\n%s", said)
	}
	for line := range strings.Lines(string(said)) {
		if imported, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t"); is && tracing.MatchString(imported) {
			t.Errorf("%s is imported: search what it tells for secrets, too", imported)
		}
	}
}
