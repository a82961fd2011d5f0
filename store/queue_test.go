package store

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQueueIsTheClaimsInOrder compares the view with a plain sorted list through random puts and removals.
func TestQueueIsTheClaimsInOrder(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		q := newQueue(nil, 0)
		plain := map[string]int64{}
		for revision := int64(1); revision < 300; revision++ {
			key := string(rune('a' + rnd.IntN(20)))
			if _, stands := plain[key]; stands && rnd.IntN(2) == 0 {
				q.remove(key)
				delete(plain, key)
			} else {
				created := revision
				if stands && rnd.IntN(2) == 0 {
					created = plain[key] // written again: it keeps its place
				}
				q.put(standing{key: key, created: created, modified: revision})
				plain[key] = created
			}
			checkQueue(t, &q, plain, seed)
		}
	}
}

func checkQueue(t *testing.T, q *queue, plain map[string]int64, seed uint64) {
	t.Helper()
	want := make([]int64, 0, len(plain))
	for _, created := range plain {
		want = append(want, created)
	}
	slices.Sort(want)
	got := make([]int64, 0, len(q.order))
	for _, st := range q.order {
		got = append(got, st.created)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("seed %d: got %v, want %v", seed, got, want)
	}
	for key, created := range plain {
		n, ok := q.ahead(key, created)
		if at, _ := slices.BinarySearch(want, created); !ok || n != at {
			t.Fatalf("seed %d: ahead of %s: got %d, %v, want %d", seed, key, n, ok, at)
		}
		if _, ok := q.ahead(key, created+1_000_000); ok {
			t.Fatalf("seed %d: a later claim of the same key is taken for this one", seed)
		}
	}
	if h := q.head(); len(want) > 0 && h.created != want[0] || len(want) == 0 && h != nil {
		t.Fatalf("seed %d: head %+v, want %v", seed, h, want)
	}
}
