package main

import (
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/latchkey/latchkey/api"
)

// alike are names that other systems took one for another: by prefix, by decoding once more, by Unicode's normal forms.
var alike = []string{
	"a/b/c", "a/b", "a/", "a", "ab", "a.b", "a-b", "a:b", "A", "a ", " a", "a//b", "/a", "/", ".", "..", "../a", "a/../b", "a\\b",
	"15%off", "15%25off", "15%2525off", "x%20", "x ", "x+", "x%2B", "%", "%%", "%2F", "%2f", "a%00", "%u0061", "a\u2028b",
	"h\u00e9", "he\u0301", "\u00c5", "\u212b", "A\u030a", "a\u200d", "\uff41", "\u0430", "\ufb01", "fi", "\U0001f600",
	"null", "true", "0", "00", "locks", "leases", "epoch", "secret", `"`, "'", "<a>", "a;b", "a&b=c", "a?b", "a#b", "a,b", "a*", "a|b", "{a}", "[a]",
	" ", "  ", "\u00a0", "\u3000",
}

// Each name is a lock of its own, held while all others are, whatever was held first; it is shown, found and released
// as it was written, and by no other spelling.
func TestEveryNameIsALockOfItsOwn(t *testing.T) {
	t.Parallel()
	a, b := twoReplicas(t)
	c := newClient(t)
	backwards := slices.Clone(alike)
	slices.Reverse(backwards)
	for _, names := range [][]string{alike, backwards} {
		held := map[string]api.Lock{}
		tokens := map[int64]bool{}
		for i, name := range names {
			got := c.claim([]*running{a, b}[i%2].url, "", api.LockRequest{Name: name})
			if !got.held() || got.lock.Name != name || tokens[got.lock.FencingToken] {
				t.Fatalf("%q is not held by its own: %v", name, got)
			}
			held[name], tokens[got.lock.FencingToken] = got.lock, true
		}
		for i, name := range names {
			at, other := []*running{a, b}[i%2], []*running{b, a}[i%2]
			locks, err := c.list(other.url, name)
			if err != nil || len(locks) != 1 || locks[0].ID != held[name].ID || locks[0].Name != name {
				t.Errorf("listed as %q: got %+v, %v", name, locks, err)
			}
			if got := c.claim(other.url, "", api.LockRequest{Name: name}); got.status != http.StatusConflict {
				t.Errorf("%q is held, but a try answers %v", name, got)
			}
			if got := c.release(at.url, held[name].ID); got.status != http.StatusNoContent {
				t.Errorf("release of %q: %v", name, got)
			}
			if locks, err := c.list(at.url, name); err != nil || len(locks) != 0 {
				t.Errorf("%q is released, but listed: %+v, %v", name, locks, err)
			}
		}
	}
	// one decoding more, and it is another name
	for query, name := range map[string]string{"x%2520": "x%20", "x%20": "x ", "15%2525off": "15%25off", "x%2B": "x+", "x+": "x "} {
		got := c.claim(a.url, "", api.LockRequest{Name: name})
		if !got.held() {
			t.Fatalf("%q: %v", name, got)
		}
		if plain, _ := url.QueryUnescape(query); plain != name {
			t.Fatalf("%s is not %q", query, name)
		}
		_, body := ask(t, http.MethodGet, b.url+"/locks?name="+query, "")
		if locks, _ := body["locks"].([]any); len(locks) != 1 || locks[0].(map[string]any)["name"] != name {
			t.Errorf("?name=%s finds %v, want %q alone", query, body, name)
		}
		if got := c.release(b.url, got.lock.ID); got.status != http.StatusNoContent {
			t.Errorf("release of %q: %v", name, got)
		}
	}
}
