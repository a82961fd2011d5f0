package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/latchkey/latchkey/server/access"
)

// tokenNew runs the command, and returns the token and what it says beside it.
func tokenNew(t *testing.T, args ...string) (token, beside string) {
	t.Helper()
	out, log := newOutput(), newOutput()
	if err := run(context.Background(), context.Background(), append([]string{"token", "new"}, args...), out, log); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(out.String(), "\n"), log.String()
}

// wantToken opens an auth file and asks it who has the token.
func wantToken(t *testing.T, file, token, name string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "auth.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	gate, err := access.Open(access.Config{File: path}, slog.New(slog.NewTextHandler(io.Discard, nil)), prometheus.NewRegistry())
	if err != nil {
		t.Fatalf("%v, of\n%s", err, file)
	}
	who, err := gate.Who(t.Context(), http.Header{"Authorization": {"Bearer " + token}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := strings.ReplaceAll(name, "*", "-") // in a prefix a star is more than itself
	for _, lock := range []string{own, own + "/nightly"} {
		if !who.May(access.Lock, lock) || !who.May(access.Read, lock) || who.May(access.Admin, lock) {
			t.Errorf("the token is that of %+v", who)
		}
	}
	for _, lock := range []string{"x", own + "x", "nightly"} {
		if who.Name != name || who.May(access.Read, lock) {
			t.Errorf("the token is that of %+v, who may read %s", who, lock)
		}
	}
}

func TestTokenNewPrintsAnEntryToBePasted(t *testing.T) {
	for _, name := range []string{"ci", "The \"night\" shift & co", "true", "12", "- x # y", "夜", "*", "a*", "*b*", strings.Repeat("x", access.MaxName)} {
		token, beside := tokenNew(t, "--", name)
		wantToken(t, "principals:\n"+beside, token, name)
		if !strings.Contains(beside, `"*" would be every name`) {
			t.Errorf("it does not say what a star is:\n%s", beside)
		}
		if strings.Contains(beside, token) {
			t.Error("the token is in what is to be pasted")
		}
	}
}

func TestTokenNewPrintsALineToBeAdded(t *testing.T) {
	first, entry := tokenNew(t, "ci")
	second, line := tokenNew(t)
	if first == second {
		t.Fatal("one token was made twice")
	}
	before, after, found := strings.Cut(entry, "    grants:\n")
	if !found {
		t.Fatalf("no grants in %s", entry)
	}
	file := "principals:\n" + before + line + "    grants:\n" + after
	wantToken(t, file, first, "ci")
	wantToken(t, file, second, "ci")
}

func TestTokenNewRefusesNamesThatTheFileRefuses(t *testing.T) {
	for _, name := range []string{"a:b", "a\nb", strings.Repeat("x", access.MaxName+1)} {
		said, err := call("token", "new", name)
		if !isStartError(err) || !strings.Contains(err.Error(), "NAME must") || said != "" {
			t.Errorf("%q: got %q, %v", name, said, err)
		}
	}
}
