package main

import (
	"encoding/json"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The package that writes everything down. As testdata it is part of nothing, but what is laid over the source can import it.
const (
	overheardFile = "cmd/latchkey/testdata/overheard/overheard.go"
	overheardPath = `"github.com/latchkey/latchkey/cmd/latchkey/testdata/overheard"`
)

// overheardEdits let the product tell that package what it says. Each is found once, or the run fails: whoever changes one of these
// lines changes it here too.
var overheardEdits = []edit{
	// what nobody else may know
	{"store/claim.go", "return s.lockID().String()", `return overheard.Secret("lock id", s.lockID().String())`},
	{"store/id.go", "return text + derive(*s.secret.Load(), 'L', text, owner).text()",
		`return overheard.Secret("lease id", text+derive(*s.secret.Load(), 'L', text, owner).text())`},
	{"store/fence.go", "return []byte(mine[1:]), nil", `return []byte(overheard.Secret("secret of the store", mine[1:])), nil`},
	{"server/access/token.go", "sum := sha256.Sum256([]byte(token))\n\treturn token,",
		"sum := sha256.Sum256([]byte(overheard.Secret(\"token\", token)))\n\treturn token,"},
	{"server/requestlog.go", "s.metrics.inFlight.Inc()", "overheard.Request(r.Header); s.metrics.inFlight.Inc()"},
	{"store/name.go", "func checkKey(key string) error {", "func checkKey(key string) error { overheard.Secret(\"key\", key)"},
	{"store/acquire.go", "if err := checkName(c.Name)", "overheard.Shown(c.Name)\n\tif err := checkName(c.Name)"},
	{"store/name.go", "metadata map[string]string) error {", "metadata map[string]string) error { overheard.Shown(holder); overheard.ShownPairs(metadata)"},

	// problem documents and events
	{"server/problems.go", "if werr := writeJSON(w, problem.Status,", "overheard.Problem(w.Header(), problem)\n\tif werr := writeJSON(w, problem.Status,"},
	{"server/tls_failures.go", "body, err := json.Marshal(problem)", "overheard.Problem(nil, problem)\n\tbody, err := json.Marshal(problem)"},
	{"server/events.go", `block := "event: " + event + "\n"`, `overheard.Event(event, text); block := "event: " + event + "\n"`},

	// metrics
	{"store/store.go", "s.tidy.close(ctx)\n\treturn nil\n}", "s.tidy.close(ctx)\n\toverheard.Registry(s.cfg.Registerer)\n\treturn nil\n}"},
	{"server/metrics.go", "format := expfmt.NewFormat(", "overheard.Metrics(families)\n\tformat := expfmt.NewFormat("},

	// etcd
	{"store/sight.go", "resp, err := s.etcd.Txn(once).", "overheard.Sent(then...); overheard.Sent(els...)\n\tresp, err := s.etcd.Txn(once)."},
	{"store/fence.go", "resp, err := s.etcd.Txn(ctx).", "overheard.Put(key, mine)\n\tresp, err := s.etcd.Txn(ctx)."},
	{"store/epoch.go", "resp, err := etcd.Txn(ctx).", "overheard.Put(key, after.value)\n\tresp, err := etcd.Txn(ctx)."},
	{"store/etcdlease.go", "s.leases().LeaseGrant(try, &pb.LeaseGrantRequest{ID: int64(id), TTL: int64(ttl / time.Second)})",
		"s.leases().LeaseGrant(try, overheard.Lease(&pb.LeaseGrantRequest{ID: int64(id), TTL: int64(ttl / time.Second)}))"},

	// logs: wherever one is made, or taken from a test
	{"store/store.go", "if c.Registerer == nil {", "c.Logger = overheard.Logger(c.Logger)\n\tif c.Registerer == nil {"},
	{"store/embedded/log.go", "&core{l.Handler()}", "&core{overheard.Logger(l).Handler()}"},
	{"store/etcdtest/client.go", "zap.NewNop()", "embedded.ZapLogger(slog.New(slog.DiscardHandler))"},
	{"store/etcdtest/client.go", `"go.uber.org/zap"`, `"github.com/latchkey/latchkey/store/embedded"; "log/slog"`},
	{"store/etcdtest/server.go", "zap.NewNop()", "embedded.ZapLogger(slog.New(slog.DiscardHandler))"},
	{"store/etcdtest/server.go", `"go.uber.org/zap"`, `"github.com/latchkey/latchkey/store/embedded"; "log/slog"`},
	{"server/server.go", "if c.Registry == nil {", "c.Logger, c.Audit = overheard.Logger(c.Logger), overheard.Logger(c.Audit)\n\tif c.Registry == nil {"},
	{"server/listen_http.go", `logger.With("component", "http").Handler()`, `overheard.Logger(logger).With("component", "http").Handler()`},
	{"server/tls.go", "log: cfg.Logger.With(", "log: overheard.Logger(cfg.Logger).With("},
	{"server/access/gate.go", "log: log, metrics: m}", "log: overheard.Logger(log), metrics: m}"},
	{"cmd/latchkey/log.go", "slog.New(slog.NewJSONHandler(to, opts))", "overheard.Logger(slog.New(slog.NewJSONHandler(to, opts)))"},
	{"cmd/latchkey/log.go", "slog.New(slog.NewTextHandler(to, opts))", "overheard.Logger(slog.New(slog.NewTextHandler(to, opts)))"},
	{"cmd/latchkey/client_claim_flags.go", "slog.New(slog.DiscardHandler)", "overheard.Logger(slog.New(slog.DiscardHandler))"},
	{"cmd/latchkey/client_claim_flags.go", "slog.New(teller{to: to})", "overheard.Logger(slog.New(teller{to: to}))"},
	{"sdk/go/client.go", "c.log = slog.New(slog.DiscardHandler)\n\t}", "c.log = slog.New(slog.DiscardHandler)\n\t}\n\tc.log = overheard.Logger(c.log)"},
}

var packageClause = regexp.MustCompile(`(?m)^package \w+$`)

// overhearing writes into dir how the Go command is to build everything so that it is overheard, with what is written down going to
// records.
func overhearing(t *testing.T, dir, records string) (overlay string) {
	t.Helper()
	module, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	read := func(file string) string {
		text, err := os.ReadFile(filepath.Join(module, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	replaceOnce := func(file, old, new string) {
		if n := strings.Count(texts[file], old); n != 1 {
			t.Fatalf("%s has %d times what is to be overheard, want once:\n%s", file, n, old)
		}
		texts[file] = strings.Replace(texts[file], old, new, 1)
	}
	texts[overheardFile] = read(overheardFile)
	replaceOnce(overheardFile, "const directory = \"DIRECTORY\"", "const directory = `"+records+"`")
	for _, e := range overheardEdits {
		if texts[e.file] == "" {
			texts[e.file] = read(e.file)
			if strings.Contains(e.new, "overheard.") {
				texts[e.file] = packageClause.ReplaceAllString(texts[e.file], "$0\n\nimport "+overheardPath)
			}
		}
		replaceOnce(e.file, e.old, e.new)
	}
	replace := map[string]string{}
	for file, text := range texts {
		formatted, err := format.Source([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		laid := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(laid, formatted, 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(module, file)] = laid
	}
	encoded, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// TestAllThatIsSaidCanBeOverheard sees that what the run over the whole suite changes is there, and can be changed so.
func TestAllThatIsSaidCanBeOverheard(t *testing.T) {
	t.Parallel()
	overlay := overhearing(t, t.TempDir(), "nowhere")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "../../...")
	if said, err := build.CombinedOutput(); err != nil {
		t.Errorf("what is overheard does not build: %v\n%s", err, said)
	}
}
