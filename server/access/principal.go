package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is how long the name of a principal in the auth file may be, in bytes.
const MaxName = 128

// jwtMark begins the names of principals by JWT, and so none of the file.
const jwtMark = "jwt:"

// Principal is somebody who may send requests. It never changes: after a reload others take its place, and a request under
// way keeps the one that it began with.
type Principal struct {
	// Name is that of the auth file, or "jwt:" and the principal claim of a JWT; empty for everybody, where nobody is asked.
	Name   string
	grants []grant
}

type grant struct {
	prefix Prefix
	rights Right
}

var anyone = &Principal{grants: []grant{{everything, Lock | Read | Admin}}}

// Anyone is the principal of every request where there is no authentication: it may do everything.
func Anyone() *Principal { return anyone }

// CheckName refuses what cannot be the name of a principal: it must be 1 to MaxName bytes of printable UTF-8 without a colon,
// which is for the names of principals by JWT. The error does not repeat the name.
func CheckName(name string) error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case name == "" || len(name) > MaxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable):
		return fmt.Errorf("must be 1 to %d bytes of printable UTF-8", MaxName)
	case strings.Contains(name, ":"):
		return errors.New("must not contain a colon")
	}
	return nil
}

// May says whether one of the principal's grants gives the right for the name.
func (p *Principal) May(right Right, name string) bool {
	for _, g := range p.grants {
		if g.gives(right) && g.prefix.Covers(name) {
			return true
		}
	}
	return false
}

// Prefixes are those for which the principal has the right, sorted, each once.
func (p *Principal) Prefixes(right Right) []Prefix {
	var list []Prefix
	for _, g := range p.grants {
		if g.gives(right) {
			list = append(list, g.prefix)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Ranges are the names for which the principal has the right, as a list can walk them: no name is in two of them, and they
// are in the order of their names.
func (p *Principal) Ranges(right Right) []Range {
	var list []Range
	for _, prefix := range p.Prefixes(right) {
		list = append(list, prefix.Ranges()...)
	}
	return apart(list)
}

func (g grant) gives(right Right) bool { return right != 0 && g.rights&right == right }
