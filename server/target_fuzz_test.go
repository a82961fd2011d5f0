package server

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/latchkey/latchkey/store"
)

// fuzzedQueries are the operations that FuzzQuery asks, and their parameters.
var fuzzedQueries = []struct {
	target string
	known  []string
}{
	{"/locks", []string{"name", "prefix", "state", "limit", "cursor"}},
	{"/locks/x", []string{"wait_seconds"}},
	{"/locks/x/events", nil},
	{"/leases/x", nil},
}

// FuzzQuery sends any query: what the guard lets pass, the generated code reads as net/url does, each parameter once and in
// one spelling; all else is refused by name.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"", "name=a", "name=a%2Fb&state=held&limit=7", "prefix=a/&cursor=x", "name=a&prefix=a", "limit=007", "limit=+7", "limit=%37", "limit=1001", "limit=0", "name=%ff", "name=%zz",
		"name=a;b", "name=a&name=a", "state=Held", "cursor=", "name", "=a", "&&name=a&", "n%61me=a", "name=%00", "Name=a", "limit=1e2", "limit=9223372036854775808", "name=a+b",
	} {
		f.Add(uint8(0), seed)
	}
	for _, seed := range []string{"wait_seconds=0", "wait_seconds=55", "wait_seconds=56", "wait_seconds=-0", "wait_seconds=-1", "wait_seconds=", "wait_seconds=1&wait_seconds=1", "wait=1"} {
		f.Add(uint8(1), seed)
	}
	f.Add(uint8(2), "wait_seconds=1")
	f.Add(uint8(3), "0123456789abcdef-secret=1")
	w := newWitness(f)
	f.Fuzz(func(t *testing.T, which uint8, query string) {
		at := fuzzedQueries[int(which)%len(fuzzedQueries)]
		got, ok := w.ask(t, "GET", at.target+"?"+query, "")
		if !ok {
			return
		}
		values, err := url.ParseQuery(query)
		if w.called == "" {
			wantParameters(t, wantFaults(t, w.wantRefused(t, got, 400, "invalid_request")), query)
			return
		}
		if err != nil || got.status != 200 {
			t.Fatalf("%q is taken with a %d: %v", query, got.status, err)
		}
		for name, given := range values {
			if len(given) != 1 || !slices.Contains(at.known, name) {
				t.Errorf("%q is taken: %s is given as %q", query, name, given)
			}
		}
		switch w.called {
		case "list":
			wantFilter(t, w.filter, values)
		case "ask":
			seconds, err := strconv.Atoi(values.Get("wait_seconds"))
			if err != nil || strconv.Itoa(seconds) != values.Get("wait_seconds") || w.wait != time.Duration(seconds)*time.Second || w.wait < 0 || w.wait > w.longest {
				t.Errorf("%q waits %v", query, w.wait)
			}
		case "look":
			if values.Has("wait_seconds") {
				t.Errorf("%q only looks", query)
			}
		}
	})
}

func wantFilter(t *testing.T, got store.Filter, values url.Values) {
	t.Helper()
	limit := strconv.Itoa(got.Limit)
	if given := values.Get("limit"); values.Has("limit") && given != limit || !values.Has("limit") && got.Limit != 100 || got.Limit < 1 || got.Limit > 1000 {
		t.Errorf("%v: limit %d", values, got.Limit)
	}
	if got.Name != values.Get("name") || got.Prefix != values.Get("prefix") || got.Cursor != values.Get("cursor") || got.Name != "" && got.Prefix != "" {
		t.Errorf("%v: got %+v", values, got)
	}
	for _, text := range []string{got.Name, got.Prefix} {
		if len(text) > 255 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("%v: a name of %q", values, text)
		}
	}
	for _, empty := range []string{"name", "prefix", "cursor"} {
		if values.Has(empty) && values.Get(empty) == "" {
			t.Errorf("%v: %s is empty, and means all", values, empty)
		}
	}
	if state := values.Get("state"); (got.State != nil) != values.Has("state") || got.State != nil && state != string(stateNames[*got.State]) {
		t.Errorf("%v: state %v", values, got.State)
	}
}

// wantParameters asks that the places of a refusal are parameters which the query has, by their names unless those could
// be secret.
func wantParameters(t *testing.T, named []string, query string) {
	t.Helper()
	may := map[string]bool{"query": true}
	for _, pair := range strings.Split(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if unescaped, err := url.QueryUnescape(name); err == nil {
			name = unescaped
		}
		if !mayBeSecret(name) {
			may[shown(name)] = true
		}
	}
	for _, name := range named {
		if !may[name] {
			t.Errorf("%q is refused for %q", query, name)
		}
	}
}

// FuzzPathID asks for any id: it reaches the store byte for byte, or is not found. No path is redirected, and none is
// another's.
func FuzzPathID(f *testing.F) {
	for _, id := range []string{benchLikeID, "x", "%78", "a%2Fb", "..", "../x", "x/", "/x", "x/events", "x/events/", "x//events", "\xff", "é", "a;b", "a\"b", "", ".", "x%00", "*", "{id}", "x/keepalive", "/events", "/keepalive"} {
		f.Add(uint8(0), id)
		f.Add(uint8(1), id)
	}
	kinds := []struct{ path, stream, looked, followed, code string }{
		{"/locks/", "/events", "look", "follow", "lock_not_found"},
		{"/leases/", "/keepalive", "getLease", "keep", "lease_not_found"},
	}
	w := newWitness(f)
	f.Fuzz(func(t *testing.T, which uint8, id string) {
		kind := kinds[int(which)%len(kinds)]
		if strings.Contains(id, "?") {
			return
		}
		got, ok := w.ask(t, "GET", kind.path+id, "")
		if !ok {
			return
		}
		switch w.called {
		case "":
			w.wantRefused(t, got, 404, kind.code, "not_found")
			return
		case kind.looked:
		case kind.followed:
			if id, ok = strings.CutSuffix(id, kind.stream); !ok {
				t.Fatalf("%q opens a stream", id)
			}
		default:
			t.Fatalf("%q leads to %q", id, w.called)
		}
		if w.id != id || id == "" || strings.ContainsAny(id, "/%") || got.status != 200 {
			t.Errorf("%q is taken for %q, with a %d", id, w.id, got.status)
		}
	})
}

// benchLikeID is like those of the store.
const benchLikeID = "k7Qm2vXc9TtZ0aYdW3uN5hAAAAAAAAAqYmlsbGluZy9pbnZvaWNlcw"

func FuzzIdempotencyKeyHeader(f *testing.F) {
	for _, key := range []string{"0123456789abcdef", "0123456789abcde", strings.Repeat("k", 128), strings.Repeat("k", 129), "", "0123456789abcde,", "0123456789%20abcdef", "0123456789\tabcdef", "0123456789abcde\u00e9", `"0123456789abcdef"`} {
		f.Add(key)
	}
	w := newWitness(f)
	f.Fuzz(func(t *testing.T, key string) {
		got, ok := w.ask(t, "POST", "/locks", `{"name":"a"}`, idempotencyKey, key)
		if !ok {
			return
		}
		fits := len(key) >= 16 && len(key) <= 128 && !strings.ContainsFunc(key, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) })
		if !fits {
			p := w.wantRefused(t, got, 400, "invalid_request")
			if named := wantFaults(t, p); len(named) != 1 || named[0] != idempotencyKey || len(key) >= minKey && strings.Contains(got.body, key) {
				t.Errorf("%q is refused for %q: %s", key, named, got.body)
			}
			return
		}
		if w.called != "claim" || w.claim.Key != key || got.status != 201 {
			t.Errorf("%q is taken for %q, with a %d", key, w.claim.Key, got.status)
		}
	})
}

// FuzzStreamHeaders opens a stream with whatever an event source may send: neither header is looked at.
func FuzzStreamHeaders(f *testing.F) {
	for _, seed := range [][2]string{{"text/event-stream", "4711"}, {"*/*", ""}, {"text/html;q=0", "x"}, {"", "-1"}, {"application/json", "9223372036854775808"}, {"a", "1,2"}, {"a", "%zz"}, {"a", "\xff"}} {
		f.Add(seed[0], seed[1])
	}
	w := newWitness(f)
	f.Fuzz(func(t *testing.T, accept, last string) {
		got, ok := w.ask(t, "GET", "/locks/x/events", "", "Accept", accept, "Last-Event-Id", last)
		if !ok {
			return
		}
		if !utf8.ValidString(last) {
			if named := wantFaults(t, w.wantRefused(t, got, 400, "invalid_request")); len(named) != 1 || named[0] != "Last-Event-ID" {
				t.Errorf("%q is refused for %q", last, named)
			}
			return
		}
		if w.called != "follow" || got.status != 200 || got.header.Get("Content-Type") != "text/event-stream" || !strings.Contains(got.body, "event: held\nid: ") && !strings.Contains(got.body, "event: held\ndata: ") {
			t.Errorf("Accept %q, Last-Event-ID %q: got %d, %q", accept, last, got.status, got.body)
		}
	})
}
