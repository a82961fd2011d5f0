package store

import (
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// keyRange is a range of keys, to not among them.
type keyRange struct {
	from, to string
	// name is the first that can be in it.
	name string
}

// rangesOf turns ranges of names into ranges of keys, in order and without overlaps.
func (k keys) rangesOf(names []Names) []keyRange {
	ranges := make([]keyRange, 0, len(names))
	for _, n := range names {
		if n.Exact != "" {
			ranges = append(ranges, keyRange{k.queue(n.Exact), k.queueEnd(n.Exact), n.Exact})
			continue
		}
		begin := k.locks() + n.Begins
		ranges = append(ranges, keyRange{begin, clientv3.GetPrefixRangeEnd(begin), n.Begins})
	}
	slices.SortFunc(ranges, func(a, b keyRange) int { return strings.Compare(a.from, b.from) })
	merged := ranges[:0]
	for _, r := range ranges {
		if last := len(merged) - 1; last >= 0 && r.from <= merged[last].to {
			merged[last].to = max(merged[last].to, r.to)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// clip is what of the ranges lies in whole.
func clip(whole keyRange, ranges []keyRange) []keyRange {
	var inside []keyRange
	for _, r := range ranges {
		r.from, r.to = max(r.from, whole.from), min(r.to, whole.to)
		if r.from < r.to {
			inside = append(inside, r)
		}
	}
	return inside
}
