package access

import (
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// Bounds of an issuer's keys. maxKeys also bounds how many signatures are tried for a JWT that names no key.
const (
	maxKeys              = 64
	minRSABits, mostBits = 2048, 8192
)

// keyring are the public keys of an issuer.
type keyring []jose.JSONWebKey

// readKeyring reads a JSON Web Key Set (RFC 7517). Keys that are not for signatures are left out; those that cannot be used
// are left out and told. A set without the list of keys is none.
func readKeyring(text []byte) (ring keyring, unusable []error, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil || set.Keys == nil {
		return nil, nil, errors.New("is not a JSON Web Key Set")
	}
	if len(set.Keys) > maxKeys {
		return nil, nil, fmt.Errorf("has more than %d keys", maxKeys)
	}
	for i, raw := range set.Keys {
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(raw); err != nil {
			unusable = append(unusable, fmt.Errorf("keys[%d] is not a key of RSA, EC or Ed25519 that can be read", i))
		} else if key.Use != "" && key.Use != "sig" {
			continue
		} else if err := checkKey(key); err != nil {
			unusable = append(unusable, fmt.Errorf("keys[%d] %w", i, err))
		} else {
			ring = append(ring, key)
		}
	}
	return ring, unusable, nil
}

func checkKey(key jose.JSONWebKey) error {
	if !key.IsPublic() {
		return errors.New("is secret: only public keys may be here, and it is to be replaced")
	}
	if !key.Valid() {
		return errors.New("is incomplete")
	}
	if of, is := key.Key.(*rsa.PublicKey); is && (of.N.BitLen() < minRSABits || of.N.BitLen() > mostBits) {
		return fmt.Errorf("must have %d to %d bits", minRSABits, mostBits)
	}
	return nil
}

// verify returns the payload if one of the keys made the signature. It says whether there are keys that the JWT may mean: the
// one that it names, those without a name, or any if it names none.
func (r keyring) verify(signed *jose.JSONWebSignature) (payload []byte, verified, known bool) {
	header := signed.Signatures[0].Header
	for _, key := range r {
		if header.KeyID != "" && key.KeyID != "" && header.KeyID != key.KeyID {
			continue
		}
		known = true
		if key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := signed.Verify(key.Key); err == nil {
			return payload, true, true
		}
	}
	return nil, false, known
}
