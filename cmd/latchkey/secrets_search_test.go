package main

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// gram is how many bytes of a secret are looked up at once, and so how long the shortest is that can be found.
const gram = 16

// leastDifferent is of how many different bytes a secret must be made: others are found by chance.
const leastDifferent = 8

// unguessable is the part of a secret that tells it from all else, as it is spelled and, where that is base64, as it is. Of an id
// this is the seal: all the rest is in etcd's keys.
func unguessable(kind, text string) (spelled string, raw []byte) {
	switch dots := strings.LastIndex(text, "."); {
	case kind == "token" || kind == "credential" && strings.HasPrefix(text, "lk_"):
		spelled = strings.TrimPrefix(text, "lk_")
	case kind == "credential" && strings.Count(text, ".") == 2 && len(text)-dots > gram: // a JWT, and the rest tells nobody's secret
		spelled = text[dots+1:]
	case kind == "lease id":
		spelled = text[leaseSealBegin:]
	default:
		spelled = text
	}
	if kind == "key" || kind == "secret of the store" {
		return spelled, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(spelled)
	switch {
	case err != nil:
		return spelled, nil
	case kind == "lock id":
		return spelled[4*sealBegin/3 : 4*sealEnd/3], raw[sealBegin:sealEnd]
	}
	return spelled, raw
}

// spelledAs has the spellings that a text has in a log, in JSON, in a URL and in code that prints bytes.
func spelledAs(text string) []string {
	quoted, _ := json.Marshal(text)
	digits := hex.EncodeToString([]byte(text))
	all := []string{
		text, digits, strings.ToUpper(digits), strings.Trim(fmt.Sprint([]byte(text)), "[]"), strings.Trim(fmt.Sprintf("%q", text), `"`),
		strings.Trim(string(quoted), `"`), url.QueryEscape(text), url.PathEscape(text),
	}
	for before := range 3 { // bytes of something else that is encoded with it
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString([]byte(strings.Repeat(" ", before) + text))
			all = append(all, encoded[(4*before+2)/3:4*(before+len(text))/3])
		}
	}
	return all
}

// waysToTell are the spellings of a secret by which it would be found, none if it is too short or too plain for that.
func waysToTell(kind, text string) []string {
	spelled, raw := unguessable(kind, text)
	different := map[rune]bool{}
	for _, r := range spelled {
		different[r] = true
	}
	if len(different) < leastDifferent {
		return nil
	}
	ways := spelledAs(spelled)
	if raw != nil {
		ways = append(ways, spelledAs(string(raw))...)
	}
	ways = slices.DeleteFunc(ways, func(way string) bool { return len(way) < gram })
	if kind != "key" && !(kind == "credential" && spelled == text) { // it is random, and so is its beginning: it may be told cut
		for i := range ways {
			ways[i] = ways[i][:gram]
		}
	}
	slices.Sort(ways)
	return slices.Compact(ways)
}

type secretTold struct{ kind, text string }

// searcher finds any of very many secrets in a text in one pass over it.
type searcher struct {
	secrets []secretTold
	ways    []telling
	// first is, for the beginning of a way, where it is among the ways, and from there on the others that begin so.
	first map[[gram]byte]int32
}

type telling struct {
	text   string
	secret int32
	next   int32 // 0 is none: the first is not used
}

func newSearcher() *searcher {
	return &searcher{ways: make([]telling, 1), first: map[[gram]byte]int32{}}
}

// add reports false for a secret that cannot be looked for.
func (s *searcher) add(secret secretTold) bool {
	ways := waysToTell(secret.kind, secret.text)
	for _, text := range ways {
		begin := [gram]byte([]byte(text))
		s.ways = append(s.ways, telling{text, int32(len(s.secrets)), s.first[begin]})
		s.first[begin] = int32(len(s.ways) - 1)
	}
	if len(ways) > 0 {
		s.secrets = append(s.secrets, secret)
	}
	return len(ways) > 0
}

// search calls found for each secret at each place in text.
func (s *searcher) search(text []byte, found func(secret, at int)) {
	for at := 0; at+gram <= len(text); at++ {
		for i := s.first[[gram]byte(text[at:])]; i != 0; i = s.ways[i].next {
			if strings.HasPrefix(string(text[at:min(len(text), at+len(s.ways[i].text))]), s.ways[i].text) {
				found(int(s.ways[i].secret), at)
			}
		}
	}
}

// TestTheSearcherFindsWhatIsPlanted tells a secret of each kind in each way that it knows of, and in some that are known without it.
func TestTheSearcherFindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	random := func(of string, n int) []byte {
		sum := sha512.Sum512([]byte(of))
		return sum[:n]
	}
	spell := base64.RawURLEncoding.EncodeToString
	lock := random("a lock", sealEnd)
	id, seal := spell(append(slices.Clone(lock), "a/name"...)), lock[sealBegin:]
	lease, leaseSeal := spell(random("a lease", 16))+spell(random("its seal", 16)), random("its seal", 16)
	token, secretOfStore := random("a token", 32), random("the store", 32)
	planted := map[secretTold][]string{
		{"lock id", id}: {
			id, "/locks/" + id + "?a=b", hex.EncodeToString(lock), fmt.Sprintf("%X", seal), fmt.Sprint(seal), string(seal), fmt.Sprintf("%q", seal),
			base64.StdEncoding.EncodeToString(seal), base64.StdEncoding.EncodeToString([]byte("Basic:" + id)), id[:50] + "…",
		},
		{"lease id", lease}:                                     {lease, lease[leaseSealBegin:], string(leaseSeal), fmt.Sprintf("%x", leaseSeal)},
		{"token", "lk_" + spell(token)}:                         {"lk_" + spell(token), spell(token), string(token), "lk_" + spell(token)[:gram] + "…"},
		{"credential", "lk_" + spell(random("another", 32))}:    {"Bearer lk_" + spell(random("another", 32))},
		{"credential", "e30.e30." + spell(random("a JWT", 64))}: {"e30.e30." + spell(random("a JWT", 64)), spell(random("a JWT", 64))},
		{"credential", "dXNlcjp0aGUgcGFzc3dvcmQ="}:              {"Basic dXNlcjp0aGUgcGFzc3dvcmQ="},
		{"key", `a "key"/with a ü and & in it`}:                 {`key=a+%22key%22%2Fwith+a+%C3%BC+and+%26+in+it`, `{"k":"a \"key\"/with a ü and \u0026 in it"}`},
		{"key", "0123456789abcdef"}:                             {"0123456789abcdef", "(MDEyMzQ1Njc4OWFiY2RlZg==)", "xMDEyMzQ1Njc4OWFiY2RlZg"},
		{"key", "retry 1 of the same beginning"}:                {"retry 1 of the same beginning"},
		{"key", "retry 1 of the same beginning too"}:            {"retry 1 of the same beginning too"},
		{"secret of the store", string(secretOfStore)}:          {string(secretOfStore), fmt.Sprintf("%x", secretOfStore)},
	}
	s := newSearcher()
	for secret := range planted {
		if !s.add(secret) {
			t.Errorf("%s %q is not looked for", secret.kind, secret.text)
		}
	}
	for secret, texts := range planted {
		for _, text := range append(texts, waysToTell(secret.kind, secret.text)...) {
			var found []secretTold
			s.search([]byte("time=1 msg=\"before "+text+" after\""), func(i, _ int) { found = append(found, s.secrets[i]) })
			if !slices.Contains(found, secret) {
				t.Errorf("%s %q is not found in %q", secret.kind, secret.text, text)
			}
		}
	}
	// nonces and names are in etcd's keys
	for _, text := range []string{id[:4*sealBegin/3], hex.EncodeToString(lock[:sealBegin]), "a/name", lease[:leaseSealBegin], "retry 2 of the same beginning", ""} {
		s.search([]byte(text), func(i, _ int) { t.Errorf("%s %q is found in %q", s.secrets[i].kind, s.secrets[i].text, text) })
	}
	for _, plain := range []string{"too short", "aaaaaaaaaaaaaaaaaaaaaaaa"} {
		if s.add(secretTold{"key", plain}) {
			t.Errorf("%q is looked for", plain)
		}
	}
}
