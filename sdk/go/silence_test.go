package latchkey_test

import (
	"net/http"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
	"github.com/latchkey/latchkey/store/etcdtest"
)

// twoLines are lines to the shared server that can fall silent.
func twoLines(t *testing.T) (lines [2]*etcdtest.Proxy, servers []string) {
	for i := range lines {
		lines[i] = etcdtest.NewProxy(t, address(shared))
		servers = append(servers, "http://"+lines[i].Addr())
	}
	return lines, append(servers, shared)
}

func TestWaiterStaysWithTheServerThatAnswers(t *testing.T) {
	t.Parallel()
	lines, servers := twoLines(t)
	direct := newClient(t, latchkey.Config{})
	sent := newLines(t)
	c := newClient(t, latchkey.Config{Servers: servers, Transport: sent})
	held := mustLock(t, direct, "silent servers", latchkey.LockOptions{TTL: 5 * time.Minute})
	waiter := lockBeside(t.Context(), t, c, "silent servers", latchkey.LockOptions{Wait: 5 * time.Minute})
	place := awaitClaims(t, direct, "silent servers", number(2))[1].ID
	eventually(t, "asked for", func() bool { return len(sent.all(http.MethodGet)) > 0 })
	for _, line := range lines {
		line.Blackhole()
	}
	const answers = 3
	var first, last int
	eventually(t, "asked for elsewhere, again and again", func() bool {
		first, last = -1, -1
		n := 0
		for i, s := range sent.all(http.MethodGet) {
			if s.host != address(shared) {
				continue
			}
			if first == -1 {
				first = i
			}
			if s.status == http.StatusOK {
				n++
			}
			if last = i; n == answers {
				return true
			}
		}
		return false
	})
	for _, s := range sent.all(http.MethodGet)[first:last] {
		if s.host != address(shared) {
			t.Errorf("%s was asked again, which is silent, though another answers", s.host)
		}
	}
	held.Release()
	if lock := waiter.mustEnd(); lock.ID() != place {
		t.Error("the place was not kept")
	}
}

func TestRenewalReachesTheThirdServerWhenTwoAreSilent(t *testing.T) {
	t.Parallel()
	lines, servers := twoLines(t)
	sent := newLines(t)
	c := newClient(t, latchkey.Config{Servers: servers, Transport: sent})
	lock := mustLock(t, c, "two silent", latchkey.LockOptions{TTL: 6 * time.Second})
	for _, line := range lines {
		line.Blackhole()
	}
	eventually(t, "renewed by the third", func() bool {
		n := 0
		for _, s := range sent.all(http.MethodPut) {
			if s.host == address(shared) && s.status == http.StatusOK {
				n++
			}
		}
		return n >= 3 || lock.Check() != nil
	})
	if err := lock.Check(); err != nil {
		t.Error(err)
	}
}

func TestPauseThatIsAskedForCostsNoPlace(t *testing.T) {
	t.Parallel()
	asked, renewed := make(chan time.Time, 100), make(chan time.Time, 100)
	answer := func(w http.ResponseWriter, times chan time.Time) {
		if times <- time.Now(); len(times) > 1 {
			playedLock(w, "held", 30)
			return
		}
		w.Header().Set("Retry-After", "3600")
		refuse(w, http.StatusServiceUnavailable, "draining")
	}
	service := play(t, holding(30, map[string]http.HandlerFunc{
		http.MethodPost: func(w http.ResponseWriter, _ *http.Request) { playedLock(w, "queued", 30) },
		http.MethodGet:  func(w http.ResponseWriter, _ *http.Request) { answer(w, asked) },
		http.MethodPut:  func(w http.ResponseWriter, _ *http.Request) { answer(w, renewed) },
	}))
	c := newClient(t, latchkey.Config{Servers: []string{service.URL}})
	lock, err := c.Lock(within(t), playedName, latchkey.LockOptions{Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	for what, times := range map[string]chan time.Time{"the place was asked for": asked, "the grant was renewed": renewed} {
		if first, second := <-times, <-times; second.Sub(first) > 10*time.Second {
			t.Errorf("%s %v apart, and a place lapses after 15s", what, second.Sub(first))
		}
	}
}

func TestPauseThatIsAskedForEndsWithTheWait(t *testing.T) {
	t.Parallel()
	service := play(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		refuse(w, http.StatusServiceUnavailable, "unavailable")
	})
	c := newClient(t, latchkey.Config{Servers: []string{service.URL}, Timeout: bound})
	began := time.Now()
	_, err := c.Lock(within(t), playedName, latchkey.LockOptions{Wait: time.Second})
	wantIs(t, err, latchkey.ErrUnavailable)
	if took := time.Since(began); took > bound/2 {
		t.Errorf("a wait of a second took %v", took)
	}
}
