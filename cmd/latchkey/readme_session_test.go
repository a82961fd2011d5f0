package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// readmeSession follows the README: a server, and terminals that bash runs.
type readmeSession struct {
	t                 *testing.T
	dir               string
	server            *exec.Cmd
	log               *output
	url               string
	auth              func() // writes the auth file
	metrics           string // as the server told when it was stopped
	terminals         map[string]*bashTerminal
	printed, answered masker
}

// bashTerminal is one bash. It is told the README's lines and after each to print a mark.
type bashTerminal struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	out     *output
	told    int // commands so far
	present int // where the output of the present one begins
	running string
}

func newReadmeSession(t *testing.T) *readmeSession {
	needCurl(t)
	s := &readmeSession{t: t, dir: t.TempDir(), terminals: map[string]*bashTerminal{}, printed: masker{}, answered: masker{}}
	build := exec.Command("go", "build", "-buildvcs=false", "-race="+strconv.FormatBool(raceDetected()), "-o", filepath.Join(s.dir, "bin", "latchkey"), ".")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, text)
	}
	t.Cleanup(s.close)
	return s
}

// raceDetected tells whether this test was built to: what the binary is built from is then at hand as such.
func raceDetected() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// start is go run ./cmd/latchkey serve, on a free port. It returns what the server says until it listens.
func (s *readmeSession) start(args ...string) string {
	s.log = newOutput()
	s.server = exec.Command(filepath.Join(s.dir, "bin", "latchkey"), append([]string{"serve"}, args...)...)
	s.server.Dir = s.dir
	s.server.Env = readmeEnvironment(s.dir, "LATCHKEY_LISTEN=127.0.0.1:0")
	s.server.Stdout, s.server.Stderr = s.log, s.log
	if err := s.server.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.url = s.log.await(s.t, listens)
	address := strings.TrimPrefix(s.url, "http://")
	setCurl(s.t, s.dir, address)
	return strings.ReplaceAll(s.log.await(s.t, `(?s)^(.*listens on .*?)\n`), address, readmeAddress)
}

// stop is Ctrl-C.
func (s *readmeSession) stop() {
	s.t.Helper()
	resp, err := http.Get(s.url + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	s.metrics = string(text)
	server := s.server
	s.server = nil
	server.Process.Signal(os.Interrupt)
	late := time.AfterFunc(bound, func() { server.Process.Kill() })
	defer late.Stop()
	if err := server.Wait(); err != nil {
		s.t.Fatalf("the server ended with %v:\n%s", err, s.log)
	}
}

func (s *readmeSession) close() {
	if s.server != nil {
		s.server.Process.Kill()
		s.server.Wait()
	}
	for _, term := range s.terminals {
		term.stdin.Close() // what runs there has lost its server
		late := time.AfterFunc(bound, func() { term.cmd.Process.Kill() })
		term.cmd.Wait()
		late.Stop()
	}
}

func (s *readmeSession) terminal(name string) *bashTerminal {
	s.t.Helper()
	if term := s.terminals[name]; term != nil {
		return term
	}
	term := &bashTerminal{cmd: exec.Command("bash"), out: newOutput()}
	term.cmd.Dir = s.dir
	term.cmd.Env = readmeEnvironment(s.dir, "LATCHKEY_LISTEN="+strings.TrimPrefix(s.url, "http://"), "LATCHKEY_SERVER="+s.url)
	term.cmd.Stdout, term.cmd.Stderr = term.out, term.out
	term.cmd.WaitDelay = bound
	var err error
	if term.stdin, err = term.cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	if err := term.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	if err := term.tell(":"); err != nil { // so that there is a mark before the first command, too
		s.t.Fatal(err)
	}
	term.ended(s.t)
	term.running = ""
	s.terminals[name] = term
	return term
}

// tell has bash run a command.
func (term *bashTerminal) tell(command string) error {
	term.told++
	term.running = command
	_, err := fmt.Fprintf(term.stdin, "%s\nprintf '\\036%d %%d\\036' $?\n", command, term.told)
	return err
}

// ended returns what the command has said when it has ended, and with which status.
func (term *bashTerminal) ended(t *testing.T) (said, status string) {
	t.Helper()
	mark := fmt.Sprintf("\x1e%d ", term.told)
	status = term.out.await(t, mark+`(\d+)`+"\x1e")
	all := term.out.String()
	end := strings.Index(all, mark)
	said = all[term.present:end]
	term.present = end + len(mark+status+"\x1e")
	return said, status
}

// so returns the first whole lines of a command that is still running.
func (term *bashTerminal) so(t *testing.T, lines int) string {
	t.Helper()
	term.out.await(t, fmt.Sprintf("\x1e%d \\d+\x1e(?:[^\n]*\n){%d}", term.told-1, lines))
	said := strings.Join(strings.SplitAfter(term.out.String()[term.present:], "\n")[:lines], "")
	term.present += len(said)
	return said
}

// follow does a step and returns what was answered.
func (s *readmeSession) follow(next readmeStep) []string {
	s.t.Helper()
	at := func(format string, args ...any) {
		s.t.Helper()
		s.t.Fatalf("README.md:%d: %s", next.line, fmt.Sprintf(format, args...))
	}
	if next.command == readmeServe {
		return trimmed(s.start())
	}
	if args, serves := strings.CutPrefix(next.command, "latchkey serve "); serves {
		if s.server != nil {
			at("a server runs already")
		}
		s.auth()
		return trimmed(s.start(strings.Fields(args)...))
	}
	if s.url == "" {
		at("no server runs yet")
	}
	if strings.HasPrefix(next.command, "latchkey epoch ") && s.server != nil {
		s.stop() // as the README says
	}
	term := s.terminal(next.terminal)
	switch {
	case next.command == "" && term.running == "" || next.command != "" && term.running != "":
		at("in %s's terminal %q is running", next.terminal, term.running)
	case next.command != "":
		if !readmeRuns.MatchString(next.command) {
			at("this test does not know how to run %q", next.command)
		}
		if err := term.tell(next.command); err != nil {
			at("%v", err)
		}
	}
	if next.waits {
		s.untilQueued(next)
		return trimmed(term.so(s.t, len(next.answer)))
	}
	said, status := term.ended(s.t)
	if status != "0" && !strings.Contains(term.running, " -m ") {
		at("%q ends with status %s and says:\n%s", term.running, status, said)
	}
	term.running = ""
	return trimmed(said)
}

// untilQueued waits until the server knows that somebody waits.
func (s *readmeSession) untilQueued(next readmeStep) {
	s.t.Helper()
	for late := time.Now().Add(bound); time.Now().Before(late); {
		if _, list := ask(s.t, http.MethodGet, s.url+"/locks?state=queued", ""); len(list["locks"].([]any)) > 0 {
			return
		}
	}
	s.t.Fatalf("README.md:%d: nobody waits after %v", next.line, bound)
}

func needCurl(t *testing.T) {
	t.Helper()
	const need = "the README's lines need bash, and curl 7.82 or later (for --json): install them"
	said, err := exec.Command("curl", "--version").Output()
	if err != nil {
		t.Fatalf("%s: %v", need, err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(said), "curl %d.%d", &major, &minor); err != nil || major < 7 || major == 7 && minor < 82 {
		t.Fatalf("%s; here is %.20q", need, said)
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Fatalf("%s: %v", need, err)
	}
}

// readmeEnvironment is this process's without settings of ours, with curl's from dir.
func readmeEnvironment(dir string, more ...string) []string {
	own := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "LATCHKEY_") })
	return append(own, append(more, "CURL_HOME="+dir, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))...)
}

// setCurl sends the README's lines to address, though they say another.
func setCurl(t *testing.T, dir, address string) {
	t.Helper()
	rc := fmt.Sprintf("connect-to = \"%s:%s\"\nnoproxy = \"*\"\nno-progress-meter\n", readmeAddress, address)
	if err := os.WriteFile(filepath.Join(dir, ".curlrc"), []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
}
