package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/latchkey/latchkey/api"
)

// watchman asks one replica, all the time, for what must work when nothing is wrong, and knows how long an answer may
// take when something is.
type watchman struct {
	w       *world
	tr      *trial
	name    string
	replica int

	mu   sync.Mutex
	ok   time.Time // when the last round was begun in which everything worked
	last answer    // of the last that did not
}

const (
	recoveryBound = 10 * time.Second // from when a fault is over to when everything works
	handOffBound  = time.Second      // from a release to the next holder, when nothing is wrong
	watchPause    = 60 * time.Millisecond
	watchTTL      = 5
	// watchPatience is more than any answer may take.
	watchPatience = requestBound + slack + 5*time.Second
)

func patient() *client {
	return &client{context.Background(), &http.Client{Transport: &http.Transport{}}, watchPatience}
}

// works claims, renews and releases a free lock.
func (m *watchman) works() {
	c := patient()
	defer c.http.CloseIdleConnections()
	for n := 0; !m.tr.over(); n++ {
		began := time.Now()
		url := m.w.replicas[m.replica].url()
		name := fmt.Sprintf("%s/works/%s.%d", m.tr.name, m.name, n)
		a := c.claim(url, "", api.LockRequest{Name: name, TTLSeconds: watchTTL, Holder: name})
		m.w.heard(m.replica, a, 0)
		if a.err == nil && !a.held() && !a.doubtful() && a.problem.Code != "place_lost" { // which may have been granted, and have run out
			m.tr.sure.never(name)
		}
		if a.held() {
			m.tr.sure.once(name)
			m.w.secrets.own(a.lock.ID)
			id := a.lock.ID
			until := a.sent.Add(seconds(watchTTL))
			if a = c.renew(url, id); a.err == nil && a.status == http.StatusOK {
				a = c.release(url, id)
			} else if a.status == http.StatusNotFound && a.got.Before(until) {
				m.w.t.Errorf("%s: replica %d: a lock was gone %v before the end of its TTL: %v", m.tr.name, m.replica, until.Sub(a.got), a)
			}
			m.w.heard(m.replica, a, 0)
		}
		m.mu.Lock()
		if a.err == nil && a.status == http.StatusNoContent {
			m.ok = began
		} else {
			m.last = a
		}
		m.mu.Unlock()
		time.Sleep(watchPause)
	}
}

// waits claims what it holds itself, so that the wait comes to its end.
func (m *watchman) waits() {
	const wait = 1
	c := patient()
	defer c.http.CloseIdleConnections()
	for n := 0; !m.tr.over(); n++ {
		url := m.w.replicas[m.replica].url()
		name := fmt.Sprintf("%s/waits/%s.%d", m.tr.name, m.name, n)
		held := c.claim(url, "", api.LockRequest{Name: name, TTLSeconds: watchTTL})
		m.w.heard(m.replica, held, 0)
		if !held.held() {
			time.Sleep(watchPause)
			continue
		}
		a := c.claim(url, "", api.LockRequest{Name: name, TTLSeconds: watchTTL, WaitSeconds: wait})
		m.w.heard(m.replica, a, wait)
		if a.held() && a.got.Before(held.sent.Add(seconds(watchTTL))) {
			m.w.t.Errorf("%q: token %d was granted %v before the end of the TTL of token %d", name, a.lock.FencingToken,
				held.sent.Add(seconds(watchTTL)).Sub(a.got), held.lock.FencingToken)
		}
		m.w.heard(m.replica, c.release(url, held.lock.ID), 0)
	}
}

// recovered waits until everything works at every replica, in a round begun after the fault was over, and returns how
// long that took.
func (w *world) recovered(tr *trial) time.Duration {
	w.t.Helper()
	healed := tr.healed
	var latest time.Duration
	for _, m := range tr.watch {
		for {
			m.mu.Lock()
			ok, last := m.ok, m.last
			m.mu.Unlock()
			if ok.After(healed) {
				latest = max(latest, ok.Sub(healed))
				break
			}
			if time.Since(healed) > recoveryBound+slack {
				w.t.Errorf("%s: claims, renewals and releases succeed within %v after a fault is over, but at replica %d not after %v: %v",
					tr.name, recoveryBound, m.replica, time.Since(healed), last)
				return time.Since(healed)
			}
			time.Sleep(lookAgain / 2)
		}
	}
	return latest
}

// handOff lets a lock go from a holder to one who waits at another replica, once after a release and, in long runs, once
// after the TTL, and returns how long the release took to reach the next.
func (w *world) handOff(tr *trial) (took time.Duration) {
	w.t.Helper()
	c := patient()
	defer c.http.CloseIdleConnections()
	first := w.rng.IntN(replicas)
	at := func(i int) string { return w.replicas[(first+i)%replicas].url() }
	for round := range replicas {
		name := fmt.Sprintf("%s/next/%d", tr.name, round)
		holder := c.claim(at(round), "", api.LockRequest{Name: name, TTLSeconds: actorLongTTL})
		if !holder.held() {
			w.t.Errorf("%s: a free lock: %v", tr.name, holder)
			return took
		}
		next := make(chan answer, 1)
		go func() {
			next <- c.claim(at(round+1), "", api.LockRequest{Name: name, TTLSeconds: actorTTL, WaitSeconds: actorLongTTL})
		}()
		if !w.stands(c, at(round+2), name, 2) {
			w.t.Errorf("%s: a waiter is listed within %v, but is not", tr.name, slack)
		}
		released := time.Now()
		if a := c.release(at(round+2), holder.lock.ID); a.status != http.StatusNoContent {
			w.t.Errorf("%s: a release: %v", tr.name, a)
		}
		a := <-next
		took = max(took, a.got.Sub(released))
		if !a.held() || a.got.Sub(released) > handOffBound+slack {
			w.t.Errorf("%s: the next in line is granted within %v after a release, but after %v is told %v", tr.name, handOffBound, a.got.Sub(released), a)
			return took
		}
		if *faultsDuration == 0 || round > 0 {
			c.release(at(round), a.lock.ID)
			continue
		}
		// this one ends without a word
		var after answer
		for since := time.Now(); time.Since(since) < recoveryBound; {
			after = c.claim(at(round), "", api.LockRequest{Name: name, TTLSeconds: actorTTL, WaitSeconds: 4 * actorTTL})
			if !after.elsewhere() {
				break
			}
			time.Sleep(tryAgain())
		}
		if lag := after.got.Sub(a.got.Add(seconds(actorTTL))); !after.held() || lag > expiryLag+slack {
			w.t.Errorf("%s: a lock that is not renewed goes to the next within its TTL and %v, but %v after its TTL the next is told %v", tr.name, expiryLag, lag, after)
		}
		if after.held() && after.got.Sub(a.sent) < seconds(actorTTL) {
			w.t.Errorf("%s: a lock of %d s that was asked for %v ago went to the next", tr.name, actorTTL, after.got.Sub(a.sent))
		}
		c.release(at(round), after.lock.ID)
	}
	return took
}

// stands waits until so many claims on a name stand.
func (w *world) stands(c *client, replica, name string, n int) bool {
	for began := time.Now(); time.Since(began) < slack; time.Sleep(lookAgain / 5) {
		if locks, err := c.list(replica, name); err == nil && len(locks) == n {
			return true
		}
	}
	return false
}
