package access

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxPrincipalClaim is in bytes: that of sub, by OpenID Connect.
const maxPrincipalClaim = 255

// claims are what a JWT says, each as it was written.
type claims map[string]json.RawMessage

const (
	errClaims refusal = "the JWT has no claims"
	errTwice  refusal = "the JWT has a claim twice"
	errCase   refusal = "the JWT has a registered claim in another case of letters"
)

// registered are the names of claims that RFC 7519 knows.
var registered = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti"}

// readClaims reads those of which every reader reads the same: each is there once, and none only looks like a registered one.
// The library takes names in any case of letters, and the last of several for the claim.
func readClaims(payload []byte) (claims, error) {
	if !json.Valid(payload) {
		return nil, errClaims
	}
	reader := json.NewDecoder(bytes.NewReader(payload))
	if begin, err := reader.Token(); err != nil || begin != json.Delim('{') {
		return nil, errClaims
	}
	all := claims{}
	for reader.More() {
		key, err := reader.Token()
		name, is := key.(string)
		if err != nil || !is {
			return nil, errClaims
		}
		var value json.RawMessage
		if err := reader.Decode(&value); err != nil {
			return nil, errClaims
		}
		if _, before := all[name]; before {
			return nil, errTwice
		}
		if looksRegistered(name) {
			return nil, errCase
		}
		all[name] = value
	}
	return all, nil
}

func looksRegistered(name string) bool {
	return slices.ContainsFunc(registered, func(r string) bool { return name != r && strings.EqualFold(name, r) })
}

// text is a claim that is one text.
func (c claims) text(name string) (string, bool) {
	all := c.texts(name)
	if len(all) != 1 || c[name][0] != '"' {
		return "", false
	}
	return all[0], true
}

// texts are the values of a claim that is a text or a list of texts; none if it is anything else. Empty ones do not count, nor
// those with U+FFFD: what was written in its place could be several.
func (c claims) texts(name string) []string {
	var written []any
	if raw := c[name]; len(raw) == 0 {
		return nil
	} else if raw[0] == '"' {
		written = make([]any, 1)
		if json.Unmarshal(raw, &written[0]) != nil {
			return nil
		}
	} else if raw[0] != '[' || json.Unmarshal(raw, &written) != nil {
		return nil
	}
	var all []string
	for _, value := range written {
		text, is := value.(string)
		if !is {
			return nil
		}
		if text != "" && !strings.ContainsRune(text, utf8.RuneError) {
			all = append(all, text)
		}
	}
	return all
}

func isPrincipalClaim(text string) bool {
	return len(text) <= maxPrincipalClaim && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// validAt judges the claim nbf, in seconds since 1970, if there is one. The library forgives more than ClockLeeway.
func (c claims) validAt(now time.Time) bool {
	raw, there := c["nbf"]
	if !there {
		return true
	}
	var from *float64
	err := json.Unmarshal(raw, &from)
	return err == nil && (from == nil || *from <= float64(now.Add(ClockLeeway).Unix()))
}

// placeable are the values that may stand in a prefix: with others, a claim could reach beyond its place.
var placeable = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// grantsOf are those that the claims give.
func (s *jwtSection) grantsOf(all claims) []grant {
	var given []grant
	values := map[string][]string{}
	for _, g := range s.grants {
		if _, read := values[g.claim]; !read {
			values[g.claim] = all.texts(g.claim)
		}
		placed := strings.Contains(g.prefix, valueHere)
		for _, value := range values[g.claim] {
			if g.value != "" && value != g.value {
				continue
			}
			if !placed {
				given = append(given, grant{Prefix(g.prefix), g.rights})
				break
			}
			if value != "." && value != ".." && placeable.MatchString(value) {
				given = append(given, grant{Prefix(strings.ReplaceAll(g.prefix, valueHere, value)), g.rights})
			}
		}
	}
	return given
}
