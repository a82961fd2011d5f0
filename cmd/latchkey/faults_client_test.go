package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store/etcdtest"
)

// experiment is one client fault on a name of its own, with what is heard of it.
type experiment struct {
	w    *world
	c    *client
	name string
	at   int // the replica that it begins at
}

// experiments does the same at several names at once.
func (w *world) experiments(tr *trial, id string, n int, do func(*experiment)) {
	c := patient()
	defer c.http.CloseIdleConnections()
	var all sync.WaitGroup
	for i := range n {
		e := &experiment{w: w, c: c, name: fmt.Sprintf("%s/%s of its own/%d", tr.name, id, i), at: i + w.tries}
		all.Go(func() { do(e) })
	}
	all.Wait()
}

func (e *experiment) url(i int) string { return e.w.replicas[(e.at+i)%replicas].url() }

func (e *experiment) wrong(format string, args ...any) {
	e.w.t.Errorf("%q: %s", e.name, fmt.Sprintf(format, args...))
}

// asks claims the name, with a key or without, and asks elsewhere if the service says so: a busy machine is no fault.
func (e *experiment) asks(i int, key string, claim api.LockRequest) (a answer) {
	for began := time.Now(); ; i++ {
		a = e.c.claim(e.url(i), key, claim)
		if !a.elsewhere() || time.Since(began) > e.c.patience {
			e.w.secrets.own(a.lock.ID)
			return a
		}
		time.Sleep(tryAgain())
	}
}

// takes claims a name that nobody holds.
func (e *experiment) takes(i int, ttl int64) (answer, bool) {
	a := e.asks(i, rand.Text(), api.LockRequest{Name: e.name, TTLSeconds: ttl})
	if !a.held() {
		e.wrong("a free lock: %v", a)
	}
	return a, a.held()
}

// waits claims the name and waits for it.
func (e *experiment) waits(i int) <-chan answer {
	next := make(chan answer, 1)
	go func() {
		next <- e.asks(i, "", api.LockRequest{Name: e.name, TTLSeconds: actorTTL, WaitSeconds: vanishNextWait})
	}()
	return next
}

// stands waits until so many claims on the name stand.
func (e *experiment) stands(n int) bool { return e.w.stands(e.c, e.url(1), e.name, n) }

// nextWithin asks that the next is granted within a time.
func (e *experiment) nextWithin(next <-chan answer, since time.Time, most time.Duration, promise string) (answer, bool) {
	a := <-next
	if took := a.got.Sub(since); !a.held() || took > most+slack {
		e.wrong("%s: the next is granted within %v, but after %v is told %v", promise, most, took, a)
	}
	return a, a.held()
}

func (e *experiment) frees(a answer) {
	if err := e.c.releaseSurely(e.w.service, a.lock.ID); err != nil {
		e.wrong("%v", err)
	}
}

const holdersThatPause = 3

// holderPauses: the next is granted; what the sleeper does when it wakes is refused by a resource with the fencing rule,
// and destroys an update of one without.
func holderPauses(w *world, tr *trial) {
	w.experiments(tr, "F1", holdersThatPause, func(e *experiment) {
		fenced, bare := &resource{fenced: true}, &resource{}
		asleep, ok := e.takes(0, actorTTL)
		if !ok {
			return
		}
		read, _ := fenced.read(asleep.lock.FencingToken)
		readBare, _ := bare.read(asleep.lock.FencingToken)
		next, ok := e.nextWithin(e.waits(1), asleep.got, seconds(actorTTL)+expiryLag, "a lock that is not renewed")
		if !ok {
			return
		}
		if early := seconds(actorTTL) - next.got.Sub(asleep.sent); early > 0 {
			e.wrong("the next was granted %v before the end of the TTL", early)
		}
		value, _ := fenced.read(next.lock.FencingToken)
		valueBare, _ := bare.read(next.lock.FencingToken)
		if !fenced.write(next.lock.FencingToken, value+1) {
			e.wrong("the resource refuses its holder")
		}
		bare.write(next.lock.FencingToken, valueBare+1)

		// it wakes
		if fenced.write(asleep.lock.FencingToken, read+1) {
			e.wrong("the resource takes token %d after %d", asleep.lock.FencingToken, next.lock.FencingToken)
		}
		bare.write(asleep.lock.FencingToken, readBare+1)
		for i := range replicas {
			if a := e.c.renew(e.url(i), asleep.lock.ID); a.status != http.StatusNotFound && !a.elsewhere() {
				e.wrong("the renewal of a lock that ran out answers %v", a)
			}
			if a := e.c.release(e.url(i), asleep.lock.ID); a.status != http.StatusNotFound && !a.elsewhere() {
				e.wrong("the release of a lock that ran out answers %v", a)
			}
		}
		e.frees(next)
		if fenced.lost() != 0 {
			e.wrong("%d updates of a fenced resource were lost", fenced.lost())
		}
		if bare.lost() != 1 {
			e.wrong("%d updates of a resource without fencing were lost: it should have been shown to lose one", bare.lost())
		}
		w.report.lost(fenced.lost(), bare.lost())
	})
}

// waiterDisappears: one that closes or resets its line leaves the queue at once; one that falls silent costs those behind
// it at most its TTL.
func waiterDisappears(w *world, tr *trial) {
	const silent = 2
	w.experiments(tr, "F2", 3, func(e *experiment) {
		how := e.at % 3
		holder, ok := e.takes(0, actorLongTTL)
		if !ok {
			return
		}
		to := e.url(1)
		if how == silent {
			line := etcdtest.NewProxy(w.t, to[len("http://"):])
			defer line.Cut()
			to = "http://" + line.Addr()
			defer func() { line.Heal() }()
			defer line.Blackhole()
		}
		gone, err := send(to, api.LockRequest{Name: e.name, TTLSeconds: actorTTL, WaitSeconds: vanishNextWait})
		if err != nil {
			e.wrong("%v", err)
			return
		}
		defer gone.Close()
		e.stands(2)
		next := e.waits(2)
		if !e.stands(3) {
			e.wrong("a waiter is not listed")
		}
		if how != silent {
			vanish(gone, how == 1)
			if !e.stands(2) {
				e.wrong("a client that closes its line (reset: %v) leaves the queue within %v, but stands there still", how == 1, vanishNoticed)
			}
		}
		released := time.Now()
		e.frees(holder)
		most := handOffBound
		if how == silent {
			most = seconds(actorTTL) + expiryLag
		}
		if a, ok := e.nextWithin(next, released, most, "a waiter that has disappeared"); ok {
			e.frees(a)
		}
	})
}

const vanishings = 8

// waiterDisappearsAsGranted: without a key its grant costs the next at most its TTL; with one, whoever sends the claim
// again has it.
func waiterDisappearsAsGranted(w *world, tr *trial) {
	w.experiments(tr, "F3", vanishings, func(e *experiment) {
		holder, ok := e.takes(0, actorLongTTL)
		if !ok {
			return
		}
		key := ""
		if e.at%2 == 0 {
			key = rand.Text()
			w.secrets.own(key)
		}
		gone := &client{e.c.ctx, &http.Client{Transport: &http.Transport{}}, watchPatience}
		lost := make(chan answer, 1)
		claim := api.LockRequest{Name: e.name, TTLSeconds: actorTTL, WaitSeconds: vanishNextWait}
		ctx, vanish := context.WithCancel(gone.ctx)
		gone.ctx = ctx
		go func() { lost <- gone.claim(e.url(1), key, claim) }()
		if !e.stands(2) {
			e.wrong("a waiter is not listed")
		}
		go vanish()
		released := time.Now()
		e.frees(holder)
		told := <-lost
		gone.http.CloseIdleConnections()
		if key != "" {
			a := e.asks(2, key, claim)
			if !a.held() || told.held() && a.lock.FencingToken != told.lock.FencingToken {
				e.wrong("a claim that is sent again with its key is found (%v first), but answers %v", told, a)
				return
			}
			e.frees(a)
			return
		}
		if a, ok := e.nextWithin(e.waits(0), released, seconds(actorTTL)+expiryLag, "a waiter that disappears as it is granted"); ok {
			e.frees(a)
		}
	})
}

const (
	repeatedClaims = 4
	repeatsOfEach  = 6
)

// claimIsRepeated: sent again and again, at every replica, by a client that does not wait for answers, it is one claim.
func claimIsRepeated(w *world, tr *trial) {
	w.experiments(tr, "F4", repeatedClaims, func(e *experiment) {
		holder, ok := e.takes(0, actorLongTTL)
		if !ok {
			return
		}
		key := rand.Text()
		w.secrets.own(key)
		claim := api.LockRequest{Name: e.name, TTLSeconds: actorLongTTL, WaitSeconds: vanishNextWait, Holder: e.name}
		hasty := *e.c
		hasty.patience = -seconds(vanishNextWait) + 300*time.Millisecond
		var all sync.WaitGroup
		answers := make([]answer, repeatsOfEach)
		for i := range answers {
			hasty.claim(e.url(i), key, claim)
			all.Go(func() { answers[i] = e.asks(i, key, claim) })
		}
		if !e.stands(2) {
			e.wrong("however often it is sent, it is one claim")
		}
		e.frees(holder)
		all.Wait()
		for i, a := range answers {
			if !a.held() || a.lock.ID != answers[0].lock.ID || a.lock.FencingToken != answers[0].lock.FencingToken {
				e.wrong("every repeat is told of one grant (%v), but repeat %d of %v", answers[0], i, a)
			}
		}
		w.etcdSaid.catchUp(w.t)
		if tokens := w.etcdSaid.grantsTo(e.name); len(tokens) != 1 {
			e.wrong("one claim is granted once, but etcd saw tokens %d", tokens)
		}
		e.frees(answers[0])
		for i := range replicas { // whoever repeats it finds nothing
			if a := e.c.release(e.url(i), answers[0].lock.ID); a.status != http.StatusNotFound && !a.elsewhere() {
				e.wrong("the release of what was released answers %v", a)
			}
		}
	})
}

const (
	hastyIdle  = 700 * time.Millisecond
	hastyClaim = 4
)

// balancerIsHasty: it waits for less long than its clients, and sends a POST that it has no answer to once more. With a
// key, that is one claim; and the client is told of it in the end.
func balancerIsHasty(w *world, tr *trial) {
	w.balancer.idle.Store(int64(hastyIdle))
	defer w.balancer.idle.Store(int64(balancerIdle))
	w.experiments(tr, "F19", hastyClaim, func(e *experiment) {
		holder, ok := e.takes(0, actorLongTTL)
		if !ok {
			return
		}
		key := rand.Text()
		w.secrets.own(key)
		claim := api.LockRequest{Name: e.name, TTLSeconds: actorLongTTL, WaitSeconds: 2, Queue: true, Holder: e.name}
		if a := e.c.claim(w.balancer.url, key, claim); a.status != http.StatusGatewayTimeout {
			e.wrong("a balancer that waits %v has no answer to a wait of 2 s, but answers %v", hastyIdle, a)
		}
		if !e.stands(2) {
			e.wrong("a claim that a balancer repeats is one claim")
		}
		e.frees(holder)
		var a answer
		for began := time.Now(); !a.held() && time.Since(began) < answerBound; {
			a = e.c.claim(w.balancer.url, key, claim)
		}
		if !a.held() {
			e.wrong("a claim that is free now is granted through the balancer, but answers %v", a)
			return
		}
		w.secrets.own(a.lock.ID)
		w.etcdSaid.catchUp(w.t)
		if tokens := w.etcdSaid.grantsTo(e.name); len(tokens) != 1 {
			e.wrong("one claim is granted once, but etcd saw tokens %d", tokens)
		}
		e.frees(a)
	})
}

const (
	crowd       = 120
	aliveBound  = 500 * time.Millisecond
	crowdedName = 6
)

// manyComeAndGo: while hundreds come to wait, go at once, and come again, a replica says that it is alive, and nothing of
// them is left.
func manyComeAndGo(w *world, tr *trial) {
	w.experiments(tr, "F20", crowdedName, func(e *experiment) {
		holder, ok := e.takes(0, actorLongTTL)
		if !ok {
			return
		}
		ctx, vanish := context.WithCancel(e.c.ctx)
		leaving := *e.c
		leaving.ctx = ctx
		var gone sync.WaitGroup
		for i := range crowd / crowdedName {
			gone.Go(func() {
				leaving.claim(e.url(i), "", api.LockRequest{Name: e.name, TTLSeconds: actorTTL, WaitSeconds: vanishNextWait})
			})
		}
		e.stands(1 + crowd/crowdedName)
		vanish()
		gone.Wait()
		if !e.stands(1) {
			e.wrong("those who wait and go leave the queue, but stand there still")
		}
		for i := range replicas {
			if a := e.c.get(e.url(i) + "/healthz"); a.status != http.StatusOK || a.got.Sub(a.sent) > aliveBound+slack {
				e.wrong("a replica says within %v that it is alive, but: %v", aliveBound, a)
			}
		}
		next := e.waits(1)
		e.stands(2)
		released := time.Now()
		e.frees(holder)
		if a, ok := e.nextWithin(next, released, handOffBound, "many came and went"); ok {
			e.frees(a)
		}
	})
}
