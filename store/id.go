package store

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// A nonce is the random part of an id and of its etcd key: nobody can guess it.
type nonce [16]byte

func newNonce() (n nonce) {
	rand.Read(n[:]) // never fails: crypto/rand ends the program instead
	return n
}

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
}

// String spells the id: base64url of nonce, create-revision and name.
func (id lockID) String() string {
	raw := make([]byte, 0, len(id.nonce)+8+len(id.name))
	raw = append(raw, id.nonce[:]...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(id.revision))
	raw = append(raw, id.name...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// parseLockID takes the one spelling of an id and no other.
func parseLockID(s string) (id lockID, ok bool) {
	raw, ok := decode64(s)
	if !ok || len(raw) <= len(id.nonce)+8 {
		return lockID{}, false
	}
	id.nonce = nonce(raw[:len(id.nonce)])
	id.revision = int64(binary.BigEndian.Uint64(raw[len(id.nonce):]))
	id.name = string(raw[len(id.nonce)+8:])
	if id.revision <= 0 || checkName(id.name) != nil {
		return lockID{}, false
	}
	return id, true
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
	const longest = (16+8+MaxNameBytes)*4/3 + 4
	if len(s) > longest {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != s {
		return nil, false
	}
	return raw, true
}
