package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// What builds before this one have left in etcd, and have told their clients, spelled out here without a word of this
// build's: whoever holds, waits or has a key across an upgrade goes on with it, and replicas of both serve together.

const (
	earlierSecret = "0123456789abcdef0123456789ABCDEF"
	earlierBase   = int64(1834402758656000)
	earlierMark   = "bWFya21hcmttYXJrbWFyaw"
	earlierKey    = "an-idempotency-key"
	punctuation   = `a/b:c.d-e_f~g!h"i#j$k%l&m'n(o)p*q+r,s;t<u=v>w?x@y[z\]^{|}` + "` é"
)

// earlierNonce is the HMAC by which keys and seals are made, 16 bytes of it.
func earlierNonce(kind byte, parts ...string) []byte {
	mac := hmac.New(sha256.New, []byte(earlierSecret))
	mac.Write([]byte{kind})
	for _, p := range parts {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		mac.Write([]byte(p))
	}
	return mac.Sum(nil)[:16]
}

func text64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// earlierID is the id that a client was told of a claim.
func earlierID(nonce []byte, revision int64, name string) string {
	raw := append([]byte(nil), nonce...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(revision))
	raw = append(raw, earlierNonce('i', string(nonce), strconv.FormatInt(revision, 10), name)...)
	return text64(append(raw, name...))
}

// earlierStore writes as a build of before did.
type earlierStore struct {
	t      *testing.T
	etcd   *clientv3.Client
	prefix string
}

func (e earlierStore) put(key, value string, opts ...clientv3.OpOption) (revision int64) {
	e.t.Helper()
	resp, err := e.etcd.Put(ctxFor(e.t), e.prefix+key, value, opts...)
	if err != nil {
		e.t.Fatal(err)
	}
	return resp.Header.Revision
}

func (e earlierStore) grant(ttl int64) clientv3.LeaseID {
	e.t.Helper()
	granted, err := e.etcd.Grant(ctxFor(e.t), ttl)
	if err != nil {
		e.t.Fatal(err)
	}
	return granted.ID
}

func TestStoreOfAnEarlierBuildIsServed(t *testing.T) {
	e := earlierStore{t, shared(t), prefixFor(t)}
	ctx := ctxFor(t)
	e.put("epoch", fmt.Sprintf(`1{"base":%d,"mark":%q}`, earlierBase, earlierMark))
	e.put("secret", "1"+earlierSecret)

	random := []byte("sixteen-bytes-00")
	own := e.grant(60)
	heldAt := e.put("locks/"+punctuation+"\x00"+text64(random),
		fmt.Sprintf(`1{"ttl":60,"holder":"h","metadata":{"k":"v"},"held":true,"lease":%d,"base":%d}`, own, earlierBase), clientv3.WithLease(own))
	held := earlierID(random, heldAt, punctuation)

	waiting := e.grant(30)
	second := []byte("sixteen-bytes-01")
	queuedAt := e.put("locks/"+punctuation+"\x00"+text64(second), `1{"ttl":30,"holder":"w"}`, clientv3.WithLease(waiting))
	queued := earlierID(second, queuedAt, punctuation)

	clients := []byte("sixteen-bytes-02")
	onLease := e.grant(60)
	e.put("leases/"+text64(clients), fmt.Sprintf(`1{"ttl":60,"holder":"l","lease":%d}`, onLease), clientv3.WithLease(onLease))
	derived := earlierNonce('l', "", "on lease", text64(clients))
	leasedAt := e.put("locks/on lease\x00"+text64(derived),
		fmt.Sprintf(`1{"ttl":60,"held":true,"lease":%d,"base":%d,"client_lease":%q}`, onLease, earlierBase, text64(clients)), clientv3.WithLease(onLease))

	keyedLease := e.grant(60)
	keyed := earlierNonce('k', "", "keyed", earlierKey)
	digest := sha256.New()
	for _, part := range []string{"1m0s", "", "h"} {
		digest.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		digest.Write([]byte(part))
	}
	keyedAt := e.put("locks/keyed\x00"+text64(keyed),
		fmt.Sprintf(`1{"ttl":60,"holder":"h","held":true,"lease":%d,"base":%d,"digest":%q}`, keyedLease, earlierBase, text64(digest.Sum(nil)[:16])), clientv3.WithLease(keyedLease))

	a, b := open(t, e.etcd), open(t, shared(t))
	got, err := a.Look(ctx, held)
	if err != nil || got.State != Held || got.Token != earlierBase+heldAt || got.Holder != "h" || got.Metadata["k"] != "v" || got.Name != punctuation {
		t.Errorf("a lock held across the upgrade: got %+v, %v", got, err)
	}
	if got, err := a.Renew(ctx, held, time.Now()); err != nil || got.Token != earlierBase+heldAt {
		t.Errorf("its renewal: got %+v, %v", got, err)
	}
	wait := inBackground(func() (Lock, error) { return b.Ask(ctx, queued, within, time.Now()) })
	eventually(t, "the place is served", func() bool { return b.serving() == 1 })
	if err := a.Release(ctx, held); err != nil {
		t.Errorf("its release: %v", err)
	}
	if won := getHeld(t, wait); won.ID != queued || won.Token != earlierBase+queuedAt {
		t.Errorf("a place kept across the upgrade: got %+v, want the id %s", won, queued)
	}
	if again := mustHold(t, b, Claim{Name: "on lease", LeaseID: text64(clients)}); !again.Replayed || again.Token != earlierBase+leasedAt {
		t.Errorf("the lease again: got %+v", again)
	}
	if again := mustHold(t, a, Claim{Name: "keyed", Key: earlierKey, TTL: time.Minute, Holder: "h"}); !again.Replayed || again.Token != earlierBase+keyedAt || again.ID != earlierID(keyed, keyedAt, "keyed") {
		t.Errorf("the key again: got %+v", again)
	}
	if err := b.EndLease(ctx, text64(clients)); err != nil {
		t.Errorf("end of the lease: %v", err)
	}
	if next := mustHold(t, a, Claim{Name: "on lease"}); next.Token <= earlierBase+keyedAt {
		t.Errorf("token %d after %d", next.Token, earlierBase+keyedAt)
	}
}

// TestLeaseIDsHaveNoSealWhileAReplicaOfAnEarlierBuildIsThere: that one finds a lease only under its whole id.
func TestLeaseIDsHaveNoSealWhileAReplicaOfAnEarlierBuildIsThere(t *testing.T) {
	e := earlierStore{t, shared(t), prefixFor(t)}
	on := e.grant(60)
	e.put("replicas/"+newNonce().text(), "1moves", clientv3.WithLease(on))
	a := open(t, e.etcd)
	bare := leaseAs(t, a, "ann")
	got, err := e.etcd.Get(ctxFor(t), e.prefix+"leases/"+bare.ID)
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("the earlier build would find %d leases under %q, %v", len(got.Kvs), bare.ID, err)
	}
	if _, err := e.etcd.Revoke(ctxFor(t), on); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func() bool { return !a.unsealed.Load() })
	b := open(t, shared(t))
	sealed := leaseAs(t, a, "ann")
	stored, err := e.etcd.Get(ctxFor(t), e.prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range stored.Kvs {
		if strings.Contains(string(kv.Key)+string(kv.Value), sealed.ID) {
			t.Errorf("etcd has the id of a lease at %q", kv.Key)
		}
	}
	for _, lease := range []Lease{bare, sealed} {
		l := claimAs(t, b, "ann", Claim{Name: lease.ID, LeaseID: lease.ID})
		if seen, err := b.Look(as(t, "ann"), l.ID); err != nil || seen.LeaseID != lease.ID {
			t.Errorf("a lock on %s: %+v, %v", lease.ID, seen, err)
		}
		if shown, err := a.GetLease(as(t, "ann"), lease.ID); err != nil || len(shown.Locks) != 1 {
			t.Errorf("the lease %s: %+v, %v", lease.ID, shown, err)
		}
		for what, err := range map[string]error{
			"renew": errOf(b.Renew(as(t, "bob"), lease.ID, time.Now())),
			"get":   errOf(b.GetLease(as(t, "bob"), lease.ID)),
			"claim": errOf(b.Claim(as(t, "bob"), Claim{Name: "theirs", LeaseID: lease.ID})),
			"end":   b.EndLease(as(t, "bob"), lease.ID),
		} {
			wantErr(t, what+" by another", err, ErrNoLease)
		}
		if _, err := b.Renew(as(t, "ann"), lease.ID, time.Now()); err != nil {
			t.Errorf("renew %s: %v", lease.ID, err)
		}
		if err := b.EndLease(as(t, "ann"), lease.ID); err != nil {
			t.Errorf("end %s: %v", lease.ID, err)
		}
	}
}

func leaseAs(t testing.TB, s *Store, principal string) Lease {
	t.Helper()
	lease, err := s.NewLease(as(t, principal), Lease{TTL: 30 * time.Second}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// What a later build has written, and this one cannot read, is no free name and no waiter to be passed over.
func TestValueOfALaterBuildIsNotTakenForNothing(t *testing.T) {
	e := earlierStore{t, shared(t), prefixFor(t)}
	a := open(t, e.etcd)
	mustHold(t, a, Claim{Name: "y"})
	e.put("locks/x\x00"+newNonce().text(), `2{"something":"else"}`)
	for what, c := range map[string]Claim{
		"a try":   {Name: "x", TTL: 30 * time.Second},
		"a place": {Name: "x", TTL: 30 * time.Second, Queue: true},
		"a wait":  {Name: "x", TTL: 30 * time.Second, Wait: time.Second},
	} {
		if l, err := a.Claim(ctxFor(t), c); err == nil && l.State == Held {
			t.Errorf("%s on a name that a later build has: got %+v", what, l)
		}
	}
	_, err := a.List(ctxFor(t), Filter{Name: "x", Limit: 10})
	wantErr(t, "the list of what cannot be read", err, ErrUnavailable)
	mustHold(t, a, Claim{Name: "z"})
}
