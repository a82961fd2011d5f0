package main

import (
	"net/http"
	"time"
)

// hold works on what the lock protects and lets go of it, as a client should; or it sleeps past its TTL first, or goes
// without a word.
func (a *actor) hold(p *spot, t *tenure) {
	defer func() { a.old = t }()
	fenced, mine := p.fenced.read(t.token)
	bare, _ := p.bare.read(t.token)
	a.mayWork(p, t, mine)
	switch what := a.rng.IntN(100); {
	case what < 8:
		a.tr.paused.Add(1)
		a.tr.sleep(t.ttl + a.pause())
	case what < 14:
		a.tr.gone.Add(1)
		if t.lease != t.id {
			a.lease = "" // it goes with its owner
		}
		return
	case what < 34:
		if !a.stay(t) {
			return
		}
	default:
		a.sleep(mostWork)
	}
	if mine {
		mine = p.fenced.write(t.token, fenced+1)
		a.mayWork(p, t, mine)
	}
	p.bare.write(t.token, bare+1)
	if t.lease != t.id && a.chance(30) {
		a.free(t, "/leases/"+t.lease)
		a.lease = ""
		return
	}
	a.free(t, "/locks/"+t.id)
}

// pause is how much longer than its TTL a client sleeps.
func (a *actor) pause() time.Duration { return time.Duration(a.rng.Int64N(int64(2 * time.Second))) }

// mayWork asks that the resource takes what a holder does inside its TTL.
func (a *actor) mayWork(p *spot, t *tenure, taken bool) {
	if now := time.Now(); !taken && now.Before(t.until()) {
		p.breaks("the resource refuses token %d of client %d %v before the end of its TTL: a higher one was there", t.token, a.n, t.until().Sub(now))
	}
}

// stay renews for about as long as the TTL. It returns false if the lock is gone.
func (a *actor) stay(t *tenure) bool {
	for until := time.Now().Add(t.ttl); time.Now().Before(until) && !a.tr.over(); {
		a.tr.sleep(t.ttl / 4)
		if !a.renew(t) {
			return false
		}
	}
	return true
}

// renew starts the TTL again, if it can. It returns false if the lock is gone.
func (a *actor) renew(t *tenure) bool {
	got := a.send(0, func(url string) answer { return a.c.renew(url, t.lease) })
	switch {
	case got.err == nil && got.status == http.StatusOK && (t.lease != t.id || got.lock.FencingToken == t.token):
		t.renewedAt(got.sent, got.got)
	case got.err == nil && got.status == http.StatusNotFound && got.problem.Code == "lease_not_found":
		t.wasGone(actRenew, got.sent, got.got)
		return false
	case !got.elsewhere():
		t.breaks("client %d: the renewal of token %d answers %v", a.n, t.token, got)
	}
	return true
}

// free removes the lock, or the lease that it is on, and asks until that is sure.
func (a *actor) free(t *tenure, path string) {
	t.releases()
	for began := time.Now(); time.Since(began) < windDown; time.Sleep(tryAgain()) {
		got := a.send(0, func(url string) answer { return a.c.do(http.MethodDelete, url+path, "", nil, 0) })
		switch {
		case got.err == nil && got.status == http.StatusNoContent:
			t.wasReleased(got.sent, got.got)
			return
		case got.err == nil && got.status == http.StatusNotFound:
			t.wasGone(actRelease, got.sent, got.got)
			return
		case !got.elsewhere():
			t.breaks("client %d: the release of token %d answers %v", a.n, t.token, got)
			return
		}
	}
	t.breaks("client %d: no release of token %d is answered for %v", a.n, t.token, windDown)
}

// late sends a request of a holder whose time is over.
func (a *actor) late(t *tenure) {
	if t.lease == t.id && t.ended() && a.chance(50) {
		a.renew(t)
		return
	}
	if !t.ended() {
		return // it went without a word and must not come back, or its TTL could not be told
	}
	got := a.send(0, func(url string) answer { return a.c.release(url, t.id) })
	switch {
	case got.err == nil && got.status == http.StatusNoContent:
		t.wasReleased(got.sent, got.got)
	case got.err == nil && got.status == http.StatusNotFound:
		t.wasGone(actRelease, got.sent, got.got)
	}
}

// ended says whether the client knows that it does not hold any more.
func (t *tenure) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.released.IsZero() || !t.gone.IsZero()
}
