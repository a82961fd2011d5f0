package store

import (
	"bytes"
	"encoding/base64"
	"errors"
	"maps"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// What clients give. The server refuses the same in its own words; here it is that nothing gets by.

// FuzzSealedID changes an id by one byte, anywhere: no store opens what it has not told itself.
func FuzzSealedID(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), int64(7), "name", 0, byte(1))
	f.Add([]byte("0123456789abcdef"), int64(math.MaxInt64), "a/b", 23, byte(0x80))
	f.Add([]byte("0123456789abcdef"), int64(1), strings.Repeat("é", 127), 200, byte(0x20))
	f.Fuzz(func(t *testing.T, random []byte, revision int64, name string, at int, flip byte) {
		if len(random) < 16 || revision < 1 || checkName(name) != nil || flip == 0 || at < 0 {
			return
		}
		mine, other := &sealer{}, &sealer{}
		mine.use([]byte("a secret"))
		other.use([]byte("another"))
		id := mine.seal(lockID{nonce: nonce(random[:16]), revision: revision, name: name}, "")
		text := id.String()
		if got, ok := mine.open(text, ""); !ok || got != id {
			t.Fatalf("%+v does not open: %+v, %v", id, got, ok)
		}
		if _, ok := other.open(text, ""); ok {
			t.Fatal("it opens in another store")
		}
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		raw[at%len(raw)] ^= flip
		if got, ok := mine.open(base64.RawURLEncoding.EncodeToString(raw), ""); ok {
			t.Errorf("changed at byte %d it opens as %+v", at%len(raw), got)
		}
	})
}

// FuzzName says again, in other words, what a name is.
func FuzzName(f *testing.F) {
	for _, name := range []string{"a", "", " ", "a\x00b", "\x7f", "\u0085", "\u009f", "\u00a0", "\xff", "\xed\xa0\x80", strings.Repeat("a", 255), strings.Repeat("a", 256), "\u2028", "\ufffd"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		control := strings.ContainsFunc(name, unicode.IsControl)
		want := len(name) >= 1 && len(name) <= 255 && bytes.Equal([]byte(name), bytes.ToValidUTF8([]byte(name), []byte("?!"))) && !control
		err := checkName(name)
		if (err == nil) != want {
			t.Fatalf("%q: got %v, want it taken: %v", name, err, want)
		}
		if err != nil {
			wantField(t, err, "Name")
			return
		}
		if got, ok := parseCursor(cursor{name, 1}.String()); !ok || got.name != name {
			t.Errorf("a cursor after %q is read as one after %q, %v", name, got.name, ok)
		}
	})
}

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var bad *InputError
	if !errors.As(err, &bad) || bad.Field != field || bad.Reason == "" {
		t.Fatalf("got %v, want it to name %s", err, field)
	}
}

func FuzzIdempotencyKey(f *testing.F) {
	for _, key := range []string{"0123456789abcdef", "0123456789abcde", strings.Repeat("k", 128), strings.Repeat("k", 129), "0123456789abcdef\n", "0123456789abcdé", "                "} {
		f.Add(key, key+"x")
	}
	f.Fuzz(func(t *testing.T, key, other string) {
		err := checkKey(key)
		if want := len(key) >= 16 && len(key) <= 128; (err == nil) != (want && onlyPrintable(key)) {
			t.Fatalf("%q: got %v", key, err)
		}
		if err != nil {
			wantField(t, err, "Key")
			return
		}
		if key != other && derive([]byte("s"), 'k', "", "name", key) == derive([]byte("s"), 'k', "", "name", other) {
			t.Errorf("%q and %q are one claim", key, other)
		}
	})
}

func onlyPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) })
}

func FuzzShown(f *testing.F) {
	f.Add("holder", "key", "value", 1)
	f.Add(strings.Repeat("h", 255), strings.Repeat("k", 1024), strings.Repeat("v", 1024), 1)
	f.Add(strings.Repeat("h", 256), "", "", 16)
	f.Add("\xff", "k", "v", 17)
	f.Fuzz(func(t *testing.T, holder, key, value string, pairs int) {
		metadata, size := map[string]string{}, 0
		for i := range min(max(pairs, 0), 20) {
			metadata[key+string(rune('a'+i))] = value
			size += len(key) + 1 + len(value)
		}
		err := checkShown(holder, metadata)
		switch {
		case len(holder) > 255 || !utf8.ValidString(holder):
			wantField(t, err, "Holder")
		case len(metadata) > 16 || size > 2048 || len(metadata) > 0 && !utf8.ValidString(key+"|"+value):
			wantField(t, err, "Metadata")
		case err != nil:
			t.Errorf("refused: %v", err)
		}
	})
}

// FuzzFilter makes the pager of a list: it reads nothing but what the filter asks for, and a cursor only ever narrows that.
func FuzzFilter(f *testing.F) {
	f.Add("", "", "", 10, "a")
	f.Add("a", "", cursor{"a", 1}.String(), 1, "ab")
	f.Add("", "a/", cursor{"a/b", 7}.String(), 1000, "a/b")
	f.Add("", "a", cursor{"b", 7}.String(), 1001, "b")
	f.Add("", "\xff", "", 0, "\u00ff")
	f.Add("", "\u00e9", "x", -1, "e\u0301")
	s := &Store{keys: keys{prefix: "/latchkey/"}}
	f.Fuzz(func(t *testing.T, name, prefix, from string, limit int, other string) {
		p, err := s.newPager(Filter{Name: name, Prefix: prefix, Cursor: from, Limit: limit})
		var bad *InputError
		switch {
		case errors.Is(err, ErrBadCursor):
			if from == "" {
				t.Error("no cursor is a bad one")
			}
			return
		case errors.As(err, &bad):
			refused := map[string]bool{"Limit": limit < 1 || limit > MaxLimit, "Name": checkName(name) != nil, "Prefix": prefix != ""}
			if !refused[bad.Field] {
				t.Errorf("refused for nothing: %v", bad)
			}
			return
		case err != nil:
			t.Fatalf("got %v", err)
		}
		if limit < 1 || limit > MaxLimit || name != "" && checkName(name) != nil {
			t.Fatalf("taken: %+v", p.f)
		}
		if checkName(other) != nil {
			return
		}
		key := s.keys.claim(other, newNonce())
		asked := strings.HasPrefix(other, prefix)
		if name != "" {
			asked = name == other
		}
		read := key >= p.from && key < p.to
		if read && !asked || asked && !read && from == "" {
			t.Errorf("name %q, prefix %q, cursor %q: claims on %q are read: %v", name, prefix, from, other, read)
		}
		if after, ok := parseCursor(from); ok && asked && read != (other >= after.name) {
			t.Errorf("after a claim on %q those on %q are read: %v", after.name, other, read)
		}
	})
}

// FuzzDigest says that two requests with one key are the same only if all is that a repeat must ask for too.
func FuzzDigest(f *testing.F) {
	f.Add(int64(30e9), "lease", "holder", "k", "v", int64(30e9), "lease", "holder", "kv", "")
	f.Add(int64(30e9), "", "h", "", "", int64(30e9), "h", "", "", "")
	f.Fuzz(func(t *testing.T, ttl int64, lease, holder, key, value string, ttl2 int64, lease2, holder2, key2, value2 string) {
		a := Claim{TTL: time.Duration(ttl), LeaseID: lease, Holder: holder, Metadata: map[string]string{key: value}}
		b := Claim{TTL: time.Duration(ttl2), LeaseID: lease2, Holder: holder2, Metadata: map[string]string{key2: value2}}
		same := a.TTL == b.TTL && lease == lease2 && holder == holder2 && maps.Equal(a.Metadata, b.Metadata)
		if (a.digest() == b.digest()) != same {
			t.Errorf("%+v and %+v: the same digest, or not the same: want %v", a, b, same)
		}
	})
}
