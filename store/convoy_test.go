package store

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// journeys drives a convoy of numbers whose groups arrive when the test says so.
type journeys struct {
	convoy[int]
	arrive chan struct{}

	mu      sync.Mutex
	groups  [][]int
	refused []int
	running int
	atMost  int
}

func newJourneys(atOnce, perGroup int) *journeys {
	j := &journeys{arrive: make(chan struct{})}
	j.convoy = convoy[int]{
		atOnce: atOnce,
		load: func(waiting []int) (group, left []int) {
			n := min(len(waiting), perGroup)
			return waiting[:n:n], waiting[n:]
		},
		carry: func(group []int) {
			j.mu.Lock()
			j.groups = append(j.groups, group)
			j.running++
			j.atMost = max(j.atMost, j.running)
			j.mu.Unlock()
			<-j.arrive
			j.mu.Lock()
			j.running--
			j.mu.Unlock()
		},
		refuse: func(x int) { j.refused = append(j.refused, x) },
		spawn:  func(do func()) bool { go do(); return true },
	}
	return j
}

// send adds one as a caller does who carries it if it goes alone, and returns once all is at rest.
func (j *journeys) send(x int, urgent bool) {
	go j.add(x, urgent)
	synctest.Wait()
}

// carried are the groups so far, once all is at rest.
func (j *journeys) carried() [][]int {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.groups)
}

func wantGroups(t *testing.T, what string, got [][]int, want ...[]int) {
	t.Helper()
	if !slices.EqualFunc(got, want, slices.Equal[[]int]) {
		t.Fatalf("%s: got groups %v, want %v", what, got, want)
	}
}

func TestConvoyLeavesAtOnceAndGathersWhileUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJourneys(1, 3)
		j.send(1, false)
		wantGroups(t, "while nothing is under way", j.carried(), []int{1})
		for x := 2; x <= 6; x++ {
			j.send(x, false)
		}
		wantGroups(t, "while one is under way", j.carried(), []int{1})
		j.arrive <- struct{}{}
		wantGroups(t, "after it", j.carried(), []int{1}, []int{2, 3, 4})
		j.arrive <- struct{}{}
		wantGroups(t, "after that", j.carried(), []int{1}, []int{2, 3, 4}, []int{5, 6})
		j.arrive <- struct{}{}
		synctest.Wait()
		if j.underway != 0 || len(j.waiting) != 0 {
			t.Errorf("at the end %d are under way and %v wait", j.underway, j.waiting)
		}
	})
}

func TestUrgentOneTakesWithItWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJourneys(1, 10)
		j.send(1, false)
		j.send(2, false)
		wantGroups(t, "one that can wait", j.carried(), []int{1})
		j.send(3, true)
		wantGroups(t, "an urgent one beside one under way", j.carried(), []int{1}, []int{2, 3})
		j.send(4, true)
		wantGroups(t, "a second urgent one", j.carried(), []int{1}, []int{2, 3})
		j.arrive <- struct{}{} // the one of two: the other carries on
		j.arrive <- struct{}{}
		wantGroups(t, "after both", j.carried(), []int{1}, []int{2, 3}, []int{4})
		j.arrive <- struct{}{}
		synctest.Wait()
		if j.atMost != 2 || j.underway != 0 {
			t.Errorf("%d were under way together and %d are at the end, want 2 and 0", j.atMost, j.underway)
		}
	})
}

func TestWithdrawnOneIsNotCarried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJourneys(1, 10)
		j.send(1, false)
		for x := 2; x <= 4; x++ {
			j.send(x, false)
		}
		j.carried()
		if !j.withdraw(3) || j.withdraw(3) || j.withdraw(1) {
			t.Error("want what waits to be withdrawn, once, and not what has gone")
		}
		j.arrive <- struct{}{}
		wantGroups(t, "without the one withdrawn", j.carried(), []int{1}, []int{2, 4})
		j.arrive <- struct{}{}
	})
}

func TestThoseThatWaitTheirTurnAreLookedAtOneByOne(t *testing.T) {
	const all = 10_000
	synctest.Test(t, func(t *testing.T) {
		j := newJourneys(1, 3)
		load, looked := j.load, 0
		j.load = func(waiting []int) (group, left []int) {
			looked = max(looked, len(waiting))
			return load(waiting)
		}
		j.turn = func(x int) string {
			if x%2 == 0 && x != 0 {
				return "even"
			}
			return ""
		}
		j.send(0, false)
		for x := 2; x <= 2*all; x += 2 {
			j.add(x, false)
		}
		j.add(1, false)
		if !j.withdraw(4) || j.withdraw(4) || !j.withdraw(2) {
			t.Error("want both withdrawn, the one in its turn and the one behind it")
		}
		close(j.arrive)
		got := j.carried()
		var evens []int
		for _, x := range slices.Concat(got...) {
			if x%2 == 0 && x != 0 {
				evens = append(evens, x)
			}
		}
		if len(evens) != all-2 || !slices.IsSorted(evens) || evens[0] != 6 {
			t.Errorf("%d were carried, want %d, in order, without those withdrawn", len(evens), all-2)
		}
		if len(got) < all-2 {
			t.Errorf("%d groups carried them, want each in one of its own", len(got))
		}
		if looked > 4 {
			t.Errorf("%d were looked at for one group, want the first of those that wait their turn, and no more", looked)
		}
		if len(j.behind) != 0 || len(j.waiting) != 0 || j.underway != 0 {
			t.Errorf("at the end %v wait, %v behind them, and %d are under way", j.waiting, j.behind, j.underway)
		}
	})
}

func TestMoreGroupsGoWhileACrowdWaitsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJourneys(1, 10)
		j.inCrowd = 2
		j.turn = func(int) string { return "x" }
		for x := range leastCrowd + 1 {
			j.send(x, false)
		}
		wantGroups(t, "one under way and no crowd yet", j.carried(), []int{0})
		j.send(100, false)
		j.send(101, false)
		j.send(102, false)
		wantGroups(t, "in a crowd", j.carried(), []int{0}, []int{1}, []int{2})
		close(j.arrive)
		if got := j.carried(); len(got) != leastCrowd+4 {
			t.Errorf("%d groups were carried, want one for each of %d", len(got), leastCrowd+4)
		}
		if j.atMost > 3 || j.underway != 0 || j.crowd != 0 || len(j.waiting) != 0 {
			t.Errorf("%d were under way together; at the end %d are, %d wait behind others and %d do", j.atMost, j.underway, j.crowd, len(j.waiting))
		}
	})
}

func TestConvoyRefusesWhatCanNoLongerGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJourneys(1, 2)
		j.spawn = func(func()) bool { return false }
		j.turn = func(x int) string { return map[int]string{2: "x", 3: "x", 4: "x"}[x] }
		j.send(0, false) // carried by its caller
		for x := 1; x <= 4; x++ {
			j.send(x, false)
		}
		j.arrive <- struct{}{}
		synctest.Wait()
		if !slices.Equal(j.refused, []int{1, 2, 3, 4}) || len(j.behind) != 0 || len(j.waiting) != 0 || j.underway != 0 {
			t.Errorf("got %v refused, %v waiting and %d under way, want all four refused", j.refused, j.waiting, j.underway)
		}
	})
}

func TestConvoyLosesNothing(t *testing.T) {
	const atOnce, adders, each = 2, 8, 2000
	j := newJourneys(atOnce, 7)
	close(j.arrive)
	var work, carrying sync.WaitGroup
	j.spawn = func(do func()) bool { carrying.Go(do); return true }
	withdrawn := make([][]int, adders)
	for a := range adders {
		work.Go(func() {
			for i := range each {
				x := a*each + i
				j.add(x, i%11 == 0)
				if i%5 == 0 && j.withdraw(x) {
					withdrawn[a] = append(withdrawn[a], x)
				}
			}
		})
	}
	work.Wait()
	carrying.Wait()
	all := slices.Concat(append(slices.Clone(j.groups), withdrawn...)...)
	slices.Sort(all)
	if len(all) != adders*each || len(slices.Compact(all)) != adders*each {
		t.Errorf("%d came to an end, want each of %d once", len(all), adders*each)
	}
	if j.atMost > atOnce+1 || j.underway != 0 || len(j.waiting) != 0 {
		t.Errorf("%d were under way together; at the end %d, and %d wait", j.atMost, j.underway, len(j.waiting))
	}
}
