package server

import "unicode/utf8"

// What plainJSON reads: more is read in the long way, and so is whatever is at fault.
const (
	// maxPlain also bounds what the strings of a request keep of its text.
	maxPlain      = 1 << 10
	maxPlainDepth = 2
	// maxPlainDigits are those of a number that surely fits.
	maxPlainDigits = 18
)

// plainJSON reads the JSON that clients mostly send in one pass: objects in an object, strings without escapes, whole
// numbers, true and false. What it reads is what readJSON reads otherwise, without a fault; it returns false where it
// does not know.
func plainJSON(text []byte) (any, bool) {
	if len(text) > maxPlain || !utf8.Valid(text) {
		return nil, false
	}
	r := plainReader{text: string(text)}
	r.blanks()
	object, ok := r.object(1)
	r.blanks()
	return object, ok && r.at == len(r.text)
}

type plainReader struct {
	text string
	at   int
}

func (r *plainReader) object(depth int) (map[string]any, bool) {
	if depth > maxPlainDepth || !r.take('{') {
		return nil, false
	}
	object := map[string]any{}
	r.blanks()
	if r.take('}') {
		return object, true
	}
	for {
		r.blanks()
		name, ok := r.string()
		if _, again := object[name]; !ok || again {
			return nil, false
		}
		r.blanks()
		if !r.take(':') {
			return nil, false
		}
		r.blanks()
		if object[name], ok = r.value(depth); !ok {
			return nil, false
		}
		r.blanks()
		if !r.take(',') {
			return object, r.take('}')
		}
	}
}

func (r *plainReader) value(depth int) (any, bool) {
	switch r.peek() {
	case '"':
		return r.string()
	case '{':
		return r.object(depth + 1)
	case 't':
		return true, r.word("true")
	case 'f':
		return false, r.word("false")
	}
	return r.number()
}

// string reads one whose text is its value.
func (r *plainReader) string() (string, bool) {
	if !r.take('"') {
		return "", false
	}
	for start := r.at; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return r.text[start : r.at-1], true
		case c == '\\', c < ' ':
			return "", false
		}
	}
	return "", false
}

// number leaves alone what is no number, and stops before a fraction or an exponent: there no comma or bracket follows.
func (r *plainReader) number() (int64, bool) {
	start := r.at
	r.take('-')
	first := r.at
	for c := r.peek(); '0' <= c && c <= '9'; c = r.peek() {
		r.at++
	}
	if r.at-first > maxPlainDigits {
		return 0, false
	}
	return integer(r.text[start:r.at])
}

func (r *plainReader) word(word string) bool {
	for i := range len(word) {
		if !r.take(word[i]) {
			return false
		}
	}
	return true
}

func (r *plainReader) blanks() {
	for c := r.peek(); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = r.peek() {
		r.at++
	}
}

func (r *plainReader) take(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.at++
	return true
}

// peek returns the next byte; at the end NUL, which is nowhere plain.
func (r *plainReader) peek() byte {
	if r.at == len(r.text) {
		return 0
	}
	return r.text[r.at]
}
