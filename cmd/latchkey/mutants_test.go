package main

import (
	"encoding/json"
	"flag"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var mutants = flag.Bool("faults.mutants", false, "break the code in each known way, and let the fault tests find it")

// What the fault tests find is in lines of theirs, beside what they tell of each trial and of the replicas' logs.
var (
	foundLine = regexp.MustCompile(`(?m)^ {4}faults\w*_test\.go:\d+: .*`)
	toldLine  = regexp.MustCompile(`seed \d+: repeat| in all; |logged last, besides|no etcd lease was left`)
)

// mutantBound is how long faults go on before a mutant has got away.
const mutantBound = 2 * time.Minute

// mutant is the code with one fault put in: the harness that cannot tell it from the real one proves nothing.
type mutant struct {
	name  string
	edits []edit
	only  string // the faults under which it shows
}

type edit struct{ file, old, new string }

var allMutants = []mutant{
	{"a release does not compare the revision", []edit{{"store/release.go",
		`clientv3.Compare(clientv3.CreateRevision(key), "=", want.revision)`,
		`clientv3.Compare(clientv3.CreateRevision(key), ">", 0)`}}, ""},
	{"a grant compares the create-revision only", []edit{{"store/grant.go",
		"grants:  st.key,\n\t\turgent:  true,\n\t\tcmps:    []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(st.key), \"=\", st.modified)},",
		"grants:  st.key,\n\t\turgent:  true,\n\t\tcmps:    []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(st.key), \"=\", st.created)},"}}, "F7"},
	{"a view is taken for whole before it contains the claim", []edit{{"store/line.go",
		"recheck: make(chan struct{}, 1), places:",
		"recheck: make(chan struct{}, 1), view: newQueue(nil, 0), whole: true, places:"}}, "F4|F20"},
	{"a batch has two claims of one name", []edit{
		{"store/batch.go", `p.creates != "" && there.creator != nil, full,`, `full,`},
		{"store/batch.go", "if p.part.creates == \"\" {\n\t\t\t\treturn \"\"\n\t\t\t}\n\t\t\treturn p.part.subject", `return ""`},
	}, "F20"},
	{"a renewal is confirmed without its proof", []edit{{"store/renew.go",
		"got, header, readErr := s.readKey",
		"if err == nil {\n\t\t\treturn k.sent, nil\n\t\t}\n\t\tgot, header, readErr := s.readKey"}}, "F9"},
	{"an unanswered write is repeated without the fence", []edit{{"store/fence.go",
		"if r.behind() > above {", "if r.behind() > 0 {"}}, "F8"},
	{"a watch event is lost", []edit{{"store/line.go",
		"case resp, ok := <-events:\n\t\t\tif !ok {",
		"case resp, ok := <-events:\n\t\t\tif ok && rand.N(4) == 0 {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\tif !ok {"}}, "F13"},
}

// overlay writes the mutant's files into dir, and how the Go command is to find them in place of the real ones.
func (m mutant) overlay(t *testing.T, dir string) string {
	t.Helper()
	module, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for _, e := range m.edits {
		real := filepath.Join(module, e.file)
		source := replace[real]
		if source == "" {
			source = real
		}
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			t.Fatalf("%s has %d times what is to be broken, want once:\n%s", e.file, n, e.old)
		}
		replace[real] = filepath.Join(dir, filepath.Base(e.file))
		broken := strings.Replace(string(text), e.old, e.new, 1)
		if err := os.WriteFile(replace[real], []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), replace[real], nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	encoded, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMutantsAreCaught has the fault tests run on each mutant, by the Go command with the broken files laid over the real
// ones. Without -faults.mutants it only sees that what is to be broken is there, and can be broken so.
func TestMutantsAreCaught(t *testing.T) {
	if *mutants {
		said, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=10m", ".", "-run", "^TestFaults$").CombinedOutput()
		if err != nil {
			t.Fatalf("the code as it is: %v\n%s", err, said)
		}
	}
	for _, m := range allMutants {
		t.Run(m.name, func(t *testing.T) {
			overlay := m.overlay(t, t.TempDir())
			if said, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "../../store").CombinedOutput(); err != nil {
				t.Fatalf("the mutant does not build: %v\n%s", err, said)
			}
			if !*mutants {
				return
			}
			args := []string{"test", "-overlay", overlay, "-count=1", "-timeout=10m", ".", "-run", "^TestFaults$", "-args", "-faults.duration=" + mutantBound.String()}
			if m.only != "" {
				args = append(args, "-faults.only="+m.only)
			}
			began := time.Now()
			said, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
			var caught []string
			for _, line := range foundLine.FindAllString(string(said), -1) {
				if line = strings.TrimSpace(line); !toldLine.MatchString(line) {
					caught = append(caught, line)
				}
			}
			switch {
			case err == nil:
				t.Errorf("nothing was found in %v", time.Since(began).Round(time.Second))
			case !strings.Contains(string(said), "--- FAIL: TestFaults") || len(caught) == 0:
				t.Errorf("it did not come to the tests: %v\n%s", err, said)
			default:
				t.Logf("caught after %v by: %s", time.Since(began).Round(time.Second), strings.Join(caught[:min(len(caught), 3)], "; "))
			}
		})
	}
}
