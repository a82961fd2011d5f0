package access

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	oneDigest = digestMark + "1111111111111111111111111111111111111111111111111111111111111111"
	twoDigest = digestMark + "2222222222222222222222222222222222222222222222222222222222222222"
)

func TestAuthFileIsYAMLOrJSON(t *testing.T) {
	token, kept := NewToken()
	for name, text := range map[string]string{
		"block": `
# who may do what
principals:
  - name: ci          # of the builds
    tokens:
      - ` + kept + `
    certificates: ["CN=ci.example"]
    grants:
      - prefix: "*"
        rights: [lock, read]
`,
		"flow":           `principals: [{name: ci, tokens: ["` + kept + `"], grants: [{prefix: "*", rights: lock}]}]`,
		"JSON":           `{"principals":[{"name":"ci","tokens":["` + kept + `"],"grants":[{"prefix":"*","rights":["lock"]}]}]}`,
		"JSON with tabs": "{\n\t\"principals\":\t[\n\t\t{\n\t\t\t\"name\": \"ci\",\n\t\t\t\"tokens\": [\n\t\t\t\t\"" + kept + "\"\n\t\t\t],\n\t\t\t\"grants\": [{\"prefix\": \"*\",\t\"rights\": [\"lock\"]}]\n\t\t}\n\t]\n}\n",
		"CRLF":           "principals:\r\n- name: ci\r\n  tokens: ['" + kept + "']\r\n  grants: [{prefix: '*', rights: lock}]\r\n",
		"upper case":     `principals: [{name: ci, tokens: ["` + digestMark + strings.ToUpper(kept[len(digestMark):]) + `"], grants: [{prefix: "*", rights: lock}]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			g := open(t, text)
			g.wantName(t, "Bearer "+token, "ci")
		})
	}
}

// TestFaultsOfAFileAreToldTogether wants every one, where it is, and no secret.
func TestFaultsOfAFileAreToldTogether(t *testing.T) {
	token, _ := NewToken()
	text := `principals:
  - name: "a:b"
    tokens: [` + token + `, "sha256:12", ` + oneDigest + `]
    grants: [{prefix: "a*b", rights: [lock, write]}, {prefix: "{value}", rights: []}, {rights: [read]}]
  - name: ci
    secret: 1
    ` + token + `: x
    tokens: [` + oneDigest + `]
    certificates: ["ci.example", "CN=", "DNS:a", "dns:a", "DNS:A", "URI:a"]
    grants: []
  - name: ci
    tokens: hunter2hunter2
    tokens: []
    grants: [{prefix: 1, rights: [lock], prefix: "x"}]
  - {tokens: []}
  - text
  - name: ""
    grants: [*there]
jwt:
  issuer: [x]
  audience: []
  jwks_url: http://user:hunter2@issuer.example/keys
  jwks_file: keys.json
  algorithms: [RS256, HS256, none]
  principal_claim: yes
  grants:
    - {claim: groups, prefix: "team-{vlaue}", rights: admin}
    - {value: x, prefix: "{value}/*", rights: [read]}
more: 1
`
	_, err := tryOpen(t, Config{}, strings.Replace(text, "*there", "&there x", 1))
	if err == nil {
		t.Fatal("the file was taken")
	}
	said := err.Error()
	for _, want := range []string{
		"auth.yaml:2: principals[0].name: must not contain a colon",
		"auth.yaml:3: principals[0].tokens[0]: is a token itself",
		"auth.yaml:3: principals[0].tokens[1]: must be sha256: and 64 hexadecimal digits",
		"auth.yaml:4: principals[0].grants[0].prefix: may have a star only at its end",
		"auth.yaml:4: principals[0].grants[0].rights: must be of lock, read and admin",
		"auth.yaml:4: principals[0].grants[1].prefix: may hold {value} only in a grant of jwt",
		"auth.yaml:4: principals[0].grants[1].rights: must not be empty",
		"auth.yaml:4: principals[0].grants[2]: has no prefix",
		"auth.yaml:6: principals[1]: has a field that is not known: secret",
		"auth.yaml:7: principals[1]: has a field that is not known\n",
		"auth.yaml:8: principals[1].tokens[0]: is the same as in line 3",
		"auth.yaml:9: principals[1].certificates[0]: must be CN=…, DNS:…, URI:… or EMAIL:…",
		"auth.yaml:9: principals[1].certificates[1]: must name something",
		"auth.yaml:9: principals[1].certificates[3]: must be CN=…",
		"auth.yaml:9: principals[1].certificates[4]: is the same as in line 9",
		"auth.yaml:9: principals[1].certificates[5]: must have a whole URI",
		"auth.yaml:11: principals[2].name: is the same as in line 5",
		"auth.yaml:12: principals[2].tokens: must be a list",
		"auth.yaml:13: principals[2].tokens: is given twice",
		"auth.yaml:14: principals[2].grants[0].prefix: must be text: put it in quotes",
		"auth.yaml:14: principals[2].grants[0].prefix: is given twice",
		"auth.yaml:15: principals[3]: has no name",
		"auth.yaml:15: principals[3]: has no grants",
		"auth.yaml:16: principals[4]: must be a mapping of fields",
		"auth.yaml:17: principals[5].name: must not be empty",
		"auth.yaml:18: principals[5].grants[0]: must be a mapping of fields",
		"auth.yaml:20: jwt.issuer: must be text",
		"auth.yaml:21: jwt.audience: must not be empty",
		"auth.yaml:22: jwt.jwks_url: must be a URL with a host, and without a user",
		"auth.yaml:24: jwt.algorithms: must be of RS256, ",
		"auth.yaml:27: jwt.grants[0].prefix: must not have braces but {value}",
		"auth.yaml:28: jwt.grants[1]: has no claim",
		"auth.yaml:19: jwt: must have one of jwks_url and jwks_file",
		"auth.yaml:29: has a field that is not known: more",
		"keys.json: no such file or directory",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("not told: %s", want)
		}
	}
	if strings.Contains(said, token) || strings.Contains(said, "hunter2") || strings.Contains(said, "1111") {
		t.Error("a secret is told")
	}
	if t.Failed() {
		t.Log(said)
	}
}

func TestFilesThatAreRefusedWhole(t *testing.T) {
	grants := `[{prefix: x, rights: lock}]`
	for name, tt := range map[string]struct{ text, want string }{
		"empty":            {"", "auth.yaml: is empty"},
		"only a comment":   {"# soon\n", "auth.yaml"},
		"null":             {"null", "must be a mapping"},
		"nobody":           {"{}", "must have principals, jwt or both"},
		"no YAML":          {"principals: [", "auth.yaml: is not YAML"},
		"a bare star":      {"principals: [{name: x, grants: [{prefix: *, rights: lock}]}]", "must be in quotes"},
		"an alias":         {"principals: &a [{name: x, grants: *b}]", "must be in quotes"},
		"an alias of some": {"principals: [{name: &a x, grants: *a}]", "is an alias"},
		"a merge":          {"principals: [{<<: {name: x}, grants: " + grants + "}]", "has a field that is not known"},
		"two documents":    {"principals: []\n---\nprincipals: []", "has more than one document"},
		"a binary name":    {"principals: [{name: !!binary eHg=, grants: " + grants + "}]", "must be text"},
		"too many": {"principals: [{name: x, grants: [" + strings.Repeat("{prefix: x, rights: lock}, ", maxGrants+1) + "]}]",
			"must have at most 1000 items"},
		"a long name": {"principals: [{name: " + strings.Repeat("x", MaxName+1) + ", grants: " + grants + "}]", "must be 1 to 128 bytes"},
		"not UTF-8":   {"principals: [{name: \"\xff\", grants: " + grants + "}]", "auth.yaml"},
		"http":        {"jwt: {issuer: x, audience: x, jwks_url: 'http://issuer.example/', grants: []}", "must begin with https://"},
		"no keys":     {"jwt: {issuer: x, audience: x, grants: []}", "must have one of jwks_url and jwks_file"},
		"no scheme":   {"jwt: {issuer: x, audience: x, jwks_url: 'issuer.example/keys', grants: []}", "must be a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tryOpen(t, Config{}, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestFilesMustBeReadableAndBounded(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "long"), make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"gone": "no such file", ".": "is not a regular file", "long": "is longer than 4194304 bytes",
	} {
		if _, err := readFile(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := readFile(os.DevNull); err == nil {
		t.Error("a device was read")
	}
}

func TestManyFaultsAreCutShort(t *testing.T) {
	_, err := tryOpen(t, Config{}, "principals: ["+strings.Repeat("x, ", maxFaults+7)+"]")
	if err == nil || strings.Count(err.Error(), "must be a mapping") != maxFaults || !strings.HasSuffix(err.Error(), "auth.yaml: and 7 faults more") {
		t.Errorf("got %v", err)
	}
}

func TestDigestsInFilesAreNotShown(t *testing.T) {
	for _, text := range []string{
		"principals: [{name: x, grants: [], tokens: [" + oneDigest + ", " + oneDigest + "]}]",
		"principals: [{name: x, grants: [], tokens: {" + oneDigest + ": 1}}]",
		"principals: [{name: x, grants: [], " + twoDigest + ": 1}]",
	} {
		_, err := tryOpen(t, Config{}, text)
		if err == nil || strings.Contains(err.Error(), "11111") || strings.Contains(err.Error(), "22222") {
			t.Errorf("got %v", err)
		}
	}
}

// FuzzAuthFile: a text is refused with a fault, or all of it is understood as the parser's own decoding has it.
func FuzzAuthFile(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "# x", "---", "--- x\n...\n---", "principals: []", "[", "\xff", "{\"a\":\t1}", "a: &x [*x]", "&a [*a]", "? [a]\n: b", "<<: x",
		"principals: [{name: ci, tokens: ['" + oneDigest + "'], certificates: ['DNS:A', 'URI:spiffe://x/y'], grants: [{prefix: 'a*', rights: [lock]}]}]",
		"jwt: {issuer: x, audience: [y], jwks_url: 'https://x/', grants: [{claim: g, prefix: 'a/{value}', rights: read}]}",
		`{"principals":[{"name":"ci","grants":[{"prefix":"*","rights":["admin"]}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		read := readAuthFile("f", text)
		if err := read.err(); err != nil {
			if len(read.faults) > maxFaults {
				t.Errorf("%d faults", len(read.faults))
			}
			return
		}
		var plain struct {
			Principals []struct {
				Name                 string
				Tokens, Certificates []string
				Grants               []struct{ Prefix string }
			}
		}
		if err := yaml.Unmarshal(text, &plain); err != nil {
			if json.Valid(text) {
				return // tabs
			}
			t.Fatalf("taken, though %v", err)
		}
		var tokens, certificates int
		for _, p := range plain.Principals {
			tokens += len(p.Tokens)
			certificates += len(p.Certificates)
			if err := CheckName(p.Name); err != nil {
				t.Errorf("taken with the name %q: %v", p.Name, err)
			}
			for _, g := range p.Grants {
				if _, err := ParsePrefix(g.Prefix); err != nil {
					t.Errorf("taken with the prefix %q: %v", g.Prefix, err)
				}
			}
		}
		if got := fmt.Sprint(len(read.policy.bearers), len(read.policy.certificates), len(read.names)); got != fmt.Sprint(tokens, certificates, len(plain.Principals)) {
			t.Errorf("got %s of %+v", got, plain)
		}
		for _, b := range read.policy.bearers {
			if i := slices.IndexFunc(b.principal.grants, func(g grant) bool { return g.prefix == "" || g.rights == 0 }); i >= 0 {
				t.Errorf("%s has the grant %+v", b.principal.Name, b.principal.grants[i])
			}
		}
	})
}
