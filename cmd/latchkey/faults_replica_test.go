package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// again starts a replica that has ended, and reads what it logged before.
func (w *world) again(r int) {
	w.readLog(r)
	w.replicas[r].start()
	w.comeBack(r)
}

func replicaKilled(w *world) (string, func()) {
	r := w.rng.IntN(replicas)
	w.leave(r)
	w.replicas[r].kill()
	return fmt.Sprintf("replica %d killed", r), func() { w.again(r) }
}

func replicaStopped(w *world) (string, func()) {
	r := w.rng.IntN(replicas)
	w.leave(r)
	w.replicas[r].stop()
	return fmt.Sprintf("replica %d stopped", r), func() { w.again(r) }
}

func replicaPaused(w *world) (string, func()) {
	r := w.rng.IntN(replicas)
	w.leave(r)
	w.replicas[r].pause()
	return fmt.Sprintf("replica %d paused", r), func() {
		w.replicas[r].resume()
		w.comeBack(r)
	}
}

// Of the time, a starved process runs a tenth.
const (
	starvedRuns  = 10 * time.Millisecond
	starvedStops = 90 * time.Millisecond
)

// starved stops a replica or a member most of the time: without privileges that is the nearest to a machine that has no
// processor or no disk for it.
func starved(w *world) (string, func()) {
	r := w.rng.IntN(replicas)
	member := choose(w, true, false) && w.alone // beside another member's trouble there would be no quorum
	stop, start := func() { w.replicas[r].pause() }, func() { w.replicas[r].resume() }
	how := fmt.Sprintf("replica %d starved", r)
	if member {
		signal := w.etcd.Signaller(r)
		stop, start = func() { signal(syscall.SIGSTOP) }, func() { signal(syscall.SIGCONT) }
		how = fmt.Sprintf("member %d starved", r)
	} else {
		w.leave(r)
	}
	end := w.every(starvedRuns, func() {
		stop()
		time.Sleep(starvedStops)
		start()
	})
	return how, func() {
		end()
		if !member {
			w.comeBack(r)
		}
	}
}

// The longest that a delayed line delays.
const mostDelay = 5 * time.Second

func replicaCutOff(w *world) (string, func()) {
	r := w.rng.IntN(replicas)
	delay := time.Duration(500+w.rng.Int64N(int64(mostDelay/time.Millisecond)-500)) * time.Millisecond
	ways := []struct {
		how string
		do  func(*etcdtest.Proxy)
	}{
		{"cut", func(p *etcdtest.Proxy) { p.Cut() }},
		{"dark", func(p *etcdtest.Proxy) { p.Blackhole() }},
		{"dark towards etcd", func(p *etcdtest.Proxy) { p.Blackhole(etcdtest.ToServer) }},
		{"dark from etcd", func(p *etcdtest.Proxy) { p.Blackhole(etcdtest.ToClient) }},
		{fmt.Sprintf("slower by %v", delay), func(p *etcdtest.Proxy) { p.Delay(delay) }},
		{"reset", func(p *etcdtest.Proxy) { p.Reset() }},
	}
	if choose(w, true, false) {
		way := choose(w, ways...)
		w.eachLine(r, way.do)
		return fmt.Sprintf("lines of replica %d %s", r, way.how), func() {
			w.eachLine(r, (*etcdtest.Proxy).Heal)
		}
	}
	// what is sent on this line arrives when it has been given up and done through another
	m := w.rng.IntN(members)
	if w.alone {
		m = w.etcd.Leader()
	}
	late := leastLate + time.Duration(w.rng.Int64N(int64(mostLate-leastLate)))
	w.lines[r][m].Delay(late, etcdtest.ToServer)
	w.trial.press(r)
	return fmt.Sprintf("line of replica %d to member %d slower by %v towards etcd", r, m, late.Round(time.Millisecond)), w.lines[r][m].Heal
}

// A line is late by more than one attempt of a request waits, and by less than the request does.
const (
	leastLate = requestBound * 3 / 10
	mostLate  = requestBound * 6 / 10
)

// Replies are swallowed one here, one there.
const swallowEvery = 120 * time.Millisecond

// repliesLost loses single replies on all lines in turn, and now and then all that one replica is told for a while.
func repliesLost(w *world) (string, func()) {
	r, order, n := w.rng.IntN(replicas), w.rng.Perm(replicas*members), 0
	end := w.every(swallowEvery, func() {
		if n++; n%5 > 0 {
			at := order[n%len(order)]
			w.lines[at/members][at%members].Swallow(1)
			return
		}
		w.eachLine(r, func(p *etcdtest.Proxy) { p.Blackhole(etcdtest.ToClient) })
		time.Sleep(swallowEvery)
		w.eachLine(r, func(p *etcdtest.Proxy) { p.Reset(); p.Heal() })
	})
	return "replies swallowed", func() {
		end()
		for r := range replicas {
			w.eachLine(r, func(p *etcdtest.Proxy) { p.Reset(); p.Heal() })
		}
	}
}
