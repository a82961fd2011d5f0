package main

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// session is everything that clients do, rightly and wrongly, at two replicas which log all they can.
type session struct {
	t    *testing.T
	a, b *running
	etcd *etcdtest.Proxy // between a and its store
	// secrets are the ids, leases and keys of it.
	secrets map[string]bool
	heard   []heard
}

// do makes one request, and learns the secrets of its answer.
func (s *session) do(r *running, method, path, body string, header ...string) map[string]any {
	s.t.Helper()
	got := hear(s.t, method, r.url+path, body, header...)
	s.heard = append(s.heard, got)
	var read map[string]any
	if strings.HasPrefix(got.body, "{") {
		if err := json.Unmarshal([]byte(got.body), &read); err != nil {
			s.t.Fatalf("%s: %v", got.body, err)
		}
	}
	for _, field := range []string{"id", "lease_id"} {
		if id, ok := read[field].(string); ok {
			s.secrets[id] = true
		}
	}
	return read
}

func (s *session) id(r *running, method, path, body string, header ...string) string {
	s.t.Helper()
	read := s.do(r, method, path, body, header...)
	id, ok := read["id"].(string)
	if !ok {
		s.t.Fatalf("%s with %s answers %v", method, body, read)
	}
	return id
}

// stream opens a stream, reads its first event, and leaves.
func (s *session) stream(r *running, path string) {
	s.t.Helper()
	line := dialTo(s.t, r.url)
	defer line.Close()
	if _, err := io.WriteString(line, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		s.t.Fatal(err)
	}
	for lines := bufio.NewScanner(line); lines.Scan(); {
		if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
			s.heard = append(s.heard, heard{status: http.StatusOK, body: data})
			return
		}
	}
	s.t.Fatal("a stream ends before its first event")
}

// right is what clients that mean well do, wrong what others do with the same ids.
func (s *session) right(shown string) (held, lease string) {
	key := "a-key-that-nobody-else-has-" + rand.Text()
	s.secrets[key] = true
	claim := `{"name":"x","ttl_seconds":60,` + shown + `}`
	held = s.id(s.a, http.MethodPost, "/locks", claim, "Idempotency-Key", key)
	s.do(s.b, http.MethodPost, "/locks", claim, "Idempotency-Key", key)
	s.do(s.b, http.MethodPost, "/locks", `{"name":"x","ttl_seconds":61}`, "Idempotency-Key", key)
	s.do(s.b, http.MethodPost, "/locks", `{"name":"x"}`)
	s.do(s.a, http.MethodPost, "/locks", `{"name":"x","wait_seconds":1}`)
	queued := s.id(s.a, http.MethodPost, "/locks", `{"name":"x","queue":true}`)
	s.do(s.b, http.MethodGet, "/locks/"+queued+"?wait_seconds=0", "")
	s.do(s.b, http.MethodPut, "/leases/"+queued, "")
	s.stream(s.a, "/locks/"+queued+"/events")
	lease = s.id(s.b, http.MethodPost, "/leases", `{"ttl_seconds":60,`+shown+`}`)
	onLease := s.id(s.a, http.MethodPost, "/locks", `{"name":"y","lease_id":"`+lease+`"}`)
	for _, id := range []string{held, lease} {
		s.do(s.a, http.MethodPut, "/leases/"+id, "")
		s.do(s.b, http.MethodGet, "/leases/"+id, "")
		s.stream(s.b, "/leases/"+id+"/keepalive")
	}
	s.do(s.a, http.MethodGet, "/locks", "")
	s.do(s.b, http.MethodDelete, "/locks/"+onLease, "")
	s.do(s.a, http.MethodDelete, "/locks/"+onLease, "")
	s.do(s.a, http.MethodGet, "/locks/"+onLease, "")
	s.do(s.a, http.MethodGet, "/locks/"+onLease+"?wait_seconds=0", "")
	s.do(s.b, http.MethodDelete, "/locks/"+queued, "")
	return held, lease
}

func (s *session) wrong(id string) {
	for _, r := range []*running{s.a, s.b} {
		for _, path := range []string{
			"/locks/" + id + "/nothing", "/leases/" + id + "/events", "/" + id, "//locks/" + id, "/locks/" + id + "/", "/locks/%" + hex.EncodeToString([]byte(id[:1])) + id[1:],
			"/locks?" + id, "/locks?" + id + "=1", "/locks?cursor=" + id, "/locks?state=" + id, "/locks/x?wait_seconds=" + id, "/locks/" + id + "?wait_seconds=x",
			"/locks/" + id + id, "/leases/" + id + "x/keepalive", "/locks/" + id[1:],
		} {
			s.do(r, http.MethodGet, path, "")
			s.do(r, http.MethodDelete, path, "")
		}
		for _, body := range []string{
			`{"name":"a","` + id + `":1}`, `{"name":"a","lease_id":"` + id + `x"}`, `{"name":"a","lease_id":["` + id + `"]}`, `{"id":"` + id + `"`,
			`{"name":"a","ttl_seconds":"` + id + `"}`, `{"name":"a","metadata":{"` + id + `":1}}`, id,
		} {
			s.do(r, http.MethodPost, "/locks", body)
			s.do(r, http.MethodPost, "/locks", body, "Content-Type", "text/plain")
			s.do(r, http.MethodPut, "/leases/"+id, body)
		}
		s.do(r, http.MethodPost, "/locks", `{"name":"a"}`, "Idempotency-Key", id+"\u00e9")
		s.do(r, "BREW", "/locks/"+id, "")
		s.do(r, http.MethodTrace, "/locks/"+id, "")
	}
}

// cutOff is what happens at a replica that its store does not answer.
func (s *session) cutOff(held, lease string) {
	s.etcd.Cut()
	key := "a-key-of-those-cut-off-" + rand.Text()
	s.secrets[key] = true
	s.do(s.a, http.MethodPost, "/locks", `{"name":"z"}`, "Idempotency-Key", key)
	s.do(s.a, http.MethodPut, "/leases/"+held, "")
	s.do(s.a, http.MethodGet, "/leases/"+lease+"/keepalive", "")
	s.do(s.a, http.MethodDelete, "/locks/"+held, "")
	s.do(s.a, http.MethodGet, "/locks/"+held+"/events", "")
	s.etcd.Heal()
	eventually(s.t, 2*bound, "a replica is ready again once its store is", func() bool {
		return hear(s.t, http.MethodGet, s.a.url+"/readyz", "").status == http.StatusOK
	})
	s.do(s.a, http.MethodDelete, "/locks/"+held, "")
	s.do(s.a, http.MethodDelete, "/leases/"+lease, "")
}

// TestWhatIsTold judges all that two replicas say in a session: to clients, in their logs and in their metrics.
func TestWhatIsTold(t *testing.T) {
	t.Parallel()
	shared := etcdtest.Shared(t).Endpoint()
	s := &session{t: t, etcd: etcdtest.NewProxy(t, shared), secrets: map[string]bool{}}
	all := []string{ownPrefix(t), "--request-timeout=500ms", "--log-level=debug"}
	s.a = serve(t, append(all, "--etcd-endpoints="+s.etcd.Addr(), "--log-format=json")...)
	s.b = serve(t, append(all, "--etcd-endpoints="+shared)...)

	visitors, address := listenForVisitors(t)
	shown := map[string]string{
		"url": "http://" + address + "/x", "file": "file:///etc/passwd", "jndi": "${jndi:ldap://" + address + "/a}", "template": "{{7*7}}<%= 7*7 %>",
		"entity": "<!DOCTYPE a [<!ENTITY b SYSTEM 'http://" + address + "'>]>&b;",
	}
	text, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	held, lease := s.right(`"holder":"http://` + address + `/holder","metadata":` + string(text))
	kept := s.heard[3] // what another client is told of the holder
	s.wrong(held)
	s.wrong(lease)
	s.cutOff(held, lease)
	told := s.a.log.String() + s.b.log.String()
	metrics := func() string {
		return hear(t, http.MethodGet, s.a.url+"/metrics", "").body + hear(t, http.MethodGet, s.b.url+"/metrics", "").body
	}

	t.Run("no id", func(t *testing.T) {
		if len(s.secrets) < 6 || !strings.Contains(told, `"level":"DEBUG"`) {
			t.Fatalf("this asks for nothing: %d secrets, and the log\n%s", len(s.secrets), told)
		}
		told := told + metrics()
		for _, got := range s.heard {
			if got.status >= 400 {
				told += got.body + fmt.Sprint(got.header)
			}
		}
		for secret := range s.secrets {
			for _, spelling := range spellings(secret) {
				if i := strings.Index(told, spelling); i >= 0 {
					t.Errorf("%s is told, as %s: …%s", secret, spelling, told[max(0, i-300):min(len(told), i+100)])
				}
			}
		}
	})
	t.Run("no time of day", func(t *testing.T) {
		clock := regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d| m=[+-]\d`)
		for _, got := range s.heard {
			if found := clock.FindString(got.body); found != "" {
				t.Errorf("%s is told: %s", found, got.body)
			}
		}
	})
	t.Run("what clients show is only shown", func(t *testing.T) {
		var problem struct {
			Holder struct{ Metadata map[string]string }
		}
		if err := json.Unmarshal([]byte(kept.body), &problem); err != nil || !maps.Equal(problem.Holder.Metadata, shown) {
			t.Errorf("got %s, want in it %v", kept.body, shown)
		}
		if n := visitors.Load(); n > 0 {
			t.Errorf("somebody came %d times to where metadata pointed", n)
		}
	})
	t.Run("strangers make no series", func(t *testing.T) {
		const strangers, more = 80, 20
		before := series(metrics())
		for i := range strangers {
			hear(t, http.MethodGet, fmt.Sprintf("%s/stranger-%d/%s", s.a.url, i, rand.Text()), "")
			hear(t, fmt.Sprintf("STRANGER%d", i), s.a.url+"/locks", "")
			hear(t, http.MethodPost, s.a.url+"/locks", fmt.Sprintf(`{"name":"stranger-%d","holder":"stranger"}`, i), "User-Agent", "stranger")
		}
		after := metrics()
		if n := len(series(after)); n > len(before)+more {
			t.Errorf("%d strangers made %d series of %d", strangers, n, len(before))
		}
		if strings.Contains(strings.ToLower(after), "stranger") {
			t.Error("a metric tells of a stranger")
		}
	})
}

// spellings are the ways in which something can be told without being written as it is.
func spellings(secret string) []string {
	ways := []string{secret, secret[1:], secret[:len(secret)-1], hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret))}
	if raw, err := base64.RawURLEncoding.DecodeString(secret); err == nil && len(raw) >= 16 {
		random := raw[:16] // of a lock's id as of a lease's
		ways = append(ways, hex.EncodeToString(random), base64.StdEncoding.EncodeToString(random), base64.RawURLEncoding.EncodeToString(random), string(random))
	}
	return ways
}

func series(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" || line[0] == '#' })
}

// listenForVisitors counts who comes to an address.
func listenForVisitors(t *testing.T) (*atomic.Int64, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var came atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			line, err := listener.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			line.Close()
		}
	}()
	t.Cleanup(func() { listener.Close(); <-ended })
	return &came, listener.Addr().String()
}
