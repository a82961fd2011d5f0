package access

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestClaimsHaveOneNameAndOneValue: whoever reads a JWT must find in it what its issuer and all others do, so a claim that some
// take for another, and one that is there twice, are in none that is taken.
func TestClaimsHaveOneNameAndOneValue(t *testing.T) {
	ec := newSigner(t, "ec")
	g := open(t, jwtFile, "keys.json", keySetOf(t, ec.jwk()))
	past, ahead := time.Now().Add(-time.Hour).Unix(), time.Now().Add(time.Hour).Unix()
	good := fmt.Sprintf(`"iss":"https://issuer.example","aud":"latchkey","sub":"ann","exp":%d`, ahead)
	without := func(claim, instead string) string {
		for _, part := range strings.Split(good, ",") {
			if strings.HasPrefix(part, `"`+claim+`"`) {
				return strings.Replace(good, part, instead, 1)
			}
		}
		t.Fatalf("no %s in %s", claim, good)
		return ""
	}
	refused := map[string]string{
		"another audience, then ours in upper case": without("aud", `"aud":"other","AUD":"latchkey"`),
		"ours in upper case, then another audience": without("aud", `"AUD":"latchkey","aud":"other"`),
		"expired, then not in another case":         without("exp", fmt.Sprintf(`"exp":%d,"Exp":%d`, past, ahead)),
		"an end in upper case only":                 without("exp", fmt.Sprintf(`"EXP":%d`, ahead)),
		"another issuer, then ours":                 without("iss", `"iss":"https://evil.example","Iss":"https://issuer.example"`),
		"ours, then another issuer":                 good + `,"ISS":"https://evil.example"`,
		"a beginning in upper case":                 good + `,"NBF":1`,
		"an age in another case":                    good + `,"Iat":1`,
		"an id in another case":                     good + `,"JTI":"x"`,
		"a subject by another s":                    good + `,"ſub":"bob"`,
		"an issuer by another s":                    good + `,"is\u017f":"https://evil.example"`,
		"an issuer whose case is written escaped":   good + `,"\u0049ss":"https://issuer.example"`,
		"two subjects":                              good + `,"sub":"bob"`,
		"two subjects, one escaped":                 good + `,"s\u0075b":"bob"`,
		"two ends":                                  good + fmt.Sprintf(`,"exp":%d`, ahead),
		"two lists of groups":                       good + `,"groups":["red"],"groups":["ops"]`,
		"two that cannot be told apart":             good + ",\"\xff\":1,\"\xfe\":2",
	}
	for what, claims := range refused {
		p, err := g.ask("Bearer " + ec.sign(t, "{"+claims+"}"))
		wantError(t, what, p, err, ErrBadCredentials)
	}
	for what, more := range map[string]string{
		"nothing":                   "",
		"a name that begins alike":  `,"issuer":"x","subs":1,"audience":"x"`,
		"other claims in two cases": `,"team":"a","Team":"b"`,
		"what is twice below":       `,"x":{"sub":"bob","sub":"cid","EXP":1}`,
	} {
		p, err := g.ask("Bearer " + ec.sign(t, "{"+good+more+"}"))
		if err != nil || p.Name != "jwt:ann" {
			t.Errorf("with %s more: got %+v, %v; %s", what, p, err, g.log)
		}
	}
}

// FuzzClaims: what is taken reads the same to a reader that knows no case and one that does.
func FuzzClaims(f *testing.F) {
	for _, seed := range []string{`{"sub":"a","SUB":"b"}`, `{"sub":"a"}`, `{"ſub":"a"}`, `{}`, `null`, `[]`, `{"a":{"a":1}}`, `{"a":1}x`, `{"a":1,"a":2}`, ``} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := readClaims([]byte(text))
		if err != nil {
			return
		}
		var folded struct{ Iss, Sub, Aud, Exp, Nbf, Iat, Jti json.RawMessage }
		if err := json.Unmarshal([]byte(text), &folded); err != nil {
			t.Fatalf("%q is taken, and is none: %v", text, err)
		}
		for name, value := range map[string]json.RawMessage{
			"iss": folded.Iss, "sub": folded.Sub, "aud": folded.Aud, "exp": folded.Exp, "nbf": folded.Nbf, "iat": folded.Iat, "jti": folded.Jti,
		} {
			if string(all[name]) != string(value) {
				t.Errorf("%q: %s is %s to one and %s to another", text, name, all[name], value)
			}
		}
	})
}
