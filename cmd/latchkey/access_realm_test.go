package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/latchkey/latchkey/server/access"
	"github.com/latchkey/latchkey/store/etcdtest"
)

// realm is an auth file of a test: who may do what.
type realm struct {
	t       *testing.T
	file    string
	entries map[string]string // of principals, by name
	jwt     string            // a section, or none
	tokens  map[string]string // by name
}

// newRealm has principals with a token each: their names, and their grants in the auth file's words.
func newRealm(t *testing.T, principals ...string) *realm {
	t.Helper()
	r := &realm{
		t: t, file: filepath.Join(t.TempDir(), "auth.yaml"), entries: map[string]string{}, tokens: map[string]string{},
	}
	for i := 0; i < len(principals); i += 2 {
		r.admit(principals[i], principals[i+1])
	}
	return r
}

// admit gives somebody a token.
func (r *realm) admit(name, grants string) {
	token, kept := access.NewToken()
	r.tokens[name] = token
	r.entries[name] = fmt.Sprintf("- {name: %q, tokens: [%q], grants: [%s]}\n", name, kept, grants)
}

// certify knows somebody by a name in a certificate.
func (r *realm) certify(name, certificate, grants string) {
	r.entries[name] = fmt.Sprintf("- {name: %q, certificates: [%q], grants: [%s]}\n", name, certificate, grants)
}

// write puts the file in its place as a whole.
func (r *realm) write() {
	r.t.Helper()
	var text strings.Builder
	if len(r.entries) > 0 {
		text.WriteString("principals:\n")
	}
	for _, name := range slices.Sorted(maps.Keys(r.entries)) {
		text.WriteString(r.entries[name])
	}
	replace(r.t, r.file, text.String()+r.jwt)
}

// replace puts a text in a file's place as a whole: nobody reads half of it.
func replace(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// replicas are two that go by the realm, on an etcd that other tests use too.
func (r *realm) replicas(args ...string) (a, b *running) {
	r.t.Helper()
	return r.replicasOn(etcdtest.Shared(r.t).Endpoint(), args...)
}

func (r *realm) replicasOn(etcd string, args ...string) (a, b *running) {
	r.t.Helper()
	r.write()
	args = append([]string{"--auth-file=" + r.file, "--etcd-endpoints=" + etcd, ownPrefix(r.t)}, args...)
	return serveSome(r.t, args...), serveSome(r.t, args...)
}

// serveSome serves HTTP or HTTPS.
func serveSome(t *testing.T, args ...string) *running {
	t.Helper()
	r := launch(t, args...)
	r.url = r.log.await(t, `listens on (https?://[^," ]+), store: `)
	return r
}

// as is somebody with a token.
func (r *realm) as(name string) *caller {
	r.t.Helper()
	if r.tokens[name] == "" {
		r.t.Fatalf("%s has no token", name)
	}
	return newCaller(r.t, r.tokens[name], nil)
}

// Grants in the auth file's words.
const (
	lockEverything  = "{prefix: '*', rights: [lock, read]}"
	readEverything  = "{prefix: '*', rights: [read]}"
	adminEverything = "{prefix: '*', rights: [admin]}"
)

// on are rights on a prefix.
func on(prefix, rights string) string {
	return fmt.Sprintf("{prefix: %q, rights: [%s]}", prefix, rights)
}
