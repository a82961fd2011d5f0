package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cliComplete is what a shell offers after a line, by the script that latchkey prints for it.
func cliComplete(t *testing.T, shell, line string) []string {
	t.Helper()
	script, err := call("completion", shell)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "_latchkey")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	drive := map[string]string{
		"bash": `source "$0"; read -ra COMP_WORDS <<<"$1"; [[ $1 == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _latchkey; printf '%s\n' "${COMPREPLY[@]}"`,
		// zsh completes only in its line editor: the functions that would offer something print it instead
		"zsh": `autoload -Uz compinit; compdef() { : }; _files() { : }; _normal() { print -rl -- $words[1]... }
_describe() { [[ $1 == -o ]] && shift; local of=$2; print -rl -- ${${(P)of}%%:*} }
compadd() { shift; print -rl -- "$@" }
source "$1"; words=(${(z)2}); [[ $2 == *' ' ]] && words+=(''); CURRENT=$#words; _latchkey`,
		"fish": `source $argv[1]; complete -C $argv[2] | string split -f1 \t`,
	}[shell]
	args := []string{"-c", drive, file, line}
	if shell == "zsh" {
		args = []string{"-f", "-c", drive, "zsh", file, line}
	}
	said, err := exec.Command(shell, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", shell, err)
	}
	last := line[strings.LastIndex(line, " ")+1:]
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(said)), "\n"), func(word string) bool { return !strings.HasPrefix(word, last) })
}

func TestCLICompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skipf("there is no %s here", shell)
			}
			for _, tt := range []struct {
				line         string
				want, unwant []string
			}{
				{"latchkey ", []string{"run", "acquire", "list", "serve", "completion"}, []string{"guard", "show", "--ttl"}},
				{"latchkey re", []string{"renew", "release"}, []string{"run"}},
				{"latchkey epoch ", []string{"show", "bump"}, []string{"run"}},
				{"latchkey completion ", []string{"bash", "zsh", "fish"}, nil},
				{"latchkey run --", []string{"--ttl", "--wait", "--no-wait", "--server"}, []string{"--listen"}},
				{"latchkey run nightly --w", []string{"--wait"}, []string{"--ttl"}},
				{"latchkey run list --g", []string{"--grace"}, []string{"--state"}},
				{"latchkey list --state ", []string{"held", "queued"}, []string{"run"}},
				{"latchkey epoch bump --etcd-p", []string{"--etcd-password", "--etcd-prefix"}, []string{"--ttl"}},
			} {
				got := cliComplete(t, shell, tt.line)
				wantNoneTwice(t, tt.line, got)
				for _, word := range tt.want {
					if !slices.Contains(got, word) {
						t.Errorf("%q: no %s among %q", tt.line, word, got)
					}
				}
				for _, word := range tt.unwant {
					if slices.Contains(got, word) {
						t.Errorf("%q: %s is among %q", tt.line, word, got)
					}
				}
			}
		})
	}
}

func TestCLICompletionOfTheCommandThatRuns(t *testing.T) {
	t.Setenv("PATH", os.Getenv("PATH")+":"+os.Getenv("PATH")) // every command is found twice, as where /bin is /usr/bin
	const line = "latchkey run nightly -- printen"
	got := cliComplete(t, "bash", line)
	if !slices.Contains(got, "printenv") {
		t.Errorf("bash offers %q, and no printenv", got)
	}
	wantNoneTwice(t, line, got)
}

func wantNoneTwice(t *testing.T, line string, offered []string) {
	t.Helper()
	if sorted := slices.Sorted(slices.Values(offered)); len(slices.Compact(slices.Clone(sorted))) != len(sorted) {
		t.Errorf("%q: something is offered twice among %q", line, sorted)
	}
}
