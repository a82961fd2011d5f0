package server

import (
	"reflect"
	"strings"
	"testing"
)

// The short way never says anything else than the long one.
func FuzzPlainJSON(f *testing.F) {
	for _, seed := range []string{
		`{"name":"orders/42","ttl_seconds":30}`, ` { "a" : -7 , "b" : { "c" : "ü" } , "d":true,"e":false}` + "\r\n\t", `{}`, `{"a":{}}`,
		`{"a":1,"a":1}`, `{"a":-0}`, `{"a":01}`, `{"a":1.0}`, `{"a":1e1}`, `{"a":-}`, `{"a":}`, `{"a"}`, `{,}`, `{"a":1,}`, `{"a":1}{}`, `{"a":1}x`,
		`{"a":{"b":{"c":1}}}`, `{"a":null}`, `{"a":[1]}`, `{"a":"\n"}`, "{\"a\":\"\n\"}", "{\"a\":\"\x00\"}", "{\"\xff\":1}", `"a"`, `1`, ``, `{"a":tru}`,
		`{"a":999999999999999999}`, `{"a":-9223372036854775808}`, `{"a":9223372036854775808}`, "{\"a\":1\x00}", "\x00", "{\x00}", "\xef\xbb\xbf{}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := plainJSON(text)
		if !ok {
			return
		}
		var found faults
		want, ok := readAnyJSON(text, &found)
		if !ok || found.err() != nil {
			t.Fatalf("%q: passed, and is at fault: %+v", text, found.list)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v, want %#v", text, got, want)
		}
	})
}

// What clients send is read in the short way, else it would be there for nothing.
func TestWhatClientsSendIsPlain(t *testing.T) {
	for text, plain := range map[string]bool{
		`{"name":"orders/42","ttl_seconds":30}`: true,
		"{\n  \"name\": \"Zoë\",\n  \"wait_seconds\": 20,\n  \"queue\": true,\n  \"holder\": \"w\",\n  \"metadata\": {\"host\": \"web-3\"}\n}\n": true,
		`{}`:         true,
		`{"a":"\n"}`: false,
		`{"a":null}`: false,
		`{"a":"` + strings.Repeat("b", maxPlain) + `"}`: false,
	} {
		if _, ok := plainJSON([]byte(text)); ok != plain {
			t.Errorf("%s: plain is %v", text, ok)
		}
	}
}
