package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store"
)

// book is a store of which a test knows what stands in it: the claims by their handles, and which ids are gone.
type book struct {
	fakeStore
	stand map[string]store.Found
	over  map[string]bool
	// asked counts the ids that were asked for.
	asked int
}

func newBook(t *testing.T) *book {
	b := &book{stand: map[string]store.Found{}, over: map[string]bool{}}
	b.t = t
	b.gone = func(_ context.Context, ids []string) (over []string, err error) {
		b.asked += len(ids)
		for _, id := range ids {
			if b.over[id] {
				over = append(over, id)
			}
		}
		return over, nil
	}
	b.find = func(_ context.Context, claims []store.Claim) ([]store.Found, error) {
		found := make([]store.Found, len(claims))
		for i, c := range claims {
			found[i] = b.stand[handle(c)]
		}
		return found, nil
	}
	return b
}

// lookAnew lets a principal be looked at again at once, and those under way be asked for.
func lookAnew(t *tally, who string) {
	h := t.holdings(who)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looked = time.Now().Add(-2 * lookAgainAfter)
}

// hold has n claims made here.
func hold(t *testing.T, tally *tally, who, as string, n int) {
	t.Helper()
	for i := range n {
		if err := holdWith(t, tally, who, fmt.Sprint(as, i), store.Claim{Name: as}); err != nil {
			t.Fatalf("claim %d of %s: %v", i, who, err)
		}
	}
}

func wantClaims(t *testing.T, what string, tally *tally, who string, want int) {
	t.Helper()
	if got, _ := tally.holdings(who).now(); got != want {
		t.Errorf("%s: %d claims count, want %d", what, got, want)
	}
}

// TestWhatOthersToldCounts, of claims and of leases, and of nobody else.
func TestWhatOthersToldCounts(t *testing.T) {
	b := newBook(t)
	b.others = []store.Word{{"one": {3, 1}}, nil, {"one": {2, 0}, "two": {0, 5}}}
	tally := &tally{mostClaims: 8, mostLeases: 2, store: b}
	hold(t, tally, "one", "a", 3)
	if err := holdWith(t, tally, "one", "more", store.Claim{Name: "a"}); err == nil {
		t.Error("a ninth claim was let through")
	}
	hold(t, tally, "three", "a", 8)
	settle, err := tally.lease(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	settle(store.Lease{ID: "lease"}, nil)
	if _, err := tally.lease(t.Context(), "one"); err == nil {
		t.Error("a third lease was let through")
	}
	if _, err := tally.lease(t.Context(), "two"); err == nil {
		t.Error("of who has more than enough elsewhere a lease was let through")
	}
	b.others = nil
	hold(t, tally, "one", "b", 5)
}

// TestAClaimCountsWhereItWasMade, whoever repeats it where, and whatever its repeats come to.
func TestAClaimCountsWhereItWasMade(t *testing.T) {
	const who = "one"
	keyed := store.Claim{Name: "a", Key: "its key"}
	held := func(id string, replayed, here bool) store.Lock {
		return store.Lock{ID: id, TTL: time.Minute, Replayed: replayed, Here: here}
	}
	begin := func(t *testing.T, tally *tally, c store.Claim) func(store.Lock, error) {
		t.Helper()
		settle, err := tally.claim(t.Context(), who, c)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		return settle
	}
	for name, play := range map[string]func(*testing.T, *tally, *book){
		"elsewhere": func(t *testing.T, tally *tally, _ *book) {
			begin(t, tally, keyed)(held("x", true, false), nil)
			wantClaims(t, "after it", tally, who, 0)
		},
		"here and forgotten": func(t *testing.T, tally *tally, _ *book) {
			begin(t, tally, keyed)(held("x", true, true), nil)
			wantClaims(t, "after it", tally, who, 1)
		},
		"elsewhere, after one made here has ended": func(t *testing.T, tally *tally, _ *book) {
			begin(t, tally, keyed)(held("x", false, true), nil)
			begin(t, tally, keyed)(held("y", true, false), nil)
			wantClaims(t, "after it", tally, who, 0)
		},
		"elsewhere, while many wait": func(t *testing.T, tally *tally, b *book) {
			first, second := begin(t, tally, keyed), begin(t, tally, keyed)
			wantClaims(t, "before a look", tally, who, 1)
			b.stand[handle(keyed)] = store.Found{ID: "x"}
			lookAnew(tally, who)
			tally.holdings(who).look(t.Context(), b, 0)
			wantClaims(t, "after a look", tally, who, 0)
			first(store.Lock{}, store.ErrDraining)
			second(held("x", true, false), nil)
			wantClaims(t, "after both", tally, who, 0)
		},
		"here, while many wait": func(t *testing.T, tally *tally, b *book) {
			first, second := begin(t, tally, keyed), begin(t, tally, keyed)
			b.stand[handle(keyed)] = store.Found{ID: "x", Here: true}
			lookAnew(tally, who)
			tally.holdings(who).look(t.Context(), b, 0)
			wantClaims(t, "after a look", tally, who, 1)
			second(held("x", true, true), nil)
			first(held("x", false, true), nil)
			wantClaims(t, "after both", tally, who, 1)
			tally.ended(who, "x")
			wantClaims(t, "after its end", tally, who, 0)
		},
		"here, by who has left": func(t *testing.T, tally *tally, b *book) {
			ctx, leave := context.WithCancel(t.Context())
			settle, err := tally.claim(ctx, who, keyed)
			if err != nil {
				t.Fatal(err)
			}
			leave()
			settle(store.Lock{}, context.Canceled)
			wantClaims(t, "as nobody knows", tally, who, 1)
			b.stand[handle(keyed)] = store.Found{ID: "x", Here: true}
			lookAnew(tally, who)
			tally.holdings(who).look(t.Context(), b, 0)
			wantClaims(t, "found", tally, who, 1)
			b.over["x"] = true
			tally.holdings(who).look(t.Context(), b, 0)
			wantClaims(t, "gone", tally, who, 0)
		},
		"nowhere, by who has left": func(t *testing.T, tally *tally, b *book) {
			begin(t, tally, keyed)(store.Lock{}, store.ErrUnknown)
			begin(t, tally, keyed)(store.Lock{}, &store.HeldError{})
			wantClaims(t, "as nobody knows", tally, who, 1)
			lookAnew(tally, who)
			tally.holdings(who).look(t.Context(), b, 0)
			wantClaims(t, "after a look", tally, who, 0)
		},
		"nowhere, by who has left and was told": func(t *testing.T, tally *tally, _ *book) {
			ctx, leave := context.WithCancel(t.Context())
			settle, err := tally.claim(ctx, who, keyed)
			if err != nil {
				t.Fatal(err)
			}
			leave()
			settle(store.Lock{}, &store.HeldError{})
			wantClaims(t, "after it", tally, who, 0)
		},
		"nowhere": func(t *testing.T, tally *tally, _ *book) {
			first, second := begin(t, tally, keyed), begin(t, tally, keyed)
			first(store.Lock{}, &store.HeldError{})
			wantClaims(t, "with one that waits", tally, who, 1)
			second(store.Lock{}, &store.HeldError{})
			wantClaims(t, "after both", tally, who, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			tally := &tally{mostClaims: 10, store: b}
			play(t, tally, b)
			if h := tally.holdings(who); len(h.claims) == 0 && len(h.known)+len(h.doubts)+h.doubted+h.nameless != 0 {
				t.Errorf("left: %+v", h)
			}
		})
	}
}

// TestARepeatOfAnothersClaimNeedsNoRoom: it is found in the store before it is refused, and what is not found is refused.
func TestARepeatOfAnothersClaimNeedsNoRoom(t *testing.T) {
	b := newBook(t)
	b.others = []store.Word{{"one": {2, 0}}}
	tally := &tally{mostClaims: 2, store: b}
	byKey, byLease := store.Claim{Name: "a", Key: "its key"}, store.Claim{Name: "a", LeaseID: "its lease"}
	b.stand[handle(byKey)], b.stand[handle(byLease)] = store.Found{ID: "x"}, store.Found{ID: "y"}
	for _, c := range []store.Claim{byKey, byLease} {
		settle, err := tally.claim(t.Context(), "one", c)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		wantClaims(t, "a repeat under way", tally, "one", 0)
		settle(store.Lock{ID: b.stand[handle(c)].ID, Replayed: true}, nil)
		wantClaims(t, "a repeat", tally, "one", 0)
	}
	for _, c := range []store.Claim{{Name: "a"}, {Name: "b", Key: "its key"}, {Name: "b", LeaseID: "its lease"}} {
		if _, err := tally.claim(t.Context(), "one", c); err == nil {
			t.Errorf("there was room for %+v", c)
		}
	}
}

// TestWhoIsToldOf: those with a good part of what they may have, and those of whom another tells.
func TestWhoIsToldOf(t *testing.T) {
	b := newBook(t)
	tally := &tally{mostClaims: 160, mostLeases: 16, store: b}
	hold(t, tally, "few", "a", 9)
	hold(t, tally, "many", "a", 10)
	settle, err := tally.lease(t.Context(), "leaser")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tally.tell(t.Context()), (store.Word{"many": {10, 0}, "leaser": {0, 1}}); !maps.Equal(got, want) {
		t.Errorf("told: %v, want %v", got, want)
	}
	settle(store.Lease{}, store.ErrUnavailable)
	b.others = []store.Word{{"few": {10, 0}, "nobody": {100, 10}, "leaser": {9, 0}}}
	if got, want := tally.tell(t.Context()), (store.Word{"many": {10, 0}, "few": {9, 0}}); !maps.Equal(got, want) {
		t.Errorf("told: %v, want %v", got, want)
	}
	b.others = nil
	for i := range 10 {
		tally.ended("many", fmt.Sprint("a", i))
	}
	if got := tally.tell(t.Context()); len(got) != 0 {
		t.Errorf("told: %v, want nothing", got)
	}
}

// TestWhatIsOverIsNotTold: who got much is looked at first, however much comes and goes, and who is near the bound each time.
func TestWhatIsOverIsNotTold(t *testing.T) {
	b := newBook(t)
	tally := &tally{mostClaims: 160, store: b}
	for round := range 5 {
		as := fmt.Sprint("round ", round, " ")
		hold(t, tally, "busy", as, 30)
		for i := range 30 {
			b.over[fmt.Sprint(as, i)] = true // released at another replica
		}
		lookAnew(tally, "busy")
		if got := tally.tell(t.Context()); len(got) != 0 {
			t.Errorf("told: %v, want nothing", got)
		}
	}
	hold(t, tally, "steady", "s", 20)
	tally.tell(t.Context())
	b.asked = 0
	for range 5 {
		lookAnew(tally, "steady")
		tally.tell(t.Context())
	}
	if b.asked != 0 {
		t.Errorf("%d ids were asked for of who got nothing since, and is far from the bound", b.asked)
	}
	b.over["s0"] = true
	b.others = []store.Word{{"steady": {120, 0}}}
	if got := tally.tell(t.Context()); got["steady"] != [2]int{19, 0} {
		t.Errorf("told near the bound: %v, want 19 claims", got)
	}
}

// TestAWordIsBounded: in who is told of, in its length, and in what is looked at for it; those with most come first.
func TestAWordIsBounded(t *testing.T) {
	b := newBook(t)
	crowd := &tally{mostClaims: 100, store: b}
	const all = 3 * maxTold
	for i := range all {
		hold(t, crowd, fmt.Sprintf("p%04d", i), fmt.Sprint("p", i, " "), 10+i*80/all)
	}
	seen := map[string]bool{}
	for range 20 {
		b.asked = 0
		word := crowd.tell(t.Context())
		if len(word) != maxTold || word["p1499"][0] != 89 {
			t.Fatalf("%d are told of, and %v of the last", len(word), word["p1499"])
		}
		if b.asked > maxLooked+100 {
			t.Fatalf("%d were looked at", b.asked)
		}
		for who, h := range crowd.all() {
			seen[who] = seen[who] || !h.looked.IsZero()
		}
	}
	if waiting := slices.Collect(maps.Values(seen)); len(waiting) != all || slices.Contains(waiting, false) {
		t.Error("somebody's turn to be looked at does not come")
	}
	wordy := &tally{mostClaims: 10, store: b}
	for i := range 400 {
		hold(t, wordy, fmt.Sprint(strings.Repeat("x", 250), i), fmt.Sprint(i, " "), 5)
	}
	bytes := 0
	for who := range wordy.tell(t.Context()) {
		bytes += len(who)
	}
	if bytes > maxToldBytes || bytes < maxToldBytes/2 {
		t.Errorf("%d bytes of names are told", bytes)
	}
}

// TestOneLookIsThatOfAllWhoCame: thirty claims have ended elsewhere, and twenty come at one time: one looks, and none is refused.
func TestOneLookIsThatOfAllWhoCame(t *testing.T) {
	b := newBook(t)
	tally := &tally{mostClaims: 30, store: b}
	hold(t, tally, "one", "a", 30)
	for i := range 30 {
		b.over[fmt.Sprint("a", i)] = true
	}
	looks, gone := 0, b.gone
	b.gone = func(ctx context.Context, ids []string) ([]string, error) {
		looks++
		time.Sleep(20 * time.Millisecond)
		return gone(ctx, ids)
	}
	var work sync.WaitGroup
	for range 20 {
		work.Go(func() {
			if _, err := tally.claim(t.Context(), "one", store.Claim{Name: "a"}); err != nil {
				t.Errorf("nothing stands, and a claim is refused: %v", err)
			}
		})
	}
	work.Wait()
	if looks != 1 {
		t.Errorf("%d looks, want 1", looks)
	}
}

// TestNobodyIsRefusedForWhatCannotBeLookedAt: then it is not known whether there is room.
func TestNobodyIsRefusedForWhatCannotBeLookedAt(t *testing.T) {
	b := newBook(t)
	tally := &tally{mostClaims: 3, mostLeases: 1, store: b}
	hold(t, tally, "one", "a", 3)
	settle, err := tally.lease(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	settle(store.Lease{ID: "its lease"}, nil)
	b.gone = func(context.Context, []string) ([]string, error) { return nil, store.ErrUnavailable }
	b.find = func(context.Context, []store.Claim) ([]store.Found, error) { return nil, store.ErrUnavailable }
	for what, c := range map[string]store.Claim{"a claim": {Name: "b"}, "one with a key": {Name: "b", Key: "key"}} {
		lookAnew(tally, "one")
		if _, err := tally.claim(t.Context(), "one", c); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: got %v, want %v", what, err, store.ErrUnavailable)
		}
	}
	lookAnew(tally, "one")
	if _, err := tally.lease(t.Context(), "one"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a lease: got %v, want %v", err, store.ErrUnavailable)
	}
}

// TestALookThatDoesNotGetThroughHasFoundWhatItFound: etcd is slow, and there is much to look at.
func TestALookThatDoesNotGetThroughHasFoundWhatItFound(t *testing.T) {
	b := newBook(t)
	tally := &tally{mostClaims: 10 * lookedAtOnce, store: b}
	hold(t, tally, "one", "a", 10*lookedAtOnce)
	b.gone = func(ctx context.Context, ids []string) ([]string, error) {
		if b.asked += len(ids); b.asked > 3*lookedAtOnce {
			return nil, store.ErrUnavailable // it has taken too long
		}
		return ids, nil
	}
	if _, err := tally.claim(t.Context(), "one", store.Claim{Name: "b"}); err != nil {
		t.Fatalf("nothing stands, and a claim is refused: %v", err)
	}
	wantClaims(t, "after a part of a look", tally, "one", 7*lookedAtOnce+1)
}

// TestARepeatOfAClaimMadeElsewhereUsesUpNothing, however often it comes and however short it is.
func TestARepeatOfAClaimMadeElsewhereUsesUpNothing(t *testing.T) {
	b := newBook(t)
	tally := &tally{mostClaims: 20, store: b}
	for round := range 3 {
		var settles []func(store.Lock, error)
		for i := range 16 {
			c := store.Claim{Name: "a", Key: fmt.Sprint("key ", i)}
			b.stand[handle(c)] = store.Found{ID: fmt.Sprint("id ", i)}
			settle, err := tally.claim(t.Context(), "one", c)
			if err != nil {
				t.Fatalf("round %d: a repeat is refused: %v", round, err)
			}
			settles = append(settles, settle)
		}
		if round == 0 {
			lookAnew(tally, "one")
			tally.tell(t.Context())
		}
		wantClaims(t, fmt.Sprint("in round ", round), tally, "one", 0)
		for i, settle := range settles {
			settle(store.Lock{ID: fmt.Sprint("id ", i), State: store.Queued, Replayed: true}, nil)
		}
	}
	// One that ended is made anew here, and counts.
	if err := holdWith(t, tally, "one", "id of its own", store.Claim{Name: "a", Key: "key 1"}); err != nil {
		t.Fatal(err)
	}
	wantClaims(t, "made anew here", tally, "one", 1)
}

// TestAClaimThatAnOutageInterruptsStillCounts: it stands, and its repeats come through other replicas.
func TestAClaimThatAnOutageInterruptsStillCounts(t *testing.T) {
	for _, why := range []error{store.ErrUnavailable, store.ErrDraining, store.ErrUnknown} {
		b := newBook(t)
		tally := &tally{mostClaims: 20, store: b}
		c := store.Claim{Name: "a", Key: "its key", Wait: time.Minute}
		settle, err := tally.claim(t.Context(), "one", c)
		if err != nil {
			t.Fatal(err)
		}
		settle(store.Lock{}, why)
		wantClaims(t, fmt.Sprint("after ", why), tally, "one", 1)
		b.stand[handle(c)] = store.Found{ID: "its id", Here: true}
		lookAnew(tally, "one")
		tally.tell(t.Context())
		wantClaims(t, "and a look", tally, "one", 1)
		b.over["its id"] = true
		lookAnew(tally, "one")
		tally.holdings("one").look(t.Context(), b, 0)
		wantClaims(t, "when it is over", tally, "one", 0)
	}
}

// TestWhoIsToldOfIsLookedAtNowAndThen: what is over is not held against anybody for good, be it ever so little.
func TestWhoIsToldOfIsLookedAtNowAndThen(t *testing.T) {
	b := newBook(t)
	tally := &tally{mostClaims: 30, store: b}
	hold(t, tally, "one", "a", 15)
	tally.tell(t.Context())
	for i := range 15 {
		b.over[fmt.Sprint("a", i)] = true
	}
	lookAnew(tally, "one")
	if got := tally.tell(t.Context()); got["one"] != [2]int{15, 0} {
		t.Errorf("told: %v, want all, without a look", got)
	}
	h := tally.holdings("one")
	h.mu.Lock()
	h.looked = time.Now().Add(-lookAtLeast)
	h.mu.Unlock()
	if got := tally.tell(t.Context()); len(got) != 0 {
		t.Errorf("told: %v, want nothing", got)
	}
}
