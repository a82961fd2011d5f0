package main

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// What the realm's JWTs are of and for.
const (
	issuerName = "https://issuer.example"
	audience   = "latchkey"
	keyName    = "key-1"
)

// issuer makes JWTs.
type issuer struct {
	t   *testing.T
	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer { return &issuer{t, newKey(t)} }

// claimsOf are good ones, with changes; a nil takes a claim away.
func claimsOf(subject, team string, changes map[string]any) map[string]any {
	claims := map[string]any{
		"iss": issuerName, "aud": audience, "sub": subject, "team": team,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

func (i *issuer) jwt(subject, team string) string { return i.sign(claimsOf(subject, team, nil)) }

func (i *issuer) sign(claims map[string]any) string {
	i.t.Helper()
	return signWith(i.t, jose.ES256, i.key, claims, map[jose.HeaderKey]any{"kid": keyName})
}

func signWith(t *testing.T, algorithm jose.SignatureAlgorithm, key any, claims map[string]any, header map[jose.HeaderKey]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, &jose.SignerOptions{ExtraHeaders: header})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(encoded(t, claims)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unsigned is a JWT with these parts as they are.
func unsigned(header, claims, signature string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(header)) + "." + encode([]byte(claims)) + "." + signature
}

// keys is the issuer's JSON Web Key Set.
func (i *issuer) keys() string {
	i.t.Helper()
	return encoded(i.t, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: keyName, Algorithm: "ES256", Use: "sig"}}})
}

// keysServer serves the keys, and counts who asks.
func (i *issuer) keysServer() (url string, asked *atomic.Int64) {
	i.t.Helper()
	asked, text := &atomic.Int64{}, i.keys()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(json.RawMessage(text))
	}))
	i.t.Cleanup(srv.Close)
	return srv.URL + "/keys", asked
}

// trustFile takes the issuer's JWTs: each may do with its team's names what rights say. Its keys are in a file.
func (r *realm) trustFile(i *issuer, rights string) {
	r.t.Helper()
	replace(r.t, filepath.Join(filepath.Dir(r.file), "keys.json"), i.keys())
	r.trust("jwks_file: keys.json", rights)
}

// trustURL is the same, with keys that are fetched.
func (r *realm) trustURL(url, rights string) { r.trust(fmt.Sprintf("jwks_url: %q", url), rights) }

func (r *realm) trust(keys, rights string) {
	r.jwt = fmt.Sprintf("jwt:\n  issuer: %s\n  audience: [%s]\n  %s\n  grants: [{claim: team, prefix: '{value}', rights: [%s]}]\n",
		issuerName, audience, keys, rights)
}

// certificate makes one for a client, by the name of it.
func (a *authority) certificate(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key := newKey(t)
	der := sign(t, &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a.cert, key.Public(), a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// client is how one speaks to servers of the authority, with certificates of their own.
func (a *authority) client(own ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: a.pool, ServerName: "127.0.0.1", Certificates: own}
}

// secured are the flags of a server that speaks TLS and takes the authority's clients.
func (a *authority) secured(t *testing.T) []string {
	t.Helper()
	cert, key := a.issue(t)
	return []string{"--tls-cert=" + cert, "--tls-key=" + key, "--tls-client-ca=" + a.file}
}
