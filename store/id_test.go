package store

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func FuzzLockID(f *testing.F) {
	n := newNonce()
	f.Add(n[:], int64(1), "a")
	f.Add(n[:], int64(1)<<62, strings.Repeat("é", 127))
	f.Add(make([]byte, 16), int64(256), "a/b")
	f.Fuzz(func(t *testing.T, raw []byte, revision int64, name string) {
		if len(raw) < 16 {
			return
		}
		id := lockID{nonce: nonce(raw[:16]), revision: revision, name: name}
		got, ok := parseLockID(id.String())
		if valid := revision > 0 && checkName(name) == nil; ok != valid {
			t.Fatalf("parse of %+v: got %v, want %v", id, ok, valid)
		}
		if ok && got != id {
			t.Fatalf("got %+v, want %+v", got, id)
		}
	})
}

func FuzzParsedIDHasOneSpelling(f *testing.F) {
	sealed := sealerOf("secret")
	id := lockID{nonce: newNonce(), revision: 7, name: "name"}.String()
	for _, s := range []string{sealed.leaseID(sealedLease+newNonce().text(), ""), id, id + "=", id + "\n", id[:len(id)-1], strings.ToUpper(id), newNonce().text(), "", "%41"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, ok := parseLockID(s); ok && id.String() != s {
			t.Fatalf("%q is taken for %q", s, id)
		}
		if n, ok := parseNonce(s); ok && n.text() != s {
			t.Fatalf("%q is taken for the nonce %q", s, n.text())
		}
		if called, ok := sealed.openLease(s, ""); ok && sealed.leaseID(called, "") != s {
			t.Fatalf("%q is taken for the lease %q", s, called)
		}
		if c, ok := parseCursor(s); ok && c.String() != s {
			t.Fatalf("%q is taken for the cursor %q", s, c)
		}
		if strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			if _, ok := parseLockID(s); ok {
				t.Fatalf("%q needs escaping in a URL", s)
			}
		}
	})
}

func TestNoIDIsBothALocksAndALeases(t *testing.T) {
	s := sealerOf("secret")
	for _, name := range []string{"a", "ab", "abc", "abcd"} {
		lock := s.seal(lockID{nonce: newNonce(), revision: 1, name: name}, "").String()
		if _, ok := s.openLease(lock, ""); ok {
			t.Errorf("the lock id %q is taken for a lease's", lock)
		}
	}
	for _, key := range []string{newNonce().text(), sealedLease + newNonce().text()} {
		if _, ok := parseLockID(s.leaseID(key, "")); ok {
			t.Error("a lease id is taken for a lock's")
		}
	}
}

func sealerOf(secret string) *sealer {
	s, raw := &sealer{}, []byte(secret)
	s.use(raw)
	return s
}

// Etcd writes keys to its log: what a lease's is called is no id, nor can anybody else make one of it.
func TestIDOfALeaseIsMadeByTheStoreAlone(t *testing.T) {
	s := sealerOf("secret")
	text := newNonce().text()
	id := s.leaseID(sealedLease+text, "one")
	if called, ok := s.openLease(id, "one"); !ok || called != sealedLease+text {
		t.Fatalf("%q: got %q, %v", id, called, ok)
	}
	if strings.Contains(id[nonceText:], text) || strings.Contains(sealedLease+text, id[nonceText:]) {
		t.Errorf("the seal of %q tells of its key", id)
	}
	for what, forged := range map[string]string{
		"what its key is called":  sealedLease + text,
		"another store's":         sealerOf("other").leaseID(sealedLease+text, "one"),
		"another principal's":     s.leaseID(sealedLease+text, "two"),
		"nobody's":                s.leaseID(sealedLease+text, ""),
		"the seal of another":     text + s.leaseID(sealedLease+newNonce().text(), "one")[nonceText:],
		"with a bit of it turned": id[:len(id)-2] + string(id[len(id)-2]^1) + id[len(id)-1:],
		"cut":                     id[:len(id)-1],
		"longer":                  id + "A",
		"without a nonce":         id[nonceText:] + id[nonceText:],
		"with a break":            id[:10] + "\n" + id[11:],
		"empty":                   "",
	} {
		if called, ok := s.openLease(forged, "one"); ok {
			t.Errorf("%s, %q, is taken for %q", what, forged, called)
		}
	}
	if called, ok := s.openLease(text, "one"); !ok || called != text || called == sealedLease+text {
		t.Errorf("an id of a build before: got %q, %v", called, ok)
	}
}

func FuzzClaimKeys(f *testing.F) {
	f.Add("a", "a/b")
	f.Add("a", "a\x01")
	f.Add("", "a\x00b")
	f.Fuzz(func(t *testing.T, a, b string) {
		k := keys{prefix: "/latchkey/"}
		if checkName(a) != nil || checkName(b) != nil {
			return
		}
		n := newNonce()
		key := k.claim(a, n)
		if name, got, err := k.split(key); err != nil || name != a || got != n {
			t.Fatalf("split %q: got %q, %v", key, name, err)
		}
		if inB := key >= k.queue(b) && key < k.queueEnd(b); inB != (a == b) {
			t.Fatalf("a claim on %q lies in the queue of %q: %v", a, b, inB)
		}
		if (a < b) != (k.queue(a) < k.queue(b)) {
			t.Fatalf("%q and %q are not in the order of their names", a, b)
		}
	})
}

func TestDerivedNoncesDiffer(t *testing.T) {
	secret := []byte("secret")
	seen := map[nonce][]string{}
	for _, parts := range [][]string{{"", "n", "k"}, {"n", "", "k"}, {"", "nk", ""}, {"", "", "nk"}, {"", "n", "k", ""}} {
		n := derive(secret, 'k', parts...)
		if other, ok := seen[n]; ok {
			t.Errorf("%q and %q share a nonce", parts, other)
		}
		seen[n] = parts
	}
	if derive(secret, 'k', "a") == derive(secret, 'l', "a") || derive(secret, 'k', "a") == derive([]byte("other"), 'k', "a") {
		t.Error("kind and secret do not matter")
	}
}

func TestDigestSeesWhatARepeatMustAskForToo(t *testing.T) {
	base := Claim{Name: "x", TTL: 30e9, Holder: "h", Metadata: map[string]string{"a": "bc", "d": "e"}}
	same := base
	same.Wait, same.Queue, same.Metadata = 5e9, true, map[string]string{"d": "e", "a": "bc"}
	if base.digest() != same.digest() {
		t.Error("wait, queue or the order of pairs matter")
	}
	for what, change := range map[string]func(*Claim){
		"ttl":      func(c *Claim) { c.TTL = 31e9 },
		"lease":    func(c *Claim) { c.TTL, c.LeaseID = 0, "l" },
		"holder":   func(c *Claim) { c.Holder = "" },
		"metadata": func(c *Claim) { c.Metadata = map[string]string{"ab": "c", "d": "e"} },
	} {
		other := base
		change(&other)
		if other.digest() == base.digest() {
			t.Errorf("another %s does not matter", what)
		}
	}
}

func TestEtcdLeaseIDsTellTheirKindAndTermAndNothingElse(t *testing.T) {
	var ors, ands int64 = 0, -1
	for i := range uint64(200) {
		term := i * 0x1234567
		hold, waiting := newLeaseID(holdLease, term), newLeaseID(waitingLease, term)
		if isWaitingLease(hold) || !isWaitingLease(waiting) || hold <= 0 || waiting <= 0 {
			t.Fatalf("got %x and %x", hold, waiting)
		}
		for _, id := range []clientv3.LeaseID{hold, waiting} {
			if !begunIn(id, term) || begunIn(id, term+1) || begunIn(id, term-1) {
				t.Fatalf("%x does not tell that it is of term %x", id, term)
			}
		}
		ors, ands = ors|int64(hold), ands&int64(hold)
	}
	if ors != 1<<63-2 || ands != 0 {
		t.Errorf("of 200 ids some bits never change: or %x, and %x", ors, ands)
	}
}

func TestForeignSpellingsOfBase64AreRefused(t *testing.T) {
	raw := bytes.Repeat([]byte{0xfb}, 16)
	std := base64.RawStdEncoding.EncodeToString(raw)
	url := base64.RawURLEncoding.EncodeToString(raw)
	if _, ok := parseNonce(url); !ok {
		t.Fatalf("%q is refused", url)
	}
	for _, s := range []string{std, url + "==", url[:10] + "\r\n" + url[10:], url[:len(url)-1] + "x"} {
		if _, ok := parseNonce(s); ok {
			t.Errorf("%q is taken", s)
		}
	}
}
