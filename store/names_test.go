package store

import (
	"fmt"
	"strings"
	"testing"
)

// TestListWithinRangesOfNames lists what several ranges hold, which overlap and touch, page by page.
func TestListWithinRangesOfNames(t *testing.T) {
	a, b := pair(t)
	names := []string{"team-a", "team-a!", "team-a/1", "team-a/2", "team-a0", "team-ab/x", "team-b", "team-b/1", "z"}
	for _, name := range names {
		mustHold(t, a, Claim{Name: name})
	}
	ofA := []Names{{Begins: "team-a/"}, {Exact: "team-a"}}
	many := []Names{{Exact: "team-a"}}
	for i := range 3 * emptyReads {
		many = append(many, Names{Begins: fmt.Sprintf("team-a%%%d/", i)})
	}
	for what, test := range map[string]struct {
		filter Filter
		want   string
	}{
		"one team's":          {Filter{Within: ofA}, "team-a team-a/1 team-a/2"},
		"two teams'":          {Filter{Within: append(ofA, Names{Begins: "team-b"})}, "team-a team-a/1 team-a/2 team-b team-b/1"},
		"overlapping":         {Filter{Within: append(ofA, Names{Begins: "team-a"}, Names{Begins: "team-a/1"})}, "team-a team-a! team-a/1 team-a/2 team-a0 team-ab/x"},
		"of a prefix":         {Filter{Prefix: "team-a/", Within: ofA}, "team-a/1 team-a/2"},
		"of a shorter prefix": {Filter{Prefix: "team", Within: ofA}, "team-a team-a/1 team-a/2"},
		"of a name":           {Filter{Name: "team-a/2", Within: ofA}, "team-a/2"},
		"of another's name":   {Filter{Name: "team-ab/x", Within: ofA}, ""},
		"of another's prefix": {Filter{Prefix: "team-b", Within: ofA}, ""},
		"of nothing":          {Filter{Within: []Names{}}, ""},
		"everything":          {Filter{Within: []Names{{Begins: ""}}}, strings.Join(names, " ")},
		"many that are empty": {Filter{Within: append(many, Names{Exact: "z"})}, "team-a z"},
	} {
		for _, limit := range []int{1, 2, 100} {
			test.filter.Limit = limit
			all, _ := listAll(t, b, test.filter)
			var got []string
			for _, l := range all {
				got = append(got, l.Name)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("%s, limit %d: got %q, want %q", what, limit, got, test.want)
			}
			if overlaps := test.filter.Overlaps(); !overlaps && len(got) > 0 {
				t.Errorf("%s: nothing of it can be listed, but %q were", what, got)
			}
		}
	}
}
