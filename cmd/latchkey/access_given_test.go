package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// TestASettingThatIsGivenIsNotEmpty: --auth-file=$FILE without FILE must not be taken for no --auth-file, and open the door.
func TestASettingThatIsGivenIsNotEmpty(t *testing.T) {
	told := func(t *testing.T, args ...string) []string {
		t.Helper()
		parsed, err := parse(append([]string{"serve"}, args...), io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var bad faults
		parsed.check(&bad)
		var lines []string
		for _, fault := range bad {
			lines = append(lines, fault.Error())
		}
		return lines
	}
	for _, flag := range []string{"auth-file", "tls-cert", "tls-key", "tls-client-ca", "audit-log", "admin-listen", "etcd-endpoints"} {
		variable := "LATCHKEY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
		want := "  --" + flag + " (" + variable + ") is given and empty"
		isTold := func(t *testing.T, lines []string) {
			t.Helper()
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
				t.Errorf("told %q, want %q", lines, want)
			}
		}
		t.Run(flag, func(t *testing.T) {
			isTold(t, told(t, "--"+flag+"="))
			isTold(t, told(t, "--"+flag, ""))
			isTold(t, told(t, "--"+flag+"=", "--insecure-no-auth"))
		})
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "")
			isTold(t, told(t))
			for _, line := range told(t, "--"+flag+"=127.0.0.1:1") { // the flag wins
				if strings.Contains(line, "given and empty") {
					t.Errorf("told %q", line)
				}
			}
		})
	}
	if lines := told(t); len(lines) > 0 {
		t.Errorf("told %q of nothing", lines)
	}
}
