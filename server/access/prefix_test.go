package access

import (
	"slices"
	"strings"
	"testing"
)

func TestPrefixCovers(t *testing.T) {
	for _, tt := range []struct {
		prefix      Prefix
		covers, not []string
	}{
		{"team-a",
			[]string{"team-a", "team-a/", "team-a/x", "team-a/../team-b", "team-a//", "team-a/\x00"},
			[]string{"", "team", "team-", "team-ab", "team-ab/x", "team-b", "Team-a", "team-a\x00", "team-a\x00/x", "/team-a", "x/team-a", "./team-a", "team-a.", "team-a%2Fx"}},
		{"team-a/",
			[]string{"team-a/", "team-a/x", "team-a/../team-b"},
			[]string{"team-a", "team-ab/x", ""}},
		{"team-*",
			[]string{"team-", "team-a", "team-ab/x", "team-*"},
			[]string{"team", "xteam-a", ""}},
		{"team-a/*",
			[]string{"team-a/", "team-a/x"},
			[]string{"team-a", "team-ab"}},
		{"*", []string{"", "a", "*", "\x00", "a/b"}, nil},
		{"/", []string{"/", "/a"}, []string{"", "a", "a/"}},
		{"..", []string{"..", "../a"}, []string{"a", "", ".", "..a"}},
		{"", nil, []string{"", "/", "/a", "a"}},
	} {
		for _, name := range tt.covers {
			if !tt.prefix.Covers(name) {
				t.Errorf("%q does not cover %q", tt.prefix, name)
			}
		}
		for _, name := range tt.not {
			if tt.prefix.Covers(name) {
				t.Errorf("%q covers %q", tt.prefix, name)
			}
		}
	}
}

func TestParsePrefix(t *testing.T) {
	for _, good := range []string{"a", "*", "a*", "a/", "a/*", "..", "a b", "夜", strings.Repeat("x", MaxPrefix-1) + "*"} {
		if got, err := ParsePrefix(good); err != nil || string(got) != good {
			t.Errorf("%q: got %q, %v", good, got, err)
		}
	}
	for _, bad := range []string{"", "**", "*a", "a*b", "a*/", "a\x00", "a\n", "\x7f", "\u0085", "a\xff", strings.Repeat("x", MaxPrefix+1)} {
		if got, err := ParsePrefix(bad); err == nil || got != "" {
			t.Errorf("%q: got %q", bad, got)
		}
	}
}

func TestRightsOfGrants(t *testing.T) {
	p := &Principal{grants: []grant{
		{"a", Lock}, {"b", Read}, {"c", Admin.whole()}, {"d", Lock}, {"d/x", Read},
	}}
	for _, tt := range []struct {
		name string
		may  []Right
	}{
		{"a", []Right{Lock}}, {"b/x", []Right{Read}}, {"c", []Right{Admin, Read}}, {"d", []Right{Lock}},
		{"d/x", []Right{Lock, Read}}, {"e", nil}, {"", nil},
	} {
		for _, right := range []Right{Lock, Read, Admin} {
			if got, want := p.May(right, tt.name), slices.Contains(tt.may, right); got != want {
				t.Errorf("%v of %q: got %t", right, tt.name, got)
			}
		}
		if p.May(0, tt.name) {
			t.Errorf("no right at all is granted for %q", tt.name)
		}
	}
	if got, want := p.Prefixes(Read), []Prefix{"b", "c", "d/x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Lock.String()+Read.String()+Admin.String()+(Lock|Read).String(), "lockreadadminunknown"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRangesShareNoName(t *testing.T) {
	for _, tt := range []struct {
		prefixes []Prefix
		want     []Range
	}{
		{nil, nil},
		{[]Prefix{"a", "a"}, []Range{{"a", false}, {"a/", true}}},
		{[]Prefix{"a", "a/x"}, []Range{{"a", false}, {"a/", true}}},
		{[]Prefix{"a/x", "a/"}, []Range{{"a/", true}}},
		{[]Prefix{"b", "a*", "a", "ab/"}, []Range{{"a", true}, {"b", false}, {"b/", true}}},
		{[]Prefix{"z", "*", ""}, []Range{{"", true}}},
		{[]Prefix{"a/b", "a!"}, []Range{{"a!", false}, {"a!/", true}, {"a/b", false}, {"a/b/", true}}},
	} {
		p := &Principal{}
		for _, prefix := range tt.prefixes {
			p.grants = append(p.grants, grant{prefix, Read})
		}
		if got := p.Ranges(Read); !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %+v, want %+v", tt.prefixes, got, tt.want)
		}
	}
}

// FuzzPrefix: what may be asked for by name is what is listed, each name once and in order.
func FuzzPrefix(f *testing.F) {
	for _, seed := range [][3]string{
		{"team-a", "team-ab", "team-ab/x"}, {"team-a", "team-a/", "team-a/../team-b"}, {"", "*", ""}, {"a\x00", "a", "a\x00/"},
		{"a*", "a/", "a"}, {"a/b", "a!", "a!/b"}, {"\xff*", "\xff", "\xff/"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, first, second, name string) {
		holding := func(ranges []Range) (count int) {
			for _, r := range ranges {
				if r.Holds(name) {
					count++
				}
			}
			return count
		}
		covered := false
		for _, prefix := range []Prefix{Prefix(first), Prefix(second)} {
			covers, held := prefix.Covers(name), holding(prefix.Ranges())
			if held > 1 || covers != (held == 1) {
				t.Errorf("%q covers %q: %t, and is in %d of its ranges %+v", prefix, name, covers, held, prefix.Ranges())
			}
			covered = covered || covers
		}
		p := &Principal{grants: []grant{{Prefix(first), Read}, {Prefix(second), Read | Lock}}}
		ranges := p.Ranges(Read)
		if held := holding(ranges); held > 1 || covered != (held == 1) || covered != p.May(Read, name) {
			t.Errorf("%q and %q cover %q: %t, and it is in %d of %+v", first, second, name, covered, held, ranges)
		}
		if !slices.IsSortedFunc(ranges, func(a, b Range) int { return strings.Compare(a.Text, b.Text) }) {
			t.Errorf("%+v are not in order", ranges)
		}
	})
}
