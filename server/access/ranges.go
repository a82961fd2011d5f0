package access

import (
	"cmp"
	"slices"
	"strings"
)

// Range is one name, or all names that begin with the same bytes.
type Range struct {
	Text string
	// Begins says that the range is of all names that begin with Text (with an empty one: of every name); else it is of the
	// one name Text.
	Begins bool
}

// Holds says whether name is in the range.
func (r Range) Holds(name string) bool {
	if r.Begins {
		return strings.HasPrefix(name, r.Text)
	}
	return name == r.Text
}

// apart returns the same names as ranges that share none, in the order of their names.
func apart(ranges []Range) []Range {
	slices.SortFunc(ranges, func(a, b Range) int {
		if by := strings.Compare(a.Text, b.Text); by != 0 {
			return by
		}
		return cmp.Compare(width(a), width(b))
	})
	var kept []Range
	for _, r := range ranges {
		// whatever holds r begins with the same bytes, so nothing that stands between the two is outside it
		if last := len(kept) - 1; last < 0 || !kept[last].Holds(r.Text) {
			kept = append(kept, r)
		}
	}
	return kept
}

// width puts the wider of two ranges of one text first.
func width(r Range) int {
	if r.Begins {
		return 0
	}
	return 1
}
