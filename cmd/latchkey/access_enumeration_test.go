package main

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store/etcdtest"
)

// near are ids that somebody could guess from one of their own: all that differ in one bit, those of the revisions before and
// after, and other spellings of it.
func near(t *testing.T, id string) []string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	spell := func(raw []byte) { all = append(all, base64.RawURLEncoding.EncodeToString(raw)) }
	for at := range raw {
		for bit := range 8 {
			flipped := append([]byte(nil), raw...)
			flipped[at] ^= 1 << bit
			spell(flipped)
		}
	}
	const nonceBytes, revisionBytes = 16, 8
	if len(raw) > nonceBytes+revisionBytes { // a lock's
		for _, by := range []int64{-3, -2, -1, 1, 2, 3} {
			other := append([]byte(nil), raw...)
			revision := other[nonceBytes : nonceBytes+revisionBytes]
			binary.BigEndian.PutUint64(revision, uint64(int64(binary.BigEndian.Uint64(revision))+by))
			spell(other)
		}
		spell(raw[:nonceBytes])
		spell(append(append([]byte(nil), raw...), "/x"...))
	}
	spell(raw[:len(raw)-1])
	spell(raw[1:])
	spell(append(append([]byte(nil), raw...), 0))
	spell(make([]byte, len(raw)))
	return append(all, id+"=", id+"==", id+"A", strings.ToLower(id), strings.ToUpper(id), hex.EncodeToString(raw),
		base64.StdEncoding.EncodeToString(raw)+"/", fmt.Sprintf("%%%x%s", id[0], id[1:]), "1", "0", "-1")
}

// TestIDsNextToOnesOwnAreNone: neither their owner nor another finds anything by them, and nothing is written. OWASP API1.
func TestIDsNextToOnesOwnAreNone(t *testing.T) {
	t.Parallel()
	r := newRealm(t, "owner", lockEverything, "stranger", lockEverything, "admin", adminEverything)
	etcd := etcdtest.New(t)
	a, b := r.replicasOn(etcd.Endpoint(), "--rate-per-principal=0")
	owner := r.as("owner")
	o := owner.takeAll(a.url, "lock")
	before := written(t, etcd)
	tried := 0
	for kind, id := range o.ids() {
		for i, guess := range near(t, id) {
			if guess == id {
				continue
			}
			// each guess is made by one of them at one of the replicas, so that this does not take all day
			c, replica := r.as([]string{"owner", "stranger"}[i%2]), []string{a.url, b.url}[i/2%2]
			for _, try := range [][2]string{
				{http.MethodGet, "/locks/" + guess}, {http.MethodDelete, "/locks/" + guess}, {http.MethodPut, "/leases/" + guess}, {http.MethodDelete, "/leases/" + guess},
			} {
				if got := c.do(try[0], replica+try[1], ""); got.status != http.StatusNotFound {
					t.Errorf("%s with an id next to that of the %s answers %d %s", try[0], kind, got.status, got.body)
				}
				tried++
			}
		}
	}
	// an administrator breaks what it was shown the id of, and nothing near it
	for _, guess := range near(t, o.lock.ID) {
		if got := r.as("admin").do(http.MethodDelete, a.url+"/locks/"+guess+"?reason=why", ""); got.status != http.StatusNotFound {
			t.Errorf("an id next to that of a lock is broken: %d %s", got.status, got.body)
		}
	}
	if after := written(t, etcd); after != before {
		t.Errorf("%d guesses have written to etcd:\n%s\nwas\n%s", tried, after, before)
	}
	owner.wantHeld(b.url, o.lock)
	owner.wantHeld(a.url, o.onLease)
	owner.want(200, "", http.MethodPut, a.url+"/leases/"+o.lease, "")
	t.Logf("%d guesses", tried)
}

// written tells of every key when it was written last.
func written(t *testing.T, etcd *etcdtest.Server) string {
	t.Helper()
	all, err := etcd.Client(t).Get(t.Context(), "\x00", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintln("revision", all.Header.Revision)
	for _, kv := range all.Kvs {
		text += fmt.Sprintf("%q %d %d\n", kv.Key, kv.CreateRevision, kv.ModRevision)
	}
	return text
}

// TestIDsTellNothingOfOneAnother: of many ids no two share a part that is random, those of one key and name do not when it is used
// anew by another, and a lock's shares nothing with its lease's. OWASP API1.
func TestIDsTellNothingOfOneAnother(t *testing.T) {
	t.Parallel()
	r := newRealm(t, "one", lockEverything, "two", lockEverything)
	a, _ := r.replicas()
	seen := map[string]string{}
	note := func(what, id string, parts ...[2]int) {
		raw, err := base64.RawURLEncoding.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			random := string(raw[part[0]:part[1]])
			if other := seen[random]; other != "" {
				t.Errorf("%s has in common with %s %x", what, other, random)
			}
			seen[random] = what
		}
	}
	nonce, seal := [2]int{0, 16}, [2]int{24, 40}
	for _, who := range []string{"one", "two"} {
		c := r.as(who)
		lease := decoded[api.Lease](t, c.want(201, "", http.MethodPost, a.url+"/leases", `{}`).body).ID
		note(who+"'s lease", lease, nonce)
		for i := range 20 {
			lock := c.claim(a.url, api.LockRequest{Name: fmt.Sprint("x", i)}, "Idempotency-Key", "the same key of both")
			note(fmt.Sprint(who, "'s lock ", i), lock.ID, nonce, seal)
			c.want(204, "", http.MethodDelete, a.url+"/locks/"+lock.ID, "")
			lock = c.claim(a.url, api.LockRequest{Name: fmt.Sprint("x", i), LeaseID: lease})
			note(fmt.Sprint(who, "'s lock on a lease ", i), lock.ID, nonce, seal)
			c.want(204, "", http.MethodDelete, a.url+"/locks/"+lock.ID, "")
		}
	}
}
