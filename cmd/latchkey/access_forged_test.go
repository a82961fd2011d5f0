package main

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/latchkey/latchkey/server/access"
)

// forged are credentials that are nobody's, some of them very much like good ones.
func forged(t *testing.T, i *issuer, token, visitors string) map[string]string {
	t.Helper()
	another, _ := access.NewToken()
	good := i.jwt("carol", "team-a")
	parts := strings.Split(good, ".")
	claims := encoded(t, claimsOf("carol", "team-a", map[string]any{"jti": "another"}))
	changed := func(changes map[string]any) string { return i.sign(claimsOf("carol", "team-a", changes)) }
	foreign := newKey(t)
	der, err := x509.MarshalPKIXPublicKey(i.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	hmac := func(secret []byte) string {
		return signWith(t, jose.HS256, secret, claimsOf("carol", "team-a", nil), map[jose.HeaderKey]any{"kid": keyName})
	}
	return map[string]string{
		"a token that nobody has":         another,
		"a token with another end":        token[:len(token)-4] + "AAAA",
		"half a token":                    token[:len(token)/2],
		"of a key that is not the issuer": signWith(t, jose.ES256, foreign, claimsOf("carol", "team-a", nil), map[jose.HeaderKey]any{"kid": keyName}),
		"of a key that it brings": signWith(t, jose.ES256, foreign, claimsOf("carol", "team-a", nil),
			map[jose.HeaderKey]any{"jwk": jose.JSONWebKey{Key: foreign.Public()}}),
		"of a key that is elsewhere": signWith(t, jose.ES256, foreign, claimsOf("carol", "team-a", nil),
			map[jose.HeaderKey]any{"kid": keyName, "jku": "http://" + visitors + "/keys", "x5u": "http://" + visitors + "/cert"}),
		"of the public key as a secret":    hmac(public),
		"of the set of keys as a secret":   hmac([]byte(i.keys())),
		"alg none":                         unsigned(`{"alg":"none"}`, claims, ""),
		"alg none with its key":            unsigned(`{"alg":"none","kid":"`+keyName+`"}`, claims, ""),
		"alg None":                         unsigned(`{"alg":"None","typ":"JWT"}`, claims, ""),
		"alg none, and a signature":        unsigned(`{"alg":"none"}`, claims, parts[2]),
		"no alg":                           unsigned(`{"kid":"`+keyName+`"}`, claims, parts[2]),
		"another's signature":              unsigned(`{"alg":"ES256","kid":"`+keyName+`"}`, claims, parts[2]),
		"no signature":                     parts[0] + "." + parts[1] + ".",
		"two parts":                        parts[0] + "." + parts[1],
		"four parts":                       good + "." + parts[2],
		"expired":                          changed(map[string]any{"exp": time.Now().Add(-time.Second).Unix()}),
		"without an end":                   changed(map[string]any{"exp": nil}),
		"not valid yet":                    changed(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"of another issuer":                changed(map[string]any{"iss": issuerName + ".evil"}),
		"of the issuer with a slash":       changed(map[string]any{"iss": issuerName + "/"}),
		"of no issuer":                     changed(map[string]any{"iss": nil}),
		"of two issuers":                   changed(map[string]any{"iss": []string{issuerName}}),
		"for another":                      changed(map[string]any{"aud": "another"}),
		"for nobody":                       changed(map[string]any{"aud": nil}),
		"of nobody":                        changed(map[string]any{"sub": nil}),
		"of a number":                      changed(map[string]any{"sub": 7}),
		"of a name with a line break":      changed(map[string]any{"sub": "carol\nadmin"}),
		"of a name that ends with a NUL":   changed(map[string]any{"sub": "carol\x00"}),
		"of a very long name":              changed(map[string]any{"sub": strings.Repeat("c", 256)}),
		"a JWT that is not one":            "a.b.c",
		"longer than a header should be":   strings.Repeat("x", access.MaxAuthorization),
		"with a good one behind it":        "x " + good,
		"a token with a JWT behind it":     token + "." + good,
		"the token in the text of another": "Bearer " + token,
	}
}

// TestForgedCredentialsAreNobodys: each is told the same, whatever is wrong with it. OWASP API2, API7.
func TestForgedCredentialsAreNobodys(t *testing.T) {
	t.Parallel()
	for name, fetched := range map[string]bool{"keys in a file": false, "keys that are fetched": true} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t)
			r := newRealm(t, "token", lockEverything)
			visitors, address := listenForVisitors(t)
			asked := visitors
			if fetched {
				var url string
				url, asked = i.keysServer()
				r.trustURL(url, "lock, read")
			} else {
				r.trustFile(i, "lock, read")
			}
			a, b := r.replicas("--log-level=debug")
			newCaller(t, i.jwt("carol", "team-a"), nil).want(201, "", http.MethodPost, a.url+"/locks", `{"name":"team-a"}`)
			told := ""
			all := forged(t, i, r.tokens["token"], address)
			for what, bearer := range all {
				for _, replica := range []*running{a, b} {
					got := newCaller(t, bearer, nil).want(401, "unauthorized", http.MethodPost, replica.url+"/locks", `{"name":"team-a/x"}`)
					if told == "" {
						told = got.body
					}
					if got.body != told || got.header.Get("WWW-Authenticate") != `Bearer realm="latchkey"` {
						t.Errorf("%s is told %s with %q, another %s", what, got.body, got.header.Get("WWW-Authenticate"), told)
					}
				}
			}
			for _, path := range []string{"/locks?access_token=" + r.tokens["token"], "/locks?token=" + r.tokens["token"]} {
				newCaller(t, "", nil).want(401, "unauthorized", http.MethodGet, a.url+path, "")
			}
			newCaller(t, "", nil).want(401, "unauthorized", http.MethodGet, a.url+"/locks", "", "Cookie", "token="+r.tokens["token"], "X-Api-Key", r.tokens["token"])
			list := decoded[struct{ Locks []any }](t, r.as("token").want(200, "", http.MethodGet, b.url+"/locks", "").body)
			if len(list.Locks) != 1 {
				t.Errorf("forged credentials took %v", list.Locks)
			}
			if n := visitors.Load(); n > 0 {
				t.Errorf("the service went %d times to where a JWT told it to", n)
			}
			if n := asked.Load(); fetched && n > 6 {
				t.Errorf("%d forged JWTs made %d requests to the issuer", 2*len(all), n)
			}
		})
	}
}
