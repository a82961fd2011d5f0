package server

import (
	"maps"
	"mime"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/latchkey/latchkey/api"
)

// FuzzClaimBody sends any body as a claim: what reaches the store is what encoding/json reads, and within every bound; all
// else is refused by name.
func FuzzClaimBody(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","ttl_seconds":30,"wait_seconds":55,"queue":true,"holder":"h","metadata":{"a":"b"}}`, `{"name":"a","lease_id":"x"}`,
		`{"name":"a","lease_id":"x","ttl_seconds":30}`, `{"name":"\u00e9\ud83d\ude00"}`, `{"name":"\ud800"}`, `{"name":"a","ttl_seconds":1}`, `{"name":"a","ttl_seconds":86401}`,
		`{"name":"a","wait_seconds":56}`, `{"name":"a","metadata":{}}`, `{"name":"a","metadata":{"a/b~":1}}`, `{"Name":"a"}`, `{"name":"a","name":"b"}`, `{"name":"a","n\u0061me":"b"}`,
		`{"name":"` + strings.Repeat("a", 256) + `"}`, `{"name":"` + strings.Repeat("\u00e9", 128) + `"}`, `{}`, `[]`, `null`, ` `, `{"name":"a"}x`, `{"name":"a","queue":null}`,
		`{"name":"a","colour":{"a":[[[[1]]]]}}`, `{"name":"a","metadata":{` + pairs(17, "v") + `}}`, `{"name":"a","ttl_seconds":1e2}`, "{\"name\":\"\xff\"}", `{"name":"\u0000"}`,
		`{"name":"a","0123456789abcdef-secret":1}`,
	} {
		f.Add(seed)
	}
	w := newWitness(f)
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := w.ask(t, "POST", "/locks", text)
		if !ok || text == "" || len(text) > 64<<10 {
			return
		}
		if w.called != "claim" {
			wantPointers(t, w.wantRefused(t, got, 400, "invalid_request"), text)
			return
		}
		c := w.claim
		want, err := strictly[api.LockRequest](text)
		if err != nil || got.status != 201 {
			t.Fatalf("%q is taken with a %d, and is no claim: %v", text, got.status, err)
		}
		if c.Name != want.Name || c.LeaseID != want.LeaseID || c.Wait != time.Duration(want.WaitSeconds)*time.Second || c.Queue != want.Queue ||
			c.Holder != want.Holder || !maps.Equal(c.Metadata, map[string]string(want.Metadata)) {
			t.Errorf("%q is taken for %+v", text, c)
		}
		ttl := time.Duration(want.TTLSeconds) * time.Second
		if ttl == 0 && want.LeaseID == "" {
			ttl = 30 * time.Second
		}
		if c.TTL != ttl || c.LeaseID == "" && (ttl < 2*time.Second || ttl > 24*time.Hour) {
			t.Errorf("%q is taken with a TTL of %v", text, c.TTL)
		}
		if c.Name == "" || len(c.Name) > 255 || !utf8.ValidString(c.Name) || strings.ContainsFunc(c.Name, unicode.IsControl) || c.Wait < 0 || c.Wait > w.longest {
			t.Errorf("%q is taken: name %q, wait %v", text, c.Name, c.Wait)
		}
		checkShownBounds(t, c.Holder, c.Metadata)
	})
}

func checkShownBounds(t *testing.T, holder string, metadata map[string]string) {
	t.Helper()
	size, all := 0, holder
	for k, v := range metadata {
		size, all = size+len(k)+len(v), all+k+v
	}
	if len(holder) > 255 || len(metadata) > 16 || size > 2048 || !utf8.ValidString(all) || strings.Contains(all, "\x00") {
		t.Errorf("taken: holder %q, metadata %q", holder, metadata)
	}
}

// wantPointers asks that a refused body's places are in it, as JSON pointers, and that nothing long of it is repeated.
func wantPointers(t *testing.T, p api.Problem, text string) {
	t.Helper()
	for i, place := range wantFaults(t, p) {
		pointer, ok := strings.CutPrefix(place, "body ")
		if !ok || pointer != "" && pointer[0] != '/' {
			t.Errorf("%q: %q is no place in a body", text, place)
		}
		for _, step := range strings.Split(pointer, "/") {
			if mayBeSecret(unescapePointer(step)) {
				t.Errorf("%q: what may be a secret is repeated: %+v", text, p.Errors[i])
			}
		}
	}
}

func FuzzLeaseBody(f *testing.F) {
	for _, seed := range []string{
		`{"ttl_seconds":30,"holder":"h","metadata":{"a":"b"}}`, `{}`, `{"ttl_seconds":1}`, `{"ttl_seconds":86400}`, `{"name":"a"}`, `{"ttl_seconds":null}`, `{"holder":"\u0000"}`,
		`{"metadata":{"a":{}}}`, `{"ttl_seconds":30,"ttl_seconds":31}`, `{"ttl_seconds":030}`, `[]`, `{"holder":"` + strings.Repeat("h", 256) + `"}`,
	} {
		f.Add(seed)
	}
	w := newWitness(f)
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := w.ask(t, "POST", "/leases", text)
		if !ok || text == "" || len(text) > 64<<10 {
			return
		}
		if w.called != "newLease" {
			wantPointers(t, w.wantRefused(t, got, 400, "invalid_request"), text)
			return
		}
		want, err := strictly[api.LeaseRequest](text)
		if err != nil || got.status != 201 {
			t.Fatalf("%q is taken with a %d, and asks for no lease: %v", text, got.status, err)
		}
		l, ttl := w.lease, time.Duration(want.TTLSeconds)*time.Second
		if ttl == 0 {
			ttl = 30 * time.Second
		}
		if l.TTL != ttl || ttl < 2*time.Second || ttl > 24*time.Hour || l.Holder != want.Holder || !maps.Equal(l.Metadata, map[string]string(want.Metadata)) {
			t.Errorf("%q is taken for %+v", text, l)
		}
		checkShownBounds(t, l.Holder, l.Metadata)
	})
}

// FuzzMediaType sends a claim as any media type, encoded in any way.
func FuzzMediaType(f *testing.F) {
	for _, seed := range [][2]string{
		{"application/json", ""}, {"APPLICATION/JSON ; charset=\"UTF-8\"", "identity"}, {"application/json;charset=latin1", ""}, {"application/json; charset=utf-8; charset=utf-8", ""},
		{"text/plain", ""}, {"application/json-patch+json", ""}, {"application/json,text/plain", ""}, {"", ""}, {"application/json;", "gzip"}, {"application/json", "identity, gzip"},
		{"application/json", " identity"}, {"application/json; charset*=utf-8''utf-8", ""}, {"application/json; charset*0=ut; charset*1=f-16", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	w := newWitness(f)
	f.Fuzz(func(t *testing.T, mediaType, encoding string) {
		header := []string{"Content-Type", mediaType}
		if encoding != "" {
			header = append(header, "Content-Encoding", encoding)
		}
		got, ok := w.ask(t, "POST", "/locks", `{"name":"a"}`, header...)
		if !ok {
			return
		}
		if w.called != "claim" {
			w.wantRefused(t, got, 415, "unsupported_media_type")
			return
		}
		kind, _, _ := strings.Cut(mediaType, ";")
		_, parameters, err := mime.ParseMediaType(mediaType)
		charset, given := parameters["charset"]
		if !strings.EqualFold(strings.TrimSpace(kind), "application/json") || err != nil || given && !strings.EqualFold(charset, "utf-8") {
			t.Errorf("%q is taken for JSON: %v", mediaType, err)
		}
		if encoding != "" && !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			t.Errorf("a body is taken that is encoded as %q", encoding)
		}
	})
}
