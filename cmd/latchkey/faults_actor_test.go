package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"github.com/latchkey/latchkey/api"
)

// actor is a client with connections of its own. Most of the time it behaves; now and then it is a fault itself.
type actor struct {
	tr    *trial
	w     *world
	site  *site
	n     int
	rng   *mathrand.Rand
	c     *client
	lease string  // its own, or ""
	old   *tenure // an earlier one, for late requests
	count int
}

const (
	actorTTL      = 3
	actorLongTTL  = 10
	actorPatience = 3 * time.Second
	actorTries    = 12 // of one claim
	mostRest      = 60 * time.Millisecond
	mostWork      = 25 * time.Millisecond
)

func newActor(tr *trial, s *site, n int, rng *mathrand.Rand) *actor {
	return &actor{
		tr: tr, w: tr.w, site: s, n: n, rng: rng,
		c: &client{context.Background(), &http.Client{Transport: &http.Transport{}}, actorPatience},
	}
}

// chance is true so many times in a hundred.
func (a *actor) chance(percent int) bool { return a.rng.IntN(100) < percent }

func (a *actor) sleep(most time.Duration) { time.Sleep(time.Duration(a.rng.Int64N(int64(most)))) }

func (a *actor) run() {
	defer a.c.http.CloseIdleConnections()
	for !a.tr.over() {
		p := a.site.spot()
		if t := a.claim(p); t != nil {
			a.hold(p, t)
		}
		if a.old != nil && a.chance(25) {
			a.tr.stale.Add(1)
			a.late(a.old)
		}
		a.sleep(mostRest)
	}
	if a.lease != "" {
		a.send(0, func(url string) answer { return a.c.do(http.MethodDelete, url+"/leases/"+a.lease, "", nil, 0) })
	}
}

var errBalancer = errors.New("the balancer had no answer")

// send sends a request to a replica or to the balancer.
func (a *actor) send(wait int64, ask func(url string) answer) answer {
	return a.w.sendTo(a.rng.IntN(replicas+1), wait, ask)
}

// sendTo sends a request to one replica, or to the balancer if there is none of that number.
func (w *world) sendTo(r int, wait int64, ask func(url string) answer) answer {
	if r == replicas {
		got := ask(w.balancer.url)
		if got.status == http.StatusBadGateway || got.status == http.StatusGatewayTimeout {
			got.err = errBalancer
		}
		w.heard(nobody, got, wait)
		return got
	}
	got := ask(w.replicas[r].url())
	w.heard(r, got, wait)
	return got
}

// attempt is one claim of an actor, however often it is sent.
type attempt struct {
	*actor
	p       *spot
	request api.LockRequest
	key     string
	ttl     time.Duration
	asked   time.Time // first
	id      string
	unsure  bool
}

// claim asks until the claim is held, which it returns, or is not to be had.
func (a *actor) claim(p *spot) *tenure {
	a.count++
	at := &attempt{actor: a, p: p, ttl: seconds(actorTTL)}
	if a.chance(20) {
		at.ttl = seconds(actorLongTTL)
	}
	at.request = api.LockRequest{Name: p.name, TTLSeconds: int64(at.ttl / time.Second), Holder: fmt.Sprintf("%s.%d.%d", a.tr.name, a.n, a.count)}
	if a.chance(20) {
		if !a.leased() {
			return nil
		}
		at.ttl = seconds(actorTTL)
		at.request.TTLSeconds, at.request.LeaseID = 0, a.lease
	} else if a.chance(60) {
		at.key = rand.Text()
		a.w.secrets.own(at.key)
	}
	if !p.tried {
		at.request.WaitSeconds = a.rng.Int64N(3)
		at.request.Queue = a.chance(60)
	}
	t := at.run()
	if t == nil && at.request.LeaseID != "" && at.unsure {
		a.lease = "" // what it may hold goes with it
	}
	return t
}

// leased sees to it that the actor has a lease of its own that stands.
func (a *actor) leased() bool {
	if a.lease != "" {
		got := a.send(0, func(url string) answer { return a.c.renew(url, a.lease) })
		if got.err == nil && got.status == http.StatusOK {
			return true
		}
	}
	a.lease = ""
	got := a.send(0, func(url string) answer {
		return a.c.do(http.MethodPost, url+"/leases", "", api.LeaseRequest{TTLSeconds: actorTTL}, 0)
	})
	if got.err != nil || got.status != http.StatusCreated {
		return false
	}
	a.lease = got.lock.ID
	a.w.secrets.own(a.lease)
	return true
}

func (at *attempt) run() *tenure {
	at.asked = time.Now()
	for try := 0; ; try++ {
		if try > 0 {
			if try == actorTries || at.tr.over() && time.Since(at.asked) > windDown {
				return at.giveUp()
			}
			at.tr.again.Add(1)
			time.Sleep(tryAgain())
		}
		got := at.ask()
		switch {
		case got.held():
			return at.granted(got)
		case got.queued():
			if at.id == "" {
				at.id = got.lock.ID
				at.w.secrets.own(at.id)
			}
			if at.chance(5) || at.tr.over() {
				at.tr.left.Add(1)
				return at.giveUp()
			}
			try = 0
		case got.err == nil && got.status == http.StatusConflict && got.problem.Code == "lock_held":
			if !at.unsure {
				at.p.refused(at.n, got.sent, got.got)
				at.tr.sure.never(at.request.Holder)
			}
			return nil
		case got.err == nil && got.status == http.StatusTooManyRequests:
			return nil
		case got.err == nil && got.status == http.StatusNotFound && got.problem.Code == "lease_not_found" && at.request.LeaseID != "":
			at.lease = ""
			return at.giveUp()
		case at.id != "" && got.err == nil && (got.status == http.StatusNotFound || got.problem.Code == "place_lost"):
			return at.giveUp()
		case got.err == nil && got.problem.Code == "place_lost":
			return at.giveUp()
		case got.elsewhere():
			if got.doubtful() {
				at.doubt(got.sent)
			}
			if at.key == "" && at.request.LeaseID == "" && at.id == "" {
				if !at.unsure {
					at.tr.sure.never(at.request.Holder)
				}
				return nil // another try would be another claim
			}
		default:
			at.p.breaks("client %d: a claim (%+v) answers %v", at.n, at.request, got)
			return at.giveUp()
		}
	}
}

// ask sends the claim, or asks for the one that stands. Some clients go away in the middle of it, and some ask two replicas
// at once.
func (at *attempt) ask() answer {
	wait, ask := at.request.WaitSeconds, func(url string) answer { return at.c.claim(url, at.key, at.request) }
	if at.id != "" {
		wait = at.rng.Int64N(3)
		ask = func(url string) answer { return at.c.poll(url, at.id, wait) }
	} else if wait > 0 && at.chance(4) {
		at.tr.left.Add(1)
		hasty := *at.c
		hasty.patience = -seconds(wait) + 100*time.Millisecond
		ask = func(url string) answer { return hasty.claim(url, at.key, at.request) }
	}
	if (at.id != "" || at.key != "") && at.chance(35) {
		return at.askTwo(wait, ask)
	}
	return at.send(wait, ask)
}

// askTwo asks two replicas at once and takes the answer that says most: two that say held must say the same.
func (at *attempt) askTwo(wait int64, ask func(url string) answer) answer {
	at.tr.again.Add(1)
	first, other := at.rng.IntN(replicas), at.rng.IntN(replicas-1)
	two := make(chan answer, 1)
	go func() { two <- at.w.sendTo((first+1+other)%replicas, wait, ask) }()
	best := at.w.sendTo(first, wait, ask)
	worse := <-two
	if best.held() && worse.held() && (best.lock.ID != worse.lock.ID || best.lock.FencingToken != worse.lock.FencingToken) {
		at.p.breaks("client %d asked two replicas for one claim and is told of two: tokens %d and %d", at.n, best.lock.FencingToken, worse.lock.FencingToken)
	}
	if says(worse) > says(best) {
		best, worse = worse, best
	}
	if worse.doubtful() {
		at.doubt(worse.sent)
	}
	return best
}

// says is how much an answer to a claim tells.
func says(a answer) int {
	switch {
	case a.held():
		return 3
	case a.queued():
		return 2
	case a.elsewhere() || a.problem.Code == "place_lost":
		return 1
	}
	return 0
}

// doubtful says that nobody knows what came of a request.
func (a answer) doubtful() bool { return a.err != nil || a.problem.Code == "outcome_unknown" }

// doubt notes that nobody knows what came of a request.
func (at *attempt) doubt(sent time.Time) {
	at.unsure = true
	at.p.ghost(at.n, sent)
}

// giveUp leaves the queue if the claim stands there. It may have been granted meanwhile.
func (at *attempt) giveUp() *tenure {
	at.p.ghost(at.n, at.asked)
	if at.id != "" {
		at.send(0, func(url string) answer { return at.c.release(url, at.id) })
	}
	at.unsure = true
	return nil
}

func (at *attempt) granted(got answer) *tenure {
	t := &tenure{
		client: at.n, tag: at.request.Holder, token: got.lock.FencingToken, id: got.lock.ID, lease: got.lock.LeaseID,
		ttl: at.ttl, renewed: got.sent,
	}
	at.w.secrets.own(t.id)
	at.p.granted(t, at.asked, got.got)
	if at.id != "" && at.id != t.id {
		at.p.breaks("client %d asks for one claim and is told of another: token %d", at.n, t.token)
	}
	if at.key != "" && at.chance(15) {
		at.repeat(t)
	}
	if !at.unsure {
		at.tr.sure.once(at.request.Holder)
	}
	return t
}

// repeat sends the claim again though it is held, which finds it and renews it.
func (at *attempt) repeat(t *tenure) {
	at.tr.again.Add(1)
	got := at.send(at.request.WaitSeconds, func(url string) answer { return at.c.claim(url, at.key, at.request) })
	switch {
	case got.held() && got.lock.FencingToken == t.token && got.lock.ID == t.id && got.replayed:
		t.renewedAt(got.sent, got.got)
	case got.elsewhere():
		at.doubt(got.sent)
	case got.got.Before(t.until()):
		at.p.breaks("client %d: the repeat of a claim with token %d answers %v", at.n, t.token, got)
	case got.held():
		at.doubt(got.sent) // the first has run out, and this is another, that nobody serves
	}
}
