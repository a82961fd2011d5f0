package access

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPrefix is how long a prefix may be, in bytes: the longest name and a star.
const MaxPrefix = 255 + 1

// Prefix says for which names a grant is. All is byte for byte: nothing is cleaned, folded or decoded.
//
//	team-a    the name team-a and what is below it, as team-a/x and team-a/../x, but not team-ab
//	team-a/   what begins with team-a/, so not team-a itself
//	team-*    what begins with team-
//	*         every name
//
// The empty prefix is for no name.
type Prefix string

// everything is the prefix of every name.
const everything Prefix = "*"

// ParsePrefix refuses what could match no name and what looks like a pattern of another kind: a prefix must be 1 to
// MaxPrefix bytes of UTF-8 without control characters (U+0000 to U+001F, U+007F to U+009F), and may have a star at its end
// only. The error does not repeat the text.
func ParsePrefix(text string) (Prefix, error) {
	switch {
	case text == "" || len(text) > MaxPrefix || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "", fmt.Errorf("must be 1 to %d bytes of UTF-8 without control characters", MaxPrefix)
	case strings.Contains(text[:len(text)-1], "*"):
		return "", errors.New("may have a star only at its end")
	}
	return Prefix(text), nil
}

// Covers says whether name is one of those that the prefix is for.
func (p Prefix) Covers(name string) bool {
	if begins, star := strings.CutSuffix(string(p), "*"); star {
		return strings.HasPrefix(name, begins)
	}
	below, under := strings.CutPrefix(name, string(p))
	switch {
	case p == "" || !under:
		return false
	case p[len(p)-1] == '/':
		return true
	}
	return below == "" || below[0] == '/'
}

// Ranges are the names that the prefix covers, as a list can walk them: one range or two that share no name, in the order of
// their names; none for the empty prefix.
func (p Prefix) Ranges() []Range {
	text := string(p)
	if begins, star := strings.CutSuffix(text, "*"); star {
		return []Range{{begins, true}}
	}
	switch {
	case text == "":
		return nil
	case strings.HasSuffix(text, "/"):
		return []Range{{text, true}}
	}
	return []Range{{text, false}, {text + "/", true}}
}
