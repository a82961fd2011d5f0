package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	wholeNumber = "a whole number, written without fraction or exponent"
	// maxDepth is more than the contract has.
	maxDepth = 4
)

// readJSON reads one JSON value more strictly than encoding/json does: no invalid UTF-8, no text after it, no name
// twice in an object, no half of a surrogate pair, only whole numbers. It goes on after a fault where it can, and
// returns false where it cannot.
func readJSON(text []byte, found *faults) (any, bool) {
	if value, ok := plainJSON(text); ok {
		return value, true
	}
	return readAnyJSON(text, found)
}

func readAnyJSON(text []byte, found *faults) (any, bool) {
	if !utf8.Valid(text) {
		found.body(nil, "must be valid UTF-8")
		return nil, false
	}
	var raw json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		found.body(nil, "must be one JSON object and nothing else: "+whereBroken(err))
		return nil, false
	}
	reader := jsonReader{text: text, dec: json.NewDecoder(bytes.NewReader(text)), found: found}
	reader.dec.UseNumber()
	return reader.value(nil)
}

func whereBroken(err error) string {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("it breaks off at byte %d", syntax.Offset)
	}
	return "it cannot be read"
}

// jsonReader walks over valid JSON.
type jsonReader struct {
	text  []byte
	dec   *json.Decoder
	found *faults
}

func (r *jsonReader) value(at []string) (any, bool) {
	if len(at) > maxDepth {
		r.found.body(at[:1], "is nested too deep")
		return nil, false
	}
	token, raw := r.next()
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return r.object(at)
		}
		return r.array(at)
	case json.Number:
		number, ok := integer(token.String())
		if !ok {
			r.found.body(at, "must be "+wholeNumber)
		}
		return number, true
	case string:
		r.checkSurrogates(at, raw)
		return token, true
	default:
		return token, true
	}
}

func (r *jsonReader) object(at []string) (any, bool) {
	object := map[string]any{}
	for r.dec.More() {
		token, raw := r.next()
		name := token.(string)
		here := append(at[:len(at):len(at)], name)
		r.checkSurrogates(here, raw)
		if _, ok := object[name]; ok {
			r.found.body(here, "must be given once")
		}
		value, ok := r.value(here)
		if !ok {
			return nil, false
		}
		object[name] = value
	}
	r.next()
	return object, true
}

func (r *jsonReader) array(at []string) (any, bool) {
	array := []any{}
	for r.dec.More() {
		value, ok := r.value(append(at[:len(at):len(at)], strconv.Itoa(len(array))))
		if !ok {
			return nil, false
		}
		array = append(array, value)
	}
	r.next()
	return array, true
}

// next returns the next token, and the text it was read from with what stands before it. The text is valid, so there is
// a token.
func (r *jsonReader) next() (json.Token, []byte) {
	start := r.dec.InputOffset()
	token, err := r.dec.Token()
	if err != nil {
		panic(fmt.Errorf("valid JSON has no next token: %w", err))
	}
	return token, r.text[start:r.dec.InputOffset()]
}

func (r *jsonReader) checkSurrogates(at []string, raw []byte) {
	if hasLoneSurrogate(raw) {
		r.found.body(at, "must not hold half of a surrogate pair")
	}
}

// hasLoneSurrogate looks at the escapes of a JSON string.
func hasLoneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		first := escapedRune(raw[i:])
		i++ // whatever is escaped is no beginning of another escape
		if !utf16.IsSurrogate(first) {
			continue
		}
		second := escapedRune(raw[i+5:])
		if utf16.DecodeRune(first, second) == utf8.RuneError {
			return true
		}
		i += 10
	}
	return false
}

// escapedRune reads the \uXXXX that text begins with, or returns 0.
func escapedRune(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	code, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(code)
}

// integer reads the one spelling that an integer has.
func integer(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}
