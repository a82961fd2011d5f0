package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// fieldReport is a fault that somebody's locks, leases, waits or HTTP service really had.
type fieldReport struct {
	// guards is what ours keeps instead.
	guards string
	// tests are those that fail if it does not: the package's directory, a dot and the name, with that of subtests as they
	// stand in the source.
	tests []string
}

// The numbers of all reports, in two parts.
const (
	fieldNumbersA = "B001 B003 B005 B007 B009 B011 B013 B015 B017 B019 B021 B023 B025 B027 B029 B031 B033 B034 B036 B038 B040 " +
		"B042 B044 B046 B048 B050 B052 B054 B056 B058 B060 B062 B064 B066 B068"
	fieldNumbersB = "B069 B071 B073 B075 B077 B079 B081 B083 B085 B087 B089 B091 B093 B095 B097 B099 B100 B102 B104 B106 B108 " +
		"B110 B112 B114 B116 B118 B120 B122 B124 B126 B128 B130 B132 B134 B136 B138 B140 B142 B144 B146 B148 B150 B152 B154 " +
		"B156 B158 B160 B162 B164 B166"
)

// fieldParts joins the numbers with what is known of them.
var fieldParts = []struct {
	numbers string
	reports map[string]fieldReport
}{
	{fieldNumbersA, fieldReportsA},
	{fieldNumbersB, fieldReportsB},
}

// TestEveryFieldReportHasItsTest asks that each report is guarded by tests that there are.
func TestEveryFieldReportHasItsTest(t *testing.T) {
	const root = "../.."
	sources := map[string]*testSource{}
	for _, part := range fieldParts {
		numbers := strings.Fields(part.numbers)
		for _, number := range numbers {
			report, ok := part.reports[number]
			if !ok || report.guards == "" || len(report.tests) == 0 {
				t.Errorf("no test guards against %s", number)
			}
			if fieldSources[number] == "" {
				t.Errorf("nothing says where %s can be read", number)
			}
			for _, test := range report.tests {
				dir, path, _ := strings.Cut(test, ".")
				if sources[dir] == nil {
					sources[dir] = readTests(t, filepath.Join(root, dir))
				}
				if missing := sources[dir].missing(strings.Split(path, "/")); missing != "" {
					t.Errorf("%s: %s has no test %q: %q is missing", number, dir, path, missing)
				}
			}
		}
		for number := range part.reports {
			if !slices.Contains(numbers, number) {
				t.Errorf("%s is no report", number)
			}
		}
	}
}

// testSource is what the tests of a package are called: its functions, and its strings, which subtests are named by.
type testSource struct{ funcs, texts map[string]bool }

func readTests(t *testing.T, dir string) *testSource {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &testSource{funcs: map[string]bool{}, texts: map[string]bool{}}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), "_test.go") || strings.HasPrefix(f.Name(), "field_reports_") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, f.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil {
					s.funcs[n.Name.Name] = true
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					s.texts[text] = true
				}
			}
			return true
		})
	}
	return s
}

// missing is the first element of a test's path that the sources do not have, or "".
func (s *testSource) missing(path []string) string {
	if !strings.HasPrefix(path[0], "Test") || !s.funcs[path[0]] {
		return path[0]
	}
	for _, sub := range path[1:] {
		if !s.texts[sub] {
			return sub
		}
	}
	return ""
}
