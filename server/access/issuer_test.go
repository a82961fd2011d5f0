package access

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// signer is an issuer's key, or somebody else's.
type signer struct {
	algorithm jose.SignatureAlgorithm
	id        string
	key       crypto.Signer
}

func newSigner(t testing.TB, id string) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{jose.ES256, id, key}
}

// rsaKey takes long to make.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, minRSABits) })

func newRSASigner(t *testing.T, id string) signer {
	t.Helper()
	key, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	return signer{jose.RS256, id, key}
}

// jwk is the public key.
func (s signer) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.id, Algorithm: string(s.algorithm), Use: "sig"}
}

func keySetOf(t testing.TB, keys ...jose.JSONWebKey) string {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (s signer) sign(t testing.TB, claims any) string {
	t.Helper()
	return signWith(t, s.algorithm, s.key, s.id, claims)
}

func signWith(t testing.TB, algorithm jose.SignatureAlgorithm, key any, id string, claims any) string {
	t.Helper()
	by, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, is := claims.(string)
	if !is {
		text, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		payload = string(text)
	}
	signed, err := by.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	jwt, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return jwt
}

// claimsWith are those of a good JWT, with others over them; nil takes one away.
func claimsWith(over map[string]any) map[string]any {
	all := map[string]any{
		"iss": "https://issuer.example", "aud": "latchkey", "sub": "ann", "groups": []string{"red", "blue"},
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(all, over)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	return all
}

// jwtFile has its keys in keys.json.
const jwtFile = `
jwt:
  issuer: https://issuer.example
  audience: [latchkey, locks]
  jwks_file: keys.json
  grants:
    - {claim: groups, prefix: "team-{value}", rights: [lock, read]}
    - {claim: groups, value: ops, prefix: "*", rights: [admin]}
    - {claim: sub, prefix: shared/, rights: [read]}
`

func TestJWTNamesItsPrincipal(t *testing.T) {
	ec, rs := newSigner(t, "ec"), newRSASigner(t, "rs")
	g := open(t, jwtFile, "keys.json", keySetOf(t, ec.jwk(), rs.jwk()))
	for name, jwt := range map[string]string{
		"ES256":                 ec.sign(t, claimsWith(nil)),
		"RS256":                 rs.sign(t, claimsWith(nil)),
		"no key id":             signer{ec.algorithm, "", ec.key}.sign(t, claimsWith(nil)),
		"a list of audiences":   ec.sign(t, claimsWith(map[string]any{"aud": []string{"x", "locks"}})),
		"nbf now":               ec.sign(t, claimsWith(map[string]any{"nbf": time.Now().Unix()})),
		"nbf within the leeway": ec.sign(t, claimsWith(map[string]any{"nbf": time.Now().Add(ClockLeeway / 2).Unix()})),
		"nbf with a fraction":   ec.sign(t, claimsWith(map[string]any{"nbf": float64(time.Now().UnixMilli()) / 1000})),
	} {
		t.Run(name, func(t *testing.T) {
			p, err := g.ask("Bearer " + jwt)
			if err != nil || p.Name != "jwt:ann" {
				t.Fatalf("got %+v, %v; %s", p, err, g.log)
			}
			if !p.May(Lock, "team-red/x") || !p.May(Read, "team-blue") || !p.May(Read, "shared/x") ||
				p.May(Lock, "shared/x") || p.May(Lock, "team-redder") || p.May(Admin, "team-red") || p.May(Lock, "team-green") {
				t.Errorf("got %+v", p)
			}
		})
	}
}

func TestJWTsThatAreRefused(t *testing.T) {
	ec, rs, stranger := newSigner(t, "ec"), newRSASigner(t, "rs"), newSigner(t, "ec")
	g := open(t, jwtFile, "keys.json", keySetOf(t, ec.jwk(), rs.jwk()))
	with := func(claim string, value any) string { return ec.sign(t, claimsWith(map[string]any{claim: value})) }
	good := ec.sign(t, claimsWith(nil))
	header, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	raw := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	public, err := x509.MarshalPKIXPublicKey(rs.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	shared := func(secret []byte) string { return signWith(t, jose.HS256, secret, "rs", claimsWith(nil)) }
	ahead := time.Now().Add(ClockLeeway + time.Hour).Unix()
	admin, err := json.Marshal(claimsWith(map[string]any{"groups": "ops"}))
	if err != nil {
		t.Fatal(err)
	}
	embedded := jose.JSONWebKey{Key: stranger.key.Public()}
	text, err := embedded.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]string{
		"signed by another under the same id": stranger.sign(t, claimsWith(nil)),
		"by another under another id":         signer{stranger.algorithm, "other", stranger.key}.sign(t, claimsWith(nil)),
		"by another under no id":              signer{stranger.algorithm, "", stranger.key}.sign(t, claimsWith(nil)),
		"the right key, another's id":         signer{ec.algorithm, "rs", ec.key}.sign(t, claimsWith(nil)),
		"claims changed":                      header + "." + raw(string(admin)) + "." + signature,
		"signature cut":                       good[:len(good)-2],
		"signature empty":                     header + "." + payload + ".",
		"no signature":                        header + "." + payload,
		"four parts":                          good + ".e30",
		"alg none":                            raw(`{"alg":"none"}`) + "." + payload + ".",
		"alg None":                            raw(`{"alg":"None"}`) + "." + payload + "." + signature,
		"no alg":                              raw(`{}`) + "." + payload + "." + signature,
		"HS256 with the public key in PEM":    shared(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		"HS256 with the public key in DER":    shared(public),
		"an algorithm not chosen":             signWith(t, jose.RS512, rs.key, "rs", claimsWith(nil)),
		"a key that it brings along":          raw(`{"alg":"ES256","jwk":`+string(text)+`}`) + "." + payload + "." + signature,
		"an unknown critical header":          raw(`{"alg":"ES256","kid":"ec","crit":["x"],"x":1}`) + "." + payload + "." + signature,
		"as JSON":                             `{"payload":"` + payload + `","protected":"` + header + `","signature":"` + signature + `"}`,
		"expired":                             with("exp", time.Now().Add(-time.Second).Unix()),
		"no exp":                              with("exp", nil),
		"exp as text":                         with("exp", "never"),
		"exp null":                            ec.sign(t, `{"iss":"https://issuer.example","aud":"latchkey","sub":"ann","exp":null}`),
		"not yet valid":                       with("nbf", ahead),
		"not yet valid, by minutes":           with("nbf", time.Now().Add(ClockLeeway+time.Minute).Unix()),
		"nbf as text":                         with("nbf", "now"),
		"another issuer":                      with("iss", "https://other.example"),
		"the issuer with a slash":             with("iss", "https://issuer.example/"),
		"the issuer in upper case":            with("iss", "HTTPS://ISSUER.EXAMPLE"),
		"no issuer":                           with("iss", nil),
		"a list of issuers":                   with("iss", []string{"https://issuer.example"}),
		"another audience":                    with("aud", "latchkey2"),
		"other audiences":                     with("aud", []string{"x", "latchkey "}),
		"no audience":                         with("aud", nil),
		"an audience that is a number":        with("aud", 1),
		"no subject":                          with("sub", nil),
		"an empty subject":                    with("sub", ""),
		"a subject that is a number":          with("sub", 1),
		"a subject that is a list":            with("sub", []string{"ann"}),
		"a subject with a line":               with("sub", "ann\nbob"),
		"a long subject":                      with("sub", strings.Repeat("x", maxPrincipalClaim+1)),
		"a subject that could be two":         ec.sign(t, strings.Replace(string(admin), `"ann"`, `"\ud800"`, 1)),
		"no claims":                           ec.sign(t, "null"),
		"a list for claims":                   ec.sign(t, "[]"),
		"no JSON":                             ec.sign(t, "x"),
	}
	for name, jwt := range refused {
		t.Run(name, func(t *testing.T) {
			p, err := g.ask("Bearer " + jwt)
			wantError(t, name, p, err, ErrBadCredentials)
		})
		for _, part := range strings.Split(jwt, ".") {
			if len(part) > 20 && strings.Contains(g.log.String(), part) {
				t.Errorf("%s: the log has a part of the JWT", name)
			}
		}
	}
	g.wantName(t, "Bearer "+good, "jwt:ann") // all of the above is this one, spoilt
}

func TestJWTGrantsByClaims(t *testing.T) {
	ec := newSigner(t, "ec")
	g := open(t, `
jwt:
  issuer: https://issuer.example
  audience: latchkey
  jwks_file: keys.json
  principal_claim: email
  grants:
    - {claim: groups, prefix: "team-{value}/{value}-*", rights: lock}
    - {claim: groups, value: red, prefix: reds, rights: lock}
    - {claim: https://issuer.example/role, value: ops, prefix: "*", rights: admin}
`, "keys.json", keySetOf(t, ec.jwk()))
	for name, tt := range map[string]struct {
		groups any
		want   []string // prefixes to lock
	}{
		"a list":                       {[]string{"red", "blue"}, []string{"reds", "team-blue/blue-*", "team-red/red-*"}},
		"one text":                     {"red", []string{"reds", "team-red/red-*"}},
		"other case":                   {"Red", []string{"team-Red/Red-*"}},
		"none":                         {nil, nil},
		"an empty list":                {[]string{}, nil},
		"a number":                     {1, nil},
		"true":                         {true, nil},
		"a map":                        {map[string]string{"red": "red"}, nil},
		"a list of lists":              {[][]string{{"red"}}, nil},
		"a list with a number":         {[]any{"red", 1}, nil},
		"a list with null":             {[]any{"red", nil}, nil},
		"dots":                         {[]string{".", "..", "...", "a.b", ".a"}, []string{"team-.../...-*", "team-.a/.a-*", "team-a.b/a.b-*"}},
		"stars, slashes and the like":  {[]string{"*", "a/b", "../x", "a*", "a b", "a\n", "a%2Fb", "", "ä", "{value}", "a\x00"}, nil},
		"what a prefix would not hold": {strings.Repeat("x", 300), []string{"team-" + strings.Repeat("x", 300) + "/" + strings.Repeat("x", 300) + "-*"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := g.ask("Bearer " + ec.sign(t, claimsWith(map[string]any{"email": "ann@example.com", "groups": tt.groups})))
			if err != nil || p.Name != "jwt:ann@example.com" {
				t.Fatalf("got %+v, %v", p, err)
			}
			var got []string
			for _, prefix := range p.Prefixes(Lock) {
				got = append(got, string(prefix))
			}
			if strings.Join(got, "|") != strings.Join(tt.want, "|") || p.May(Admin, "x") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	p, err := g.ask("Bearer " + ec.sign(t, claimsWith(map[string]any{"email": "ann@example.com", "https://issuer.example/role": "ops"})))
	if err != nil || !p.May(Admin, "x") || p.May(Lock, "x") {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestAlgorithmsThatAreChosen(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ed := signer{jose.EdDSA, "ed", private}
	rs := newRSASigner(t, "rs")
	ps := signer{jose.PS256, "rs", rs.key}
	unlabelled := jose.JSONWebKey{Key: rs.key.Public(), KeyID: "rs"}
	chosen := func(algorithms string, keys ...jose.JSONWebKey) *gateOf {
		file := strings.Replace(jwtFile, "  grants:", "  algorithms: "+algorithms+"\n  grants:", 1)
		return open(t, file, "keys.json", keySetOf(t, keys...))
	}
	byEd, byPS, byRS := "Bearer "+ed.sign(t, claimsWith(nil)), "Bearer "+ps.sign(t, claimsWith(nil)), "Bearer "+rs.sign(t, claimsWith(nil))

	g := chosen("[EdDSA, PS256]", jose.JSONWebKey{Key: public, KeyID: "ed"}, unlabelled)
	g.wantName(t, byEd, "jwt:ann")
	g.wantName(t, byPS, "jwt:ann")
	p, err := g.ask(byRS)
	wantError(t, "an algorithm that is not chosen", p, err, ErrBadCredentials)

	g = chosen("[PS256, RS256]", ps.jwk())
	g.wantName(t, byPS, "jwt:ann")
	p, err = g.ask(byRS)
	wantError(t, "an algorithm that the key is not for", p, err, ErrBadCredentials)
}

func TestKeyFilesAreCheckedWhole(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	ec := newSigner(t, "ec")
	encryption := ec.jwk()
	encryption.Use = "enc"
	for name, tt := range map[string]struct {
		keys string
		want []string
	}{
		"no set":          {"[]", []string{"keys.json: is not a JSON Web Key Set"}},
		"no list":         {"{}", []string{"keys.json: is not a JSON Web Key Set"}},
		"no JSON":         {"-----BEGIN PUBLIC KEY-----", []string{"keys.json: is not a JSON Web Key Set"}},
		"no keys":         {`{"keys":[]}`, []string{"keys.json: has no key for signatures"}},
		"none for this":   {keySetOf(t, encryption), []string{"keys.json: has no key for signatures"}},
		"too many":        {`{"keys":[` + strings.Repeat("{},", maxKeys) + `{}]}`, []string{"keys.json: has more than 64 keys"}},
		"a secret":        {keySetOf(t, jose.JSONWebKey{Key: []byte("hunter2hunter2")}), []string{"keys[0] is secret"}},
		"an unknown kind": {`{"keys":[{"kty":"XY"}]}`, []string{"keys[0] is not a key of RSA, EC or Ed25519"}},
		"several": {keySetOf(t, ec.jwk(), jose.JSONWebKey{Key: ec.key}, jose.JSONWebKey{Key: weak.Public()}),
			[]string{"keys[1] is secret", "keys[2] must have 2048 to 8192 bits"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tryOpen(t, Config{}, jwtFile+"    - {claim: x}\n", "keys.json", tt.keys)
			for _, want := range append(tt.want, "jwt.grants[3]: has no prefix") {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Error("a secret is told")
			}
		})
	}
}
