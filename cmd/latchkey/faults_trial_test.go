package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// trial is one or two faults, with clients at work before, during and after them, on names of its own.
type trial struct {
	w      *world
	name   string
	sites  []*site
	watch  []*watchman
	sure   sure
	stop   chan struct{}
	healed time.Time
	work   sync.WaitGroup
	paused atomic.Int64 // holders that slept past their TTL, and so on: the faults that clients are
	gone   atomic.Int64
	left   atomic.Int64
	again  atomic.Int64
	stale  atomic.Int64
}

const (
	actorsPerSite = 3
	pressing      = 8 // clients
	warmUp        = 400 * time.Millisecond
	shortHold     = 2 * time.Second
	longHold      = 12 * time.Second // longer than any registration and waiting lease
	// windDown is how long a client goes on asking for a definite answer when the trial is over.
	windDown = 30 * time.Second
)

// try lets clients work, does harm, makes it good and asks that everything moves again; then it checks what was said.
func (w *world) try(faults ...*fault) {
	w.t.Helper()
	w.tries++
	w.alone = len(faults) == 1
	names := faults[0].id
	for _, f := range faults[1:] {
		names += "+" + f.id
	}
	tr := &trial{w: w, name: fmt.Sprintf("%03d %s", w.tries, names), stop: make(chan struct{})}
	began := time.Now()
	end := sync.OnceFunc(func() { close(tr.stop); tr.work.Wait() })
	defer end()
	w.trial = tr
	tr.begin()
	w.pass(warmUp)
	how := tr.harm(faults)
	row := outcome{recovery: w.recovered(tr)}
	row.handOff = w.handOff(tr)
	row.free = w.etcdSaid.longestFree()
	if row.free > 0 && faults[0].inject == nil {
		row.free = 0 // no fault of the service
	}
	end()
	tr.judge(faults)
	w.report.add(faults, tr, row)
	w.t.Logf("%s: %s; %v in all; recovered after %v, hand-off %v, a queue without a holder for %v at most", tr.name, how,
		time.Since(began).Round(100*time.Millisecond), row.recovery.Round(time.Millisecond), row.handOff.Round(time.Millisecond),
		row.free.Round(time.Millisecond))
}

func (tr *trial) begin() {
	for i, tried := range []bool{true, false, false, false} {
		tr.sites = append(tr.sites, &site{prefix: fmt.Sprintf("%s/%d", tr.name, i), tried: tried})
	}
	for i, s := range tr.sites {
		for k := range actorsPerSite {
			n := i*actorsPerSite + k
			a := newActor(tr, s, n, rand.New(rand.NewPCG(tr.w.seed, uint64(tr.w.tries)<<16+uint64(n))))
			tr.work.Go(a.run)
		}
	}
	for r := range replicas {
		m := &watchman{w: tr.w, tr: tr, replica: r, name: fmt.Sprint(r)}
		tr.watch = append(tr.watch, m)
		tr.work.Go(m.works)
		tr.work.Go(m.waits)
	}
}

// press lets more clients claim, renew and release free locks at one replica.
func (tr *trial) press(r int) {
	for i := range pressing {
		m := &watchman{w: tr.w, tr: tr, replica: r, name: fmt.Sprintf("%d,%d", r, i)}
		tr.work.Go(m.works)
	}
}

// harm does the faults and makes them good: first what was done to etcd, as a replica starts only on a healthy one. It
// returns what was done, when etcd and all lines and replicas are well again.
func (tr *trial) harm(faults []*fault) (how string) {
	w := tr.w
	heal := map[subject][]func(){}
	var clients sync.WaitGroup
	for _, f := range faults {
		if f.client != nil {
			clients.Go(func() { f.client(w, tr) })
			how += f.what + "; "
			continue
		}
		said, undo := f.inject(w)
		how += said + "; "
		heal[f.subject] = append(heal[f.subject], undo)
	}
	if len(heal) > 0 {
		hold := shortHold
		if *faultsDuration > 0 {
			hold += time.Duration(w.rng.Int64N(int64(longHold - shortHold)))
		}
		w.pass(hold)
		how += fmt.Sprintf("for %v", hold.Round(100*time.Millisecond))
	}
	clients.Wait()
	for _, s := range []subject{onLines, onMembers, onReplicas} {
		for _, undo := range heal[s] {
			undo()
		}
		if s == onMembers && len(heal[s]) > 0 {
			w.settled()
		}
	}
	tr.healed = w.settled()
	return how
}

// pass lets time pass: what goes on meanwhile is the test.
func (w *world) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.t.Context().Done():
	}
}

// sleep lets a client sleep, no longer than the trial lasts.
func (tr *trial) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-tr.stop:
	}
}

func (tr *trial) over() bool {
	select {
	case <-tr.stop:
		return true
	default:
		return false
	}
}

// site is where some clients meet: a name, and when its history is long enough the next one.
type site struct {
	prefix string
	tried  bool

	mu  sync.Mutex
	all []*spot
}

// spot is one name, and the resources that the lock on it protects.
type spot struct {
	history
	fenced, bare resource
}

func (s *site) spot() *spot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.all); n == 0 || s.all[n-1].full() {
		p := &spot{
			history: history{name: fmt.Sprintf("%s/%d", s.prefix, n), tried: s.tried},
			fenced:  resource{fenced: true},
		}
		s.all = append(s.all, p)
	}
	return s.all[len(s.all)-1]
}
