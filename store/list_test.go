package store

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func listAll(t testing.TB, s *Store, f Filter) (all []Lock, pages int) {
	t.Helper()
	for {
		p, err := s.List(ctxFor(t), f)
		if err != nil {
			t.Fatalf("list %+v: %v", f, err)
		}
		if len(p.Locks) > f.Limit {
			t.Fatalf("a page of %d has %d locks", f.Limit, len(p.Locks))
		}
		all = append(all, p.Locks...)
		pages++
		if f.Cursor = p.Next; p.Next == "" {
			return all, pages
		}
	}
}

func TestListPagesByNameThenQueue(t *testing.T) {
	a, b := pair(t)
	names := []string{"a", "a/b", "ab", "b"}
	var want []string
	for i, name := range names {
		mustHold(t, a, Claim{Name: name})
		want = append(want, fmt.Sprint(name, 0, Held))
		for n := range i * 3 {
			enqueue(t, []*Store{a, b}[n%2], Claim{Name: name})
			want = append(want, fmt.Sprint(name, n+1, Queued))
		}
	}
	for _, limit := range []int{1, 2, 3, 5, 100, MaxLimit} {
		all, pages := listAll(t, b, Filter{Limit: limit})
		var got []string
		for _, l := range all {
			got = append(got, fmt.Sprint(l.Name, l.Position, l.State))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("limit %d, %d pages: got %v, want %v", limit, pages, got, want)
		}
	}
	held := Held
	if all, _ := listAll(t, a, Filter{State: &held, Limit: 2}); len(all) != len(names) {
		t.Errorf("held: got %d, want %d", len(all), len(names))
	}
	if all, _ := listAll(t, a, Filter{Prefix: "a", Limit: 2}); len(all) != 1+4+7 {
		t.Errorf("prefix a: got %d, want 12", len(all))
	}
	if all, _ := listAll(t, a, Filter{Name: "a", Limit: 2}); len(all) != 1 {
		t.Errorf("name a: got %d, want 1", len(all))
	}
}

func TestListShowsAStandingClaimOnceWhileOthersComeAndGo(t *testing.T) {
	a, _ := pair(t)
	const standingClaims = 30
	want := map[string]bool{}
	for i := range standingClaims {
		want[mustHold(t, a, Claim{Name: fmt.Sprintf("s%02d", i)}).ID] = true
	}
	got := map[string]int{}
	f := Filter{Limit: 3}
	for i := 0; ; i++ {
		p, err := a.List(ctxFor(t), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range p.Locks {
			got[l.ID]++
		}
		passing := mustHold(t, a, Claim{Name: fmt.Sprintf("s%02d+", i)})
		if i%2 == 0 {
			mustRelease(t, a, passing)
		}
		if f.Cursor = p.Next; p.Next == "" {
			break
		}
	}
	for id := range want {
		if got[id] != 1 {
			t.Errorf("a claim that stood throughout was listed %d times", got[id])
		}
	}
}

func TestListRefusesWhatItCannotRead(t *testing.T) {
	a, _ := pair(t)
	mustHold(t, a, Claim{Name: "x"})
	for _, limit := range []int{0, -1, MaxLimit + 1} {
		var bad *InputError
		if _, err := a.List(ctxFor(t), Filter{Limit: limit}); !errors.As(err, &bad) || bad.Field != "Limit" {
			t.Errorf("limit %d: got %v", limit, err)
		}
	}
	for _, c := range []string{"x", "AAAA", cursor{"other", 1}.String(), cursor{"x", 1}.String() + "="} {
		_, err := a.List(ctxFor(t), Filter{Name: "x", Limit: 10, Cursor: c})
		wantErr(t, "cursor "+c, err, ErrBadCursor)
	}
}

func TestQueueAndReplicaHaveBounds(t *testing.T) {
	etcd := shared(t)
	a := open(t, etcd, func(c *Config) { c.MaxQueue = 2; c.MaxWaiters = 4 })
	b := open(t, etcd, func(c *Config) { c.MaxQueue = 2 })
	held := mustHold(t, a, Claim{Name: "x"})
	for range 2 {
		enqueue(t, a, Claim{Name: "x"})
	}
	// a watches the name, b does not yet: both count.
	for _, s := range []*Store{a, b, b} {
		_, err := s.Claim(ctxFor(t), Claim{Name: "x", TTL: 30 * time.Second, Queue: true})
		wantErr(t, "one more than the queue may have", err, ErrTooManyWaiters)
	}
	queuedUp(t, a, "x", 3)
	mustHold(t, a, Claim{Name: "y"})
	for range 2 {
		enqueue(t, a, Claim{Name: "y"})
	}
	mustHold(t, a, Claim{Name: "z"})
	_, err := a.Claim(ctxFor(t), Claim{Name: "z", TTL: 30 * time.Second, Queue: true})
	wantErr(t, "one more than the replica may serve", err, ErrOverloaded)
	enqueue(t, b, Claim{Name: "z"})
	mustRelease(t, a, held)
}
