package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store/etcdtest"
)

// secret is something that only its owner may be told, and that not always.
type secret struct {
	text, owner string
	// told says that it is told to its owner, as ids are; nobody is told a key, a token or a JWT.
	told bool
	// forms are how it can be told: see formsOf.
	forms []string
}

// formsOf are how it can be told though it is not written as it is. Of an id they are those of its parts that nobody can guess, too.
func formsOf(s secret) []string {
	whole := []byte(s.text)
	parts := [][]byte{whole}
	if raw, err := base64.RawURLEncoding.DecodeString(s.text); err == nil && s.told {
		parts = append(parts, raw)
		if len(raw) > sealEnd {
			parts = append(parts, raw[sealBegin:sealEnd])
		}
	}
	if len(s.text) == 2*leaseSealBegin { // a lease's
		if raw, err := base64.RawURLEncoding.DecodeString(s.text[leaseSealBegin:]); err == nil {
			parts = append(parts, raw)
		}
	}
	forms := []string{s.text[1:], s.text[:len(s.text)-1], url.QueryEscape(s.text), url.PathEscape(s.text), strings.Trim(fmt.Sprintf("%q", s.text), `"`)}
	for _, part := range parts {
		forms = append(forms, string(part), hex.EncodeToString(part), strings.ToUpper(hex.EncodeToString(part)),
			base64.RawStdEncoding.EncodeToString(part), base64.RawURLEncoding.EncodeToString(part))
	}
	return forms
}

// The part of an id that etcd does not have: bytes of a lock's, and the rest of a lease's text.
const sealBegin, sealEnd, leaseSealBegin = 24, 40, 22

// eavesdropper remembers all that the service says, to whom, and what must not be said.
type eavesdropper struct {
	t *testing.T

	mu      sync.Mutex
	secrets map[string]secret
	said    map[saying]bool
}

type saying struct {
	to, text string
	// shows says that it is an answer which may have ids of its receiver, or of all if that is an administrator.
	shows bool
}

func (l *eavesdropper) keep(s secret) string {
	s.forms = formsOf(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secrets[s.text] = s
	return s.text
}

// key is a fresh one for a claim.
func (l *eavesdropper) key(owner string) []string {
	return []string{"Idempotency-Key", l.keep(secret{text: "key/of+" + owner + " " + rand.Text(), owner: owner})}
}

// ask sends a request, learns the ids in its answer, and remembers the answer.
func (l *eavesdropper) ask(who string, c *caller, method, at, body string, header ...string) heard {
	l.t.Helper()
	got := c.do(method, at, body, header...)
	got.header.Del("Date")
	l.mu.Lock()
	l.said[saying{who, got.body + fmt.Sprint(got.header), got.status < 400}] = true
	l.mu.Unlock()
	if got.status < 300 && method != http.MethodGet {
		l.learn(who, got.body)
	}
	return got
}

func (l *eavesdropper) learn(who, body string) {
	var read struct {
		ID      string `json:"id"`
		LeaseID string `json:"lease_id"`
	}
	if json.Unmarshal([]byte(body), &read) != nil || read.ID == "" {
		return
	}
	l.keep(secret{text: read.ID, owner: who, told: true})
	if read.LeaseID != "" && read.LeaseID != read.ID {
		l.keep(secret{text: read.LeaseID, owner: who, told: true})
	}
}

// stream remembers events up to one of the kind.
func (l *eavesdropper) stream(who string, c *caller, at, until string) {
	l.t.Helper()
	s := c.open(at)
	defer s.close()
	for {
		e, err := s.next()
		if err != nil {
			l.t.Fatalf("a stream ends before %s: %v", until, err)
		}
		l.said[saying{who, e.data, true}] = true
		if e.kind == until {
			return
		}
	}
}

// wantSilence finds no secret in what was said to nobody in particular.
func (l *eavesdropper) wantSilence(where, text string, spare func(secret) bool) {
	l.t.Helper()
	for _, s := range l.secrets {
		if spare != nil && spare(s) {
			continue
		}
		for _, form := range s.forms {
			if at := strings.Index(text, form); at >= 0 {
				l.t.Errorf("%s tells %q of %s, as %q: …%q", where, s.text, s.owner, form, text[max(0, at-200):min(len(text), at+100)])
				break
			}
		}
	}
}

// TestNoSecretIsTold does everything, rightly and wrongly, as several principals at two replicas that log all they can, and then looks
// for every id, key, token and JWT in all that was said and kept. OWASP API1, API2, API3, API8.
func TestNoSecretIsTold(t *testing.T) {
	t.Parallel()
	l := &eavesdropper{t: t, secrets: map[string]secret{}, said: map[saying]bool{}}
	issuer := newIssuer(t)
	r := newRealm(t, "alice", lockEverything, "bob", lockEverything, "reader", readEverything, "admin", adminEverything, "few", on("few", "lock"))
	r.trustFile(issuer, "lock, read")
	etcd := etcdtest.New(t)
	proxy := etcdtest.NewProxy(t, etcd.Endpoint())
	audit := filepath.Join(t.TempDir(), "audit.log")
	r.write()
	flags := []string{"--auth-file=" + r.file, "--log-level=debug", "--request-timeout=500ms", "--audit-log=" + audit, "--max-claims-per-principal=40", "--max-leases-per-principal=8"}
	a := serveSome(t, append(flags, "--etcd-endpoints="+proxy.Addr(), "--log-format=json")...)
	b := serveSome(t, append(flags, "--etcd-endpoints="+etcd.Endpoint())...)

	callers := map[string]*caller{"nobody": newCaller(t, "", nil)}
	for name, token := range r.tokens {
		callers[name] = newCaller(t, l.keep(secret{text: token, owner: name}), nil)
	}
	callers["jwt:carol"] = newCaller(t, l.keep(secret{text: issuer.jwt("carol", "names"), owner: "jwt:carol"}), nil)
	for what, forgery := range forged(t, issuer, r.tokens["alice"], "127.0.0.1:1") {
		if len(forgery) > 8 && len(forgery) < 4096 && !strings.Contains(forgery, r.tokens["alice"]) {
			callers[what] = newCaller(t, l.keep(secret{text: forgery, owner: what}), nil)
		}
	}

	ids := map[string][]string{}
	for _, owner := range []string{"alice", "jwt:carol"} {
		ids[owner] = l.right(owner, callers, a.url, b.url)
		l.wrong(owner, ids[owner], callers, a.url, b.url)
	}
	l.broken(ids["alice"][0], callers, a.url, b.url)
	l.cutOff(proxy, ids["jwt:carol"], callers, a.url)

	stored, err := etcd.Client(t).Get(t.Context(), "\x00", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	metrics := ""
	for _, replica := range []*running{a, b} {
		metrics += callers["admin"].do(http.MethodGet, replica.url+"/metrics", "").body
	}
	for _, replica := range []*running{a, b} {
		if err := replica.end(); err != nil {
			t.Error(err)
		}
	}
	audited, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	logs := a.log.String() + b.log.String()
	if len(l.secrets) < 40 || !strings.Contains(logs, `"level":"DEBUG"`) || !strings.Contains(string(audited), "lock broken") || !strings.Contains(metrics, "latchkey_http_refused_total") {
		t.Fatalf("this asks for nothing: %d secrets", len(l.secrets))
	}

	l.wantSilence("the log", logs, nil)
	l.wantSilence("the audit log", string(audited), nil)
	l.wantSilence("a metric", metrics, nil)
	for _, kv := range stored.Kvs {
		l.wantSilence(fmt.Sprintf("etcd, in %q,", kv.Key), string(kv.Key)+string(kv.Value), nil)
	}
	for said := range l.said {
		l.wantSilence("what was answered to "+said.to, said.text, func(s secret) bool {
			return s.told && said.shows && (s.owner == said.to || said.to == "admin")
		})
	}
	t.Logf("%d secrets were looked for in %d different answers and events, %d lines of logs and %d keys of etcd",
		len(l.secrets), len(l.said), strings.Count(logs, "\n"), len(stored.Kvs))
}

// right is what a principal does that means well. It returns the ids that it has: of a lock, a place, a lock on a lease, and a lease.
func (l *eavesdropper) right(who string, callers map[string]*caller, a, b string) []string {
	l.t.Helper()
	c, other := callers[who], callers["bob"]
	name := "names/" + who
	post := func(at, body string, header ...string) api.Lock {
		l.t.Helper()
		got := l.ask(who, c, http.MethodPost, at, body, header...)
		if got.status >= 300 {
			l.t.Fatalf("%s answers %d %s", body, got.status, got.body)
		}
		return decoded[api.Lock](l.t, got.body)
	}
	key := l.key(who)
	claim := encoded(l.t, api.LockRequest{Name: name, TTLSeconds: 120, Holder: "h", Metadata: map[string]string{"k": "v"}})
	held := post(a+"/locks", claim, key...)
	post(b+"/locks", claim, key...)                                                           // a replay
	l.ask(who, c, http.MethodPost, b+"/locks", `{"name":"`+name+`","ttl_seconds":9}`, key...) // with other words
	place := post(a+"/locks", `{"name":"`+name+`","queue":true}`, l.key(who)...)
	lease := post(b+"/leases", `{"ttl_seconds":120}`)
	onLease := post(a+"/locks", `{"name":"`+name+`/on","lease_id":"`+lease.ID+`"}`)
	post(b+"/locks", `{"name":"`+name+`/on","lease_id":"`+lease.ID+`"}`)
	for _, at := range []string{a, b} {
		l.ask(who, c, http.MethodPost, at+"/locks", `{"name":"`+name+`"}`)
		l.ask("bob", other, http.MethodPost, at+"/locks", `{"name":"`+name+`","wait_seconds":1}`)
		l.ask("few", callers["few"], http.MethodPost, at+"/locks", `{"name":"`+name+`"}`)
		for _, path := range []string{"/locks/" + held.ID, "/locks/" + place.ID + "?wait_seconds=0", "/leases/" + held.ID, "/leases/" + lease.ID, "/leases/" + place.ID} {
			l.ask(who, c, http.MethodGet, at+path, "")
		}
		for _, id := range []string{held.ID, lease.ID, place.ID} {
			l.ask(who, c, http.MethodPut, at+"/leases/"+id, "")
		}
		l.stream(who, c, at+"/locks/"+place.ID+"/events", "queued")
		l.stream(who, c, at+"/leases/"+held.ID+"/keepalive", "renewed")
		l.stream(who, c, at+"/leases/"+lease.ID+"/keepalive", "renewed")
		for reader, c := range callers {
			l.ask(reader, c, http.MethodGet, at+"/locks?prefix=names", "")
			l.ask(reader, c, http.MethodGet, at+"/locks?limit=1", "")
		}
		gone := post(at+"/locks", `{"name":"`+name+`/gone"}`, l.key(who)...)
		l.stream(who, c, at+"/locks/"+gone.ID+"/events", "held")
		for range 2 {
			l.ask(who, c, http.MethodDelete, b+"/locks/"+gone.ID, "")
			l.ask(who, c, http.MethodPut, a+"/leases/"+gone.ID, "")
		}
		over := post(at+"/leases", `{"ttl_seconds":60}`)
		for range 2 {
			l.ask(who, c, http.MethodDelete, a+"/leases/"+over.ID, "")
		}
	}
	for range 12 { // more than there may be
		l.ask(who, c, http.MethodPost, a+"/leases", `{}`)
	}
	return []string{held.ID, place.ID, onLease.ID, lease.ID}
}

// wrong is what others do with the ids, and what anybody does who puts a secret where it does not belong.
func (l *eavesdropper) wrong(owner string, ids []string, callers map[string]*caller, a, b string) {
	l.t.Helper()
	for who, c := range callers {
		if who == owner {
			continue
		}
		for _, id := range ids {
			for what, try := range tryAll(id) {
				if what != "break" && what != "wait" {
					l.ask(who, c, try[0], a+try[1], try[2])
				}
			}
		}
	}
	c := callers[owner]
	misplaced := append(slices.Clone(ids), c.bearer, l.key(owner)[1])
	for _, text := range misplaced {
		escaped := url.QueryEscape(text)
		for _, at := range []string{a, b} {
			for _, path := range []string{
				"/" + escaped, "/locks/" + escaped + "/", "/locks/x" + escaped, "/leases/" + escaped + "/nothing", "/locks?" + escaped, "/locks?" + escaped + "=1",
				"/locks?access_token=" + escaped, "/locks?cursor=" + escaped, "/locks?state=" + escaped, "/locks?limit=" + escaped, "/locks?name=a&name=" + escaped,
				"/locks/" + ids[0] + "?reason=%0A" + escaped, "/locks/" + ids[0] + "?wait_seconds=" + escaped, "//" + escaped, "/openapi.yaml?" + escaped,
			} {
				l.ask(owner, c, http.MethodGet, at+path, "")
				l.ask(owner, c, http.MethodDelete, at+path, "")
				l.ask("nobody", callers["nobody"], http.MethodPost, at+path, "{}")
			}
			for _, body := range []any{
				map[string]any{"name": "a", text: 1}, map[string]any{"name": "a", "lease_id": text + "x"}, map[string]any{"name": "a", "lease_id": []string{text}},
				map[string]any{"name": 7, "id": text}, map[string]any{"name": "a", "ttl_seconds": text}, map[string]any{"name": "a", "metadata": map[string]any{text: 1}}, text,
			} {
				l.ask(owner, c, http.MethodPost, at+"/locks", encoded(l.t, body))
				l.ask(owner, c, http.MethodPost, at+"/leases", encoded(l.t, body), "Content-Type", "text/"+escaped)
			}
			l.ask(owner, c, http.MethodPost, at+"/locks", `{"name":"`+text) // cut
			l.ask(owner, c, http.MethodPost, at+"/locks", `{"name":"a"}`, "Idempotency-Key", text+"\u00e9")
			l.ask(owner, c, http.MethodGet, at+"/locks/"+ids[0]+"/events/", "", "Last-Event-ID", text)
			for _, scheme := range []string{"Basic ", "Bearer  x", "Token ", ""} {
				l.ask("nobody", callers["nobody"], http.MethodGet, at+"/locks", "", "Authorization", scheme+text)
			}
			l.ask(owner, c, "BREW", at+"/locks/"+escaped, "")
		}
	}
}

// broken is a lock that an administrator takes away.
func (l *eavesdropper) broken(id string, callers map[string]*caller, a, b string) {
	l.t.Helper()
	for who, c := range callers {
		if who != "admin" {
			l.ask(who, c, http.MethodDelete, b+"/locks/"+id+"?reason=no", "")
		}
	}
	if got := l.ask("admin", callers["admin"], http.MethodDelete, b+"/locks/"+id+"?reason=why", ""); got.status != http.StatusNoContent {
		l.t.Errorf("a break answers %d %s", got.status, got.body)
	}
	for _, at := range []string{a, b} {
		for _, try := range tryAll(id) {
			l.ask("alice", callers["alice"], try[0], at+try[1], try[2])
		}
		l.ask("admin", callers["admin"], http.MethodDelete, at+"/locks/"+id+"?reason=again", "")
	}
}

// cutOff is what happens at a replica that its store does not answer.
func (l *eavesdropper) cutOff(etcd *etcdtest.Proxy, ids []string, callers map[string]*caller, a string) {
	l.t.Helper()
	c := callers["jwt:carol"]
	etcd.Cut()
	var failed atomic.Int64
	var all sync.WaitGroup
	for _, id := range ids {
		for what, try := range tryAll(id) {
			if what == "keep alive" {
				continue // it begins all the same, and warns
			}
			all.Go(func() {
				if got := l.ask("jwt:carol", c, try[0], a+try[1], strings.Replace(try[2], "theirs", "names", 1)); got.status >= 500 {
					failed.Add(1)
				}
			})
		}
	}
	all.Wait()
	l.ask("jwt:carol", c, http.MethodPost, a+"/locks", `{"name":"names/z"}`, l.key("jwt:carol")...)
	l.ask("admin", callers["admin"], http.MethodGet, a+"/locks", "")
	etcd.Heal()
	if failed.Load() == 0 {
		l.t.Error("nothing failed though etcd did not answer")
	}
	eventually(l.t, 2*bound, "a replica is ready again once its store is", func() bool {
		return callers["nobody"].do(http.MethodGet, a+"/readyz", "").status == http.StatusOK
	})
}
