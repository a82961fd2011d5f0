package access

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

// TestTheLogOfRefusalsRepeatsNothing that was sent, whichever part of the credentials it was in, and is short.
func TestTheLogOfRefusalsRepeatsNothing(t *testing.T) {
	ec := newSigner(t, "ec")
	g := open(t, jwtFile, "keys.json", keySetOf(t, ec.jwk()))
	good := ec.sign(t, claimsWith(nil))
	_, rest, _ := strings.Cut(good, ".")
	const secret = "hunter2"
	long := secret + strings.Repeat("-"+secret, 500)
	headed := func(header string) string { return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + rest }
	for what, credentials := range map[string]string{
		"not a JWT":              long,
		"parts":                  strings.Repeat(secret+".", 500),
		"an algorithm":           headed(`{"alg":"` + long + `"}`),
		"a critical header":      headed(`{"alg":"ES256","crit":["` + long + `"],"` + long + `":1}`),
		"a header that is none":  headed(`{"` + secret + `"`),
		"a header of a kind":     headed(`{"alg":"ES256","kid":{"` + secret + `":1}}`),
		"a key id":               headed(`{"alg":"ES256","kid":"` + long + `"}`),
		"a member twice":         headed(`{"alg":"ES256","` + secret + `":1,"` + secret + `":2}`),
		"an issuer":              ec.sign(t, claimsWith(map[string]any{"iss": long})),
		"an audience":            ec.sign(t, claimsWith(map[string]any{"aud": long})),
		"a claim of a kind":      ec.sign(t, claimsWith(map[string]any{"iat": long})),
		"an end of a kind":       ec.sign(t, claimsWith(map[string]any{"exp": long})),
		"an expired one":         ec.sign(t, claimsWith(map[string]any{"exp": 1234567})),
		"a subject":              ec.sign(t, claimsWith(map[string]any{"sub": long})),
		"a source of claims":     ec.sign(t, claimsWith(map[string]any{"_claim_names": map[string]string{secret: secret}})),
		"a claim twice":          ec.sign(t, `{"iss":"https://issuer.example","`+secret+`":1,"`+secret+`":2}`),
		"claims that are cut":    ec.sign(t, `{"`+secret+`":`),
		"a scheme in its place":  "",
		"signed by another's":    newSigner(t, "ec").sign(t, claimsWith(map[string]any{"sub": secret})),
		"with two spaces inside": " " + secret + " " + secret,
	} {
		before := len(g.log.String())
		scheme := "Bearer "
		if credentials == "" {
			scheme = secret + " "
		}
		p, err := g.ask(scheme + credentials)
		wantError(t, what, p, err, ErrBadCredentials)
		line := g.log.String()[before:]
		_, cause, told := strings.Cut(strings.TrimSuffix(line, "\n"), "cause=")
		if !told || len(cause) > maxCause || strings.Contains(line, "1234567") {
			t.Errorf("%s: the log has %d bytes: %.300s", what, len(cause), line)
		}
		if quoted, _ := json.Marshal(secret); strings.Contains(line, secret) || strings.Contains(line, string(quoted)) {
			t.Errorf("%s: the log repeats it: %.300s", what, line)
		}
	}
}
