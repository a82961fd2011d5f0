package server

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// What the reader lets pass without a fault means the same to encoding/json, field for field, so that no two readers of
// one request can disagree.
func FuzzReadJSON(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","ttl_seconds":30}`, `{"a":{"b":[1,true,null,"\ud83d\ude00"]}}`, `{"a":1,"\u0061":2}`, `[1e1]`, `"\ud800"`,
		`"\\ud800"`, `{"a":-0}`, "\xef\xbb\xbf{}", `{}x`, `"\ud800\udc00\udc00"`, `[[[[[[]]]]]]`, "\"\xff\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var found faults
		got, ok := readJSON(text, &found)
		if !ok && found.err() == nil {
			t.Fatal("refused without a fault")
		}
		if found.err() != nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("passed, and is not JSON: %v", err)
		}
		if want = wholeNumbers(t, want); !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, encoding/json %#v", got, want)
		}
		again, _ := json.Marshal(got)
		if bytes.Contains(again, []byte(`\ufffd`)) && !bytes.ContainsRune(text, utf8.RuneError) &&
			!strings.Contains(strings.ToLower(string(text)), `\ufffd`) {
			t.Errorf("something became U+FFFD: %s", text)
		}
	})
}

func wholeNumbers(t *testing.T, value any) any {
	switch value := value.(type) {
	case json.Number:
		n, err := value.Int64()
		if err != nil {
			t.Errorf("passed, and is no integer: %s", value)
		}
		return n
	case map[string]any:
		for k, v := range value {
			value[k] = wholeNumbers(t, v)
		}
	case []any:
		for i, v := range value {
			value[i] = wholeNumbers(t, v)
		}
	}
	return value
}

func TestSurrogates(t *testing.T) {
	for text, want := range map[string]bool{
		`"\ud83d\ude00"`: false, `"\\ud800"`: false, `"\\\ud800"`: true, `"\ud83d"`: true, `"\ude00\ud83d"`: true,
		`"\ud83d\ud83d\ude00"`: true, `"\ud83dx"`: true, `"\ud83d\n"`: true, `"é"`: false, `"\uFFFD"`: false,
	} {
		if got := hasLoneSurrogate([]byte(text)); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}
