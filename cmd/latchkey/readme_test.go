package main

import (
	"bytes"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/latchkey/latchkey/api"
)

const (
	repository = "../.."
	readmeFile = repository + "/README.md"
)

// readmeElsewhere are the commands of its sh blocks that are run, or looked at, in another way; each with where, or why.
var readmeElsewhere = []struct{ command, file, why string }{
	{"go test ./...", "", "this test is a part of it"},
	{".ci/run", "", "it runs this test"},
	{"go test ./cmd/latchkey -run ", "", "these tests are parts of the suite, in their short form"},
	{"go run ./cmd/bench", "", "its own test runs a small form of it"},
	{"docker compose up --build", ".ci/compose-check", "it needs a container engine"},
	{"docker compose down --volumes", ".ci/compose-check", "it needs a container engine"},
	{"etcdutl snapshot restore ", "", "it is etcd's own tool"},
}

// fence is a fenced block of the README.
type fence struct {
	language string
	line     int // of its first line of text
	text     []string
}

func (f fence) String() string { return strings.Join(f.text, "\n") + "\n" }

func readme(t *testing.T) (string, []fence) {
	t.Helper()
	text, err := os.ReadFile(readmeFile)
	if err != nil {
		t.Fatal(err)
	}
	var fences []fence
	open := false
	for i, line := range strings.Split(string(text), "\n") {
		language, mark := strings.CutPrefix(line, "```")
		switch {
		case mark && !open:
			fences = append(fences, fence{language: language, line: i + 2})
			open = true
		case mark:
			open = false
		case open:
			last := &fences[len(fences)-1]
			last.text = append(last.text, line)
		}
	}
	return string(text), fences
}

// fencesOf are the blocks of a language.
func fencesOf(fences []fence, language string) []fence {
	return slices.DeleteFunc(slices.Clone(fences), func(f fence) bool { return f.language != language })
}

func TestReadmeHasNoBlockThatIsNotTested(t *testing.T) {
	_, fences := readme(t)
	for _, f := range fences {
		// without a language: the layout of the repository
		if !slices.Contains([]string{"console", "crontab", "sh", "yaml", "bash", "sql", "haproxy", "nginx", "go", "python", "ts", ""}, f.language) {
			t.Errorf("README.md:%d: no test knows blocks of %s", f.line, f.language)
		}
	}
}

func TestReadmeCommandsElsewhere(t *testing.T) {
	_, fences := readme(t)
	dir := t.TempDir()
	ours := newAuthority(t)
	cert, key := ours.issue(t)
	for name, from := range map[string]string{"etcd-ca.pem": ours.file, "latchkey.pem": cert, "latchkey-key.pem": key, "etcd-password": key} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, block := range fencesOf(fences, "sh") {
		for command := range strings.Lines(strings.ReplaceAll(block.String(), "\\\n", "")) {
			command = strings.TrimSpace(command)
			if args := strings.Fields(command); args[0] == "latchkey" {
				wantSettings(t, command, args[1:])
				continue
			}
			i := slices.IndexFunc(readmeElsewhere, func(e struct{ command, file, why string }) bool {
				return strings.HasPrefix(command+" ", e.command)
			})
			if i < 0 {
				t.Errorf("README.md:%d: this test does not know %q", block.line, command)
				continue
			}
			t.Logf("not run here: %s: %s", command, readmeElsewhere[i].why)
			if file := readmeElsewhere[i].file; file != "" {
				if script, err := os.ReadFile(filepath.Join(root, file)); err != nil || !bytes.Contains(script, []byte(command)) {
					t.Errorf("README.md:%d: %s does not run %q (%v)", block.line, file, command, err)
				}
			}
		}
	}
}

// wantSettings checks a command as the program does before it begins.
func wantSettings(t *testing.T, text string, args []string) {
	t.Helper()
	chosen, err := parse(args, io.Discard, io.Discard)
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	var bad faults
	chosen.check(&bad)
	if err := bad.join(); err != nil {
		t.Errorf("%s: %v", text, err)
	}
}

// readmeTable returns the rows of the README's table whose first heading is given.
func readmeTable(t *testing.T, text, heading string) [][]string {
	t.Helper()
	_, rest, found := strings.Cut(text, "\n| "+heading+" |")
	if !found {
		t.Fatalf("README.md has no table that begins with %s", heading)
	}
	table, _, _ := strings.Cut(rest, "\n\n")
	var rows [][]string
	for _, line := range strings.Split(table, "\n")[2:] {
		row := strings.Split(strings.Trim(line, "|"), "|")
		for i := range row {
			row[i] = strings.Trim(strings.TrimSpace(row[i]), "`")
		}
		rows = append(rows, row)
	}
	return rows
}

func TestReadmeShowsEveryFlagAsTheHelpDoes(t *testing.T) {
	text, _ := readme(t)
	var all commands
	parser, err := kong.New(&all, kong.NoDefaultHelp(), kong.DefaultEnvars("LATCHKEY"), bounds())
	if err != nil {
		t.Fatal(err)
	}
	span := regexp.MustCompile(`[0-9]+[a-z]* to [0-9]+[a-z]*`)
	tables := map[string][][]string{}
	for _, name := range []string{"serve", "healthcheck"} {
		tables[name] = readmeTable(t, text, "`latchkey "+name+"`")
	}
	ofClients := readmeTable(t, text, "`latchkey` as a [client](#the-command-line)")
	for _, command := range parser.Model.Leaves(false) {
		rows, own := tables[command.Name]
		if _, client := command.Target.Addr().Interface().(clientCommand); client {
			rows = ofClients
		} else if !own {
			rows = tables["serve"] // of which the others have some
		}
		shown := map[string]string{}
		for _, row := range rows {
			name, _, _ := strings.Cut(row[0], "`") // the short one follows
			shown[name] = strings.Join(row[1:4], " | ")
		}
		for _, f := range command.Flags {
			want := strings.Join([]string{f.Envs[0], f.Default, span.FindString(f.Help)}, " | ")
			if got := shown["--"+f.Name]; got != want {
				t.Errorf("%s --%s: README.md has %q, the help %q", command.Path(), f.Name, got, want)
			}
		}
		if own && len(rows) != len(command.Flags) {
			t.Errorf("%s: README.md has %d flags, the help %d", command.Path(), len(rows), len(command.Flags))
		}
	}
}

// TestReadmeCodeIsThatOfTheClients: what their own pages show is run by their own tests.
func TestReadmeCodeIsThatOfTheClients(t *testing.T) {
	_, fences := readme(t)
	for language, page := range map[string]string{"go": "sdk/go", "python": "sdk/python", "ts": "sdk/typescript"} {
		own, err := os.ReadFile(filepath.Join(repository, page, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		blocks := fencesOf(fences, language)
		if len(blocks) == 0 {
			t.Errorf("README.md shows no %s", language)
		}
		for _, block := range blocks {
			if !strings.Contains(string(own), "```"+language+"\n"+block.String()+"```\n") {
				t.Errorf("README.md:%d: %s/README.md has no such block", block.line, page)
			}
		}
	}
}

// TestReadmeCrontabIsRead parses what cron would run.
func TestReadmeCrontabIsRead(t *testing.T) {
	_, fences := readme(t)
	for _, block := range fencesOf(fences, "crontab") {
		for _, line := range block.text {
			if name, value, is := strings.Cut(line, "="); is && strings.HasPrefix(name, "LATCHKEY_") {
				t.Setenv(name, value)
			} else if _, command, is := strings.Cut(line, "  latchkey "); is {
				wantSettings(t, line, strings.Fields(command))
			} else {
				t.Errorf("this test does not know %q", line)
			}
		}
	}
}

func TestReadmeShowsEveryProblem(t *testing.T) {
	text, _ := readme(t)
	var contract struct {
		Components struct {
			Examples map[string]struct {
				Value struct {
					Code   string
					Status int
				}
			}
		}
	}
	if err := yaml.Unmarshal(api.Contract, &contract); err != nil {
		t.Fatal(err)
	}
	want, got := map[string]string{}, map[string]string{}
	for _, example := range contract.Components.Examples {
		if example.Value.Code != "" {
			want[example.Value.Code] = strconv.Itoa(example.Value.Status)
		}
	}
	for _, row := range readmeTable(t, text, "code") {
		got[row[0]] = row[1]
	}
	if !maps.Equal(got, want) {
		t.Errorf("README.md has %v, the contract %v", got, want)
	}
}

func TestReadmeLinksLeadSomewhere(t *testing.T) {
	text, _ := readme(t)
	anchors := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		plain := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors["#"+strings.ReplaceAll(plain, " ", "-")] = true
	}
	for _, link := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(text, -1) {
		target := link[1]
		if _, err := os.Stat(filepath.Join(repository, target)); !anchors[target] && err != nil && !strings.HasPrefix(target, "https://") {
			t.Errorf("README.md links to %s: %v", target, err)
		}
	}
}

func TestReadmeBalancersAreConfigured(t *testing.T) {
	_, fences := readme(t)
	compose, err := os.ReadFile(filepath.Join(repository, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	haproxy := fencesOf(fences, "haproxy")[0]
	for _, line := range haproxy.text {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "server ") && !strings.Contains(string(compose), line) {
			t.Errorf("docker-compose.yml's HAProxy has no %q", line)
		}
	}
	dir := t.TempDir()
	nginx := strings.ReplaceAll(fencesOf(fences, "nginx")[0].String(), "/var/log/nginx", dir)
	tryConfig(t, filepath.Join(dir, "haproxy.cfg"), haproxy.String()+"frontend http\n    bind :8080\n    default_backend latchkey\n", "haproxy", "-c", "-f")
	tryConfig(t, filepath.Join(dir, "nginx.conf"), nginxAround(dir, nginx), "nginx", "-t", "-e", "stderr", "-c")
}

// nginxAround is a whole configuration that touches nothing outside of dir.
func nginxAround(dir, http string) string {
	around := "pid " + dir + "/pid;\nevents {}\nhttp {\n"
	for _, files := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		around += files + "_temp_path " + filepath.Join(dir, files) + ";\n"
	}
	return around + http + "}\n"
}

// tryConfig has a balancer check a file, if there is one here.
func tryConfig(t *testing.T, file, content string, command ...string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		t.Logf("not checked: there is no %s here", command[0])
		return
	}
	if said, err := exec.Command(command[0], append(command[1:], file)...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", command[0], err, said)
	}
}

func TestReadmeSQLRefusesALowerToken(t *testing.T) {
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Skip("there is no sqlite3 here to run it")
	}
	_, fences := readme(t)
	blocks := fencesOf(fences, "sql")
	create, upsert, found := strings.Cut(blocks[0].String(), ";\n\n")
	if !found || len(blocks) != 2 {
		t.Fatal("README.md has other SQL than this test knows")
	}
	script := create + ";\nCREATE TABLE invoices (id int, status text, token bigint);\nINSERT INTO invoices VALUES (1, 'new', 0);\n" +
		".parameter set :name report\n.parameter set :id 1\n.parameter set :status sent\n"
	for _, token := range []string{"33", "33", "34", "33", "35"} {
		script += ".parameter set :token " + token + "\n"
		for _, statement := range []string{upsert, blocks[1].String()} {
			script += statement + "SELECT changes();\n"
		}
	}
	cmd := exec.Command("sqlite3", "-batch")
	cmd.Stdin = strings.NewReader(script)
	said, err := cmd.CombinedOutput()
	if got, want := strings.Join(strings.Fields(string(said)), " "), "1 1 1 1 1 1 0 0 1 1"; err != nil || got != want {
		t.Errorf("rows changed %s, want %s (%v)", got, want, err)
	}
}
