package latchkey_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestCodeOfTheReadmeIsThatOfTheExamples keeps the README's code running: the examples are run with the tests.
func TestCodeOfTheReadmeIsThatOfTheExamples(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	body := strings.ReplaceAll("\n"+string(examples), "\n\t", "\n") // of functions
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 5 {
		t.Errorf("the README has %d blocks of Go", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(body, "\n"+block[1]) {
			t.Errorf("no example has the README's\n%s", block[1])
		}
	}
}
