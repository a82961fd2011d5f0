package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keys builds every key of the store, all under one prefix.
type keys struct {
	prefix string
	// ids seals the public ids of the claims under those keys.
	ids *sealer
	// via names this replica, in its tally's key and in the claims that are made through it.
	via string
}

func (k keys) locks() string                     { return k.prefix + "locks/" }
func (k keys) claim(name string, n nonce) string { return k.queue(name) + n.text() }
func (k keys) leaseOf(called string) string      { return k.prefix + "leases/" + called }
func (k keys) replicas() string                  { return k.prefix + "replicas/" }
func (k keys) replica(n nonce) string            { return k.replicas() + n.text() }
func (k keys) epoch() string                     { return k.prefix + "epoch" }
func (k keys) secret() string                    { return k.prefix + "secret" }
func (k keys) broken(id lockID) string {
	return k.prefix + "broken/" + id.nonce.text() + "/" + strconv.FormatInt(id.revision, 10)
}

// queue is where the claims on name begin, queueEnd where they end. No name has a NUL, so nobody else's lie between.
func (k keys) queue(name string) string    { return k.locks() + name + "\x00" }
func (k keys) queueEnd(name string) string { return k.locks() + name + "\x01" }

// split takes a claim's key apart.
func (k keys) split(key string) (name string, n nonce, err error) {
	rest, ok := strings.CutPrefix(key, k.locks())
	name, text, cut := strings.Cut(rest, "\x00")
	if ok && cut {
		if n, ok = parseNonce(text); ok {
			return name, n, nil
		}
	}
	return "", n, fmt.Errorf("%w: a key that is no claim's", errForeign)
}

// valueVersion begins every value, so that replicas of different ages can tell what they read.
const valueVersion = '1'

// claim is the value of a claim's key. A held one is written again only to be moved to another etcd lease: see move.go.
type claim struct {
	TTLSeconds int64             `json:"ttl"`
	Holder     string            `json:"holder,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	// Owner is the principal whose it is; "" without authentication.
	Owner string `json:"owner,omitempty"`
	Held  bool   `json:"held,omitempty"`
	// Lease is the etcd lease that a held claim is on: its own, or its client's.
	Lease clientv3.LeaseID `json:"lease,omitempty"`
	// Base is that of the epoch in which it was granted: its token is Base plus its create-revision.
	Base int64 `json:"base,omitempty"`
	// ClientLease is what the key of the client's lease is called that it is on, or "".
	ClientLease string `json:"client_lease,omitempty"`
	// Digest is that of what a repeat with the same key must ask for too; "" without a key.
	Digest string `json:"digest,omitempty"`
	// Via names the replica that a principal's claim was made through, which counts it; "" if nobody counts them.
	Via string `json:"via,omitempty"`
	holdEnd
}

func (c claim) ttl() time.Duration { return time.Duration(c.TTLSeconds) * time.Second }

func (c claim) encode() string { return encodeValue(c) }

// standing is a claim as it stands in etcd.
type standing struct {
	claim
	key      string
	name     string
	nonce    nonce
	created  int64
	modified int64
	onLease  clientv3.LeaseID
	ids      *sealer
	// here says that it was made through this replica.
	here bool
}

func (s *standing) lockID() lockID {
	return s.ids.seal(lockID{nonce: s.nonce, revision: s.created, name: s.name}, s.Owner)
}

func (s *standing) id() string { return s.lockID().String() }

// leaseID is the public id of the client's lease that it is on.
func (s *standing) leaseID() string { return s.ids.leaseID(s.ClientLease, s.Owner) }

func (k keys) standing(kv *mvccpb.KeyValue) (standing, error) {
	st := standing{key: string(kv.Key), created: kv.CreateRevision, modified: kv.ModRevision, onLease: clientv3.LeaseID(kv.Lease), ids: k.ids}
	var err error
	if st.name, st.nonce, err = k.split(st.key); err != nil {
		return standing{}, err
	}
	if err := decodeValue(kv.Value, &st.claim); err != nil {
		return standing{}, err
	}
	st.here = st.Via != "" && st.Via == k.via
	return st, nil
}

// lock says what stands in the words that cross to the server. Its position is the caller's to fill.
func (s *standing) lock() Lock {
	l := Lock{
		ID: s.id(), Name: s.name, TTL: s.ttl(), Owner: s.Owner, Holder: s.Holder, Metadata: s.Metadata,
		HoldEnds: s.ends(), Revision: s.modified, Here: s.here,
	}
	l.LeaseID = l.ID
	if s.ClientLease != "" {
		l.LeaseID = s.leaseID()
	}
	if s.Held {
		l.State, l.Token = Held, s.Base+s.created
	}
	return l
}

// shown is a lock as others may see it: without what only its owner may know.
func (s *standing) shown() *Lock {
	l := s.lock()
	l.ID, l.LeaseID = "", ""
	return &l
}

// digest sums up what a repeat with the same key must ask for too. Each part is written with its length, the pairs in
// order, so no two requests share one.
func (c Claim) digest() string {
	sum := sha256.New()
	part := func(s string) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(s)))
		sum.Write(size[:])
		sum.Write([]byte(s))
	}
	part(c.TTL.String())
	part(c.LeaseID)
	part(c.Holder)
	for _, k := range slices.Sorted(maps.Keys(c.Metadata)) {
		part(k)
		part(c.Metadata[k])
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:16])
}

// encodeValue spells a value of ours: its version, then JSON.
func encodeValue(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("store: %T does not encode: %v", v, err)) // only strings and numbers: cannot happen
	}
	return string(valueVersion) + string(raw)
}

func decodeValue(raw []byte, v any) error {
	if len(raw) == 0 || raw[0] != valueVersion {
		return fmt.Errorf("%w: a value of another version", errForeign)
	}
	if err := json.Unmarshal(raw[1:], v); err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	return nil
}
