package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/latchkey/latchkey/api"
)

var update = flag.Bool("update", false, "print the answers in README.md anew")

const (
	// readmeAddress is where the README's lines expect the server. Curl is told where it is in truth.
	readmeAddress = "127.0.0.1:8080"
	readmeServe   = "go run ./cmd/latchkey serve"
)

// readmeRuns are the commands of the README's console blocks that bash runs word for word.
var readmeRuns = regexp.MustCompile(`^(curl |[a-z]+=\$\(sed |bash (with|hold)-lock |token=\$\(cat |latchkey token new |latchkey (healthcheck|version|epoch show|epoch bump)$|latchkey (run|acquire|renew|release|list) )`)

func TestReadmeLinesAnswerAsPrinted(t *testing.T) {
	text, fences := readme(t)
	s := newReadmeSession(t)
	saveScripts(t, fences, s.dir)
	s.auth = func() { saveAuth(t, fences, s.dir) }
	for _, block := range fencesOf(fences, "console") {
		steps := block.steps(t)
		for i, next := range steps {
			answer := s.follow(next)
			want, got := s.printed.mask(next.answer), s.answered.mask(answer)
			if !*update && !slices.Equal(got, want) {
				t.Fatalf("README.md:%d: %s$ %s\nanswers\n%s\nand not, as printed,\n%s", next.line, next.terminal, next.command,
					strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			steps[i].answer = answer
		}
		text = strings.Replace(text, "```console\n"+block.String()+"```", "```console\n"+strings.Join(printSteps(steps), "\n")+"\n```", 1)
	}
	if *update {
		if err := os.WriteFile(readmeFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	s.wantTokensInOrder()
	s.wantEveryOperation()
	s.metrics += metricsOfDoors(t)
	for _, name := range regexp.MustCompile("latchkey_[a-z_]+").FindAllString(text, -1) {
		if !strings.Contains(s.metrics, "\n# TYPE "+name+" ") {
			t.Errorf("README.md speaks of a metric %s, the server has none", name)
		}
	}
}

// wantTokensInOrder compares how printed tokens and answered ones grow.
func (s *readmeSession) wantTokensInOrder() {
	s.t.Helper()
	printed, answered := s.printed["token"], s.answered["token"]
	for i := 1; i < len(printed); i++ {
		// all have one length, so text compares as numbers do
		if strings.Compare(printed[i-1], printed[i]) != strings.Compare(answered[i-1], answered[i]) {
			s.t.Errorf("tokens %s are printed in another order than answered: %s", printed[i-1:i+1], answered[i-1:i+1])
		}
	}
}

// wantEveryOperation asks whether the README's lines have used the whole contract.
func (s *readmeSession) wantEveryOperation() {
	s.t.Helper()
	var contract struct {
		Paths map[string]map[string]yaml.Node
	}
	if err := yaml.Unmarshal(api.Contract, &contract); err != nil {
		s.t.Fatal(err)
	}
	for path, operations := range contract.Paths {
		for method, node := range operations {
			var operation struct {
				OperationID string `yaml:"operationId"`
			}
			if method == "parameters" {
				continue
			}
			if err := node.Decode(&operation); err != nil {
				s.t.Fatal(err)
			}
			// the line that cuts its stream has left
			served := fmt.Sprintf(`latchkey_http_requests_total\{operation="%s",status="(20.|client_left)"`, operation.OperationID)
			if !regexp.MustCompile(served).MatchString(s.metrics) {
				s.t.Errorf("no line of README.md uses %s %s", strings.ToUpper(method), path)
			}
		}
	}
}

// readmeStep is a command in one of the README's terminals, or what comes of one that waited.
type readmeStep struct {
	line     int
	terminal string
	command  string // empty when the terminal's last one goes on
	answer   []string
	waits    bool // it is still running when the next step begins
}

var (
	readmePrompt = regexp.MustCompile(`^([a-z]*)\$ (.*)$`)
	readmeGoesOn = regexp.MustCompile(`^\(([a-z]*)'s line goes on\)$`)
)

func (f fence) steps(t *testing.T) []readmeStep {
	t.Helper()
	var steps []readmeStep
	for i, line := range f.text {
		if p := readmePrompt.FindStringSubmatch(line); p != nil {
			steps = append(steps, readmeStep{line: f.line + i, terminal: p[1], command: p[2]})
		} else if p := readmeGoesOn.FindStringSubmatch(line); p != nil {
			steps = append(steps, readmeStep{line: f.line + i, terminal: p[1]})
		} else if len(steps) == 0 {
			t.Fatalf("README.md:%d: a console block must begin with a prompt, not %q", f.line+i, line)
		} else if last := &steps[len(steps)-1]; line == "(waits)" {
			last.waits = true
		} else {
			last.answer = append(last.answer, line)
		}
	}
	for i := range steps {
		steps[i].answer = trimmed(strings.Join(steps[i].answer, "\n"))
	}
	return steps
}

// printSteps writes steps as the README shows them.
func printSteps(steps []readmeStep) (lines []string) {
	for i, s := range steps {
		if s.command == "" {
			lines = append(lines, "("+s.terminal+"'s line goes on)")
		} else {
			lines = append(lines, s.terminal+"$ "+s.command)
		}
		lines = append(lines, s.answer...)
		if s.waits {
			lines = append(lines, "(waits)")
		}
		if i < len(steps)-1 && len(s.answer) > 0 {
			lines = append(lines, "")
		}
	}
	return lines
}

// trimmed are a text's lines without carriage returns, and without empty ones at its end.
func trimmed(text string) []string {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r", ""), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// readmeMasks hide what differs from run to run: what the second group finds. With a kind it is told apart by its value.
var readmeMasks = []struct {
	kind string
	re   *regexp.Regexp
}{
	{"token", regexp.MustCompile(`(Fencing-Token: |"fencing_token":|my token is )(\d{16})\b`)},
	{"token", regexp.MustCompile(`(^[a-z]+ +held +0 +)(\d{16})\b`)},
	{"id", regexp.MustCompile(`("id":"|"lease_id":"|/locks/|/leases/)([\w-]{22,})`)},
	{"", regexp.MustCompile(`^(Date: |Retry-After: |retry: |id: )(.*)`)},
	{"", regexp.MustCompile(`("ttl_left_seconds":|"renewed_after_ms":)(-?\d+)`)},
	{"", regexp.MustCompile(`("next_cursor":)("[\w-]+")`)},
	{"", regexp.MustCompile(`(\btime=|\bbase=|\brevision=|^latchkey_\w+ )(\S+)`)},
	{"", regexp.MustCompile(`(^latchkey |msg="latchkey |^etcd |^go|^epoch )([^ ,:]+)`)},
	{"", regexp.MustCompile(`(tokens start at |are at most |before, at )(\d+)`)},
	{"", regexp.MustCompile(`(sha256:)([0-9a-f]{64})`)},
	{"", regexp.MustCompile(`(^go<> )(\w+/\w+)`)},
}

// masker gives the tokens and ids of one side, as printed or as answered, numbers by their first appearance. So a value
// that is printed twice must be answered twice.
type masker map[string][]string

func (m masker) mask(lines []string) []string {
	masked := slices.Clone(lines)
	for i, line := range masked {
		for _, mask := range readmeMasks {
			line = mask.re.ReplaceAllStringFunc(line, func(found string) string {
				parts := mask.re.FindStringSubmatch(found)
				if mask.kind == "" {
					return parts[1] + "<>"
				}
				return fmt.Sprintf("%s<%s %d>", parts[1], mask.kind, m.number(mask.kind, parts[2]))
			})
		}
		masked[i] = line
	}
	return masked
}

func (m masker) number(kind, value string) int {
	n := slices.Index(m[kind], value)
	if n < 0 {
		n = len(m[kind])
		m[kind] = append(m[kind], value)
	}
	return n + 1
}
