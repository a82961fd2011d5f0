package store

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
	"sync/atomic"
)

// A nonce is 16 bytes that nobody can guess: the random part of an etcd key, the seal of an id.
type nonce [16]byte

func newNonce() (n nonce) {
	rand.Read(n[:]) // never fails: crypto/rand ends the program instead
	return n
}

// nonceText is how long the text of a nonce is.
const nonceText = 22

// text is how a nonce is spelled in an etcd key.
func (n nonce) text() string { return base64.RawURLEncoding.EncodeToString(n[:]) }

func parseNonce(text string) (n nonce, ok bool) {
	raw, ok := decode64(text)
	if !ok || len(raw) != len(n) {
		return n, false
	}
	return nonce(raw), true
}

// derive makes the nonce of a claim which a later request must find again. Nobody without the store's secret can
// make it, so a guessable key gives no guessable id, and a lock's id says nothing of the lease it is on.
func derive(secret []byte, kind byte, parts ...string) nonce {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte{kind})
	for _, p := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		mac.Write(size[:])
		mac.Write([]byte(p))
	}
	return nonce(mac.Sum(nil)[:16])
}

// lockID is what a lock's public id says: any replica finds the etcd key from it, and release compares the revision.
type lockID struct {
	nonce    nonce
	revision int64
	name     string
	// seal makes the id a capability of this one claim: nobody without the store's secret can make it. The nonce alone
	// would not, for it is the next claim's too when the etcd key is used again.
	seal nonce
}

// String spells the id: base64url of nonce, create-revision, seal and name.
func (id lockID) String() string {
	raw := make([]byte, 0, lockIDBytes+len(id.name))
	raw = append(raw, id.nonce[:]...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(id.revision))
	raw = append(raw, id.seal[:]...)
	raw = append(raw, id.name...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// lockIDBytes is how long an id is, but for the name.
const lockIDBytes = 16 + 8 + 16

// parseLockID takes the one spelling of an id and no other. It does not look at the seal.
func parseLockID(s string) (id lockID, ok bool) {
	raw, ok := decode64(s)
	if !ok || len(raw) <= lockIDBytes {
		return lockID{}, false
	}
	id.nonce = nonce(raw[:16])
	id.revision = int64(binary.BigEndian.Uint64(raw[16:]))
	id.seal = nonce(raw[24:lockIDBytes])
	id.name = string(raw[lockIDBytes:])
	if id.revision <= 0 || checkName(id.name) != nil {
		return lockID{}, false
	}
	return id, true
}

// sealer seals the ids of one store.
type sealer struct{ secret atomic.Pointer[[]byte] }

// use is called with the store's secret before there is anything to seal.
func (s *sealer) use(secret []byte) { s.secret.Store(&secret) }

// seal is the id, sealed for the principal whose claim it names: for another it is none.
func (s *sealer) seal(id lockID, owner string) lockID {
	parts := []string{string(id.nonce[:]), strconv.FormatInt(id.revision, 10), id.name, owner}
	if owner == "" { // what was sealed before there were principals stays of use
		parts = parts[:3]
	}
	id.seal = derive(*s.secret.Load(), 'i', parts...)
	return id
}

// open takes an id that this store has made for owner, and no other.
func (s *sealer) open(text, owner string) (lockID, bool) {
	id, ok := parseLockID(text)
	if !ok {
		return lockID{}, false
	}
	sealed := s.seal(id, owner)
	return id, hmac.Equal(sealed.seal[:], id.seal[:])
}

// leaseID is the public id of a client's lease, from what its etcd key is called: the nonce in that, and a seal as a
// lock's. The nonce alone would not do: etcd writes keys to its log, and whoever has the id has the lease.
func (s *sealer) leaseID(key, owner string) string {
	text, sealed := strings.CutPrefix(key, sealedLease)
	if !sealed {
		return key
	}
	return text + derive(*s.secret.Load(), 'L', text, owner).text()
}

// sealedLease begins what the key of a lease is called whose id has a seal. Builds before this one gave none: there it
// is the id, and only its record tells whose it is.
const sealedLease = "~"

// openLease takes an id that this store has made for owner, or one without a seal, and returns what its key is called.
func (s *sealer) openLease(id, owner string) (key string, ok bool) {
	if _, bare := parseNonce(id); bare {
		return id, true
	}
	if len(id) != 2*nonceText {
		return "", false
	}
	key = sealedLease + id[:nonceText]
	return key, hmac.Equal([]byte(id), []byte(s.leaseID(key, owner)))
}

// cursor says after which claim a list goes on. It is shown to whoever may list, so it holds nothing random.
type cursor struct {
	name     string
	revision int64
}

func (c cursor) String() string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(c.revision))
	return base64.RawURLEncoding.EncodeToString(append(raw, c.name...))
}

func parseCursor(s string) (c cursor, ok bool) {
	raw, ok := decode64(s)
	if !ok || len(raw) <= 8 {
		return cursor{}, false
	}
	c.revision = int64(binary.BigEndian.Uint64(raw))
	c.name = string(raw[8:])
	if c.revision < 0 || checkName(c.name) != nil {
		return cursor{}, false
	}
	return c, true
}

// decode64 refuses every spelling but the canonical one: Go's decoder skips line breaks and stray low bits.
func decode64(s string) ([]byte, bool) {
	const longest = (lockIDBytes+MaxNameBytes)*4/3 + 4
	if len(s) > longest {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != s {
		return nil, false
	}
	return raw, true
}
