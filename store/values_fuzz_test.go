package store

import (
	"reflect"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// What is kept in etcd: whatever stands there, it is read as what it says or refused, and never half of each.

func FuzzClaimValue(f *testing.F) {
	for _, c := range []claim{
		{}, {TTLSeconds: 30, Holder: "h", Metadata: map[string]string{"a": "b"}},
		{TTLSeconds: 86_400, Held: true, Lease: 1 << 62, Base: 1 << 52, ClientLease: "AAAAAAAAAAAAAAAAAAAAAA", Digest: "AAAAAAAAAAAAAAAAAAAAAA"},
	} {
		f.Add(c.encode())
	}
	addForeignValues(f)
	f.Fuzz(func(t *testing.T, text string) { checkValue[claim](t, text) })
}

func FuzzLeaseRecord(f *testing.F) {
	f.Add(encodeValue(leaseRecord{TTLSeconds: 30, Holder: "h", Metadata: map[string]string{"a": "b"}, Lease: 1 << 62}))
	addForeignValues(f)
	f.Fuzz(func(t *testing.T, text string) { checkValue[leaseRecord](t, text) })
}

func addForeignValues(f *testing.F) {
	for _, text := range []string{
		"", "1", "2{}", "1{}", "1{}x", "1null", "1[]", `1{"ttl":1.5}`, `1{"ttl":1e400}`, `1{"ttl":"30"}`, `1{"ttl":30,"ttl":31}`, `{"ttl":30}`,
		"\x00", "\xef\xbb\xbf1{}", `1{"holder":"` + "\xff" + `"}`, `1{"unheard_of":[{}]}`, `1{"lease":9223372036854775808}`,
	} {
		f.Add(text)
	}
}

// checkValue reads a value. What was read is written as something that reads the same, and is written the same again.
func checkValue[T any](t *testing.T, text string) {
	var v, again T
	err := decodeValue([]byte(text), &v)
	if !strings.HasPrefix(text, string(valueVersion)) && err == nil {
		t.Fatalf("%q is of another version, and is read", text)
	}
	if err != nil {
		wantErr(t, "a value that cannot be read", err, ErrUnavailable)
		return
	}
	written := encodeValue(v)
	if err := decodeValue([]byte(written), &again); err != nil {
		t.Fatalf("%q is written as %q, which cannot be read: %v", text, written, err)
	}
	if twice := encodeValue(again); twice != written {
		t.Errorf("%q is written as %q and then as %q", text, written, twice)
	}
}

// FuzzClaimIsReadAsItWasWritten is the way of a claim from a request into etcd and back.
func FuzzClaimIsReadAsItWasWritten(f *testing.F) {
	f.Add(int64(30), "holder", "key", "value", true, int64(1)<<62, int64(1)<<52, "lease", "digest")
	f.Add(int64(0), "", "", "", false, int64(0), int64(0), "", "")
	f.Add(int64(-1), "<&>\u2028", "\"\\", "\x00", true, int64(-1), int64(-1), "\u00e9", "e\u0301")
	f.Fuzz(func(t *testing.T, ttl int64, holder, key, value string, held bool, lease, base int64, clientLease, digest string) {
		c := claim{
			TTLSeconds: ttl, Holder: holder, Metadata: map[string]string{key: value}, Held: held, Lease: clientv3.LeaseID(lease), Base: base,
			ClientLease: clientLease, Digest: digest,
		}
		if checkShown(holder, c.Metadata) != nil || checkShown(clientLease, nil) != nil || checkShown(digest, nil) != nil {
			return // what is not valid is not written
		}
		var got claim
		if err := decodeValue([]byte(c.encode()), &got); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("got %+v, %v, want %+v", got, err, c)
		}
	})
}

// FuzzEpochValue reads an epoch: what is compared later is its text as it stands, and every token of the next is above
// every token of this one.
func FuzzEpochValue(f *testing.F) {
	first, err := Epoch{Revision: 1}.next(built(), 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(first.value, int64(7))
	f.Add(`1{"base":9007199254740991,"mark":"m"}`, int64(1))
	f.Add(`1{"base":-9223372036854775808}`, int64(9223372036854775807))
	f.Add(`1{"base":9223372036854775807}`, int64(9223372036854775807))
	addForeignEpochs(f)
	f.Fuzz(func(t *testing.T, text string, revision int64) {
		if revision < 1 {
			return // etcd's begin at 1
		}
		e, err := parseEpoch([]*mvccpb.KeyValue{{Value: []byte(text), ModRevision: 3}}, revision)
		if err != nil {
			wantErr(t, "an epoch that cannot be read", err, ErrUnavailable)
			return
		}
		if e.value != text || e.Revision != revision || e.modified != 3 {
			t.Fatalf("%q is read as %+v", text, e)
		}
		n, err := e.next(built(), 0)
		if err != nil {
			return
		}
		if e.Base >= 0 && n.Base < e.Base+revision || n.Base+revision < 0 || n.Base+revision >= maxToken {
			t.Errorf("after %q at %d comes %+v", text, revision, n)
		}
		if again, err := parseEpoch([]*mvccpb.KeyValue{{Value: []byte(n.value)}}, revision); err != nil || again.Base != n.Base || again.Mark != n.Mark {
			t.Errorf("%q is read as %+v, %v", n.value, again, err)
		}
	})
}

func addForeignEpochs(f *testing.F) {
	for _, text := range []string{"", "1", "1{}", "2{}", "1null", `1{"base":1.5}`, `1{"base":"1"}`} {
		f.Add(text, int64(1))
	}
}

// FuzzKeyOfAClaim reads whatever stands among the claims.
func FuzzKeyOfAClaim(f *testing.F) {
	k := keys{prefix: "/latchkey/"}
	for _, key := range []string{k.claim("a", nonce{}), k.locks(), k.queue("a"), k.leaseOf("a"), k.claim("", nonce{}), k.claim("a", nonce{}) + "=", ""} {
		f.Add(key)
	}
	f.Add(k.queue("a") + k.claim("b", nonce{}))
	f.Fuzz(func(t *testing.T, key string) {
		name, n, err := k.split(key)
		if err != nil {
			wantErr(t, "a key that is no claim's", err, ErrUnavailable)
			return
		}
		if k.claim(name, n) != key {
			t.Errorf("%q is read as one of %q, which is %q", key, name, k.claim(name, n))
		}
	})
}
