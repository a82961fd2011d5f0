package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// What a client that vanishes costs the next: nothing if that is noticed, its TTL if it is not.
const (
	vanishTTL      = 3
	vanishNoticed  = 2 * time.Second
	vanishWorkers  = 6
	vanishNextWait = 30
)

// moment is when a client vanishes.
type moment int

const (
	afterAsking moment = iota // its request is sent; the lock is free
	whileQueuing
	whileWaiting
	whenGranted
	moments
)

func (m moment) String() string {
	return [...]string{"after asking for a free lock", "right after its request", "while it waits", "at the instant of its grant"}[m]
}

// clientsThatVanishAreNoHindrance: whenever and however a client goes that has neither key nor id, the queue moves on and
// nothing is left.
func clientsThatVanishAreNoHindrance(t *testing.T, s *service) {
	rounds := shortOrLong(4, 50)
	v := &vanishing{t: t, s: s, c: newClient(t), took: map[moment][]time.Duration{}}
	jobs := make(chan func())
	var workers sync.WaitGroup
	for range vanishWorkers {
		workers.Go(func() {
			for job := range jobs {
				job()
			}
		})
	}
	for round := range rounds {
		for when := range moments {
			for _, how := range []string{"FIN", "RST"} {
				jobs <- func() { v.once(fmt.Sprintf("vanish %d %d %s", round, when, how), when, how == "RST") }
			}
		}
	}
	close(jobs)
	workers.Wait()
	for when := range moments {
		took := v.took[when]
		slices.Sort(took)
		if len(took) > 0 {
			t.Logf("vanished %v: the next was granted after %v half of the times, %v the longest", when, quantile(took, 0.5), quantile(took, 1))
		}
	}
}

type vanishing struct {
	t    *testing.T
	s    *service
	c    *client
	mu   sync.Mutex
	took map[moment][]time.Duration
}

func (v *vanishing) once(name string, when moment, reset bool) {
	where := fmt.Sprintf("client gone %v (reset %v)", when, reset)
	var holder answer
	if when != afterAsking {
		if holder = v.c.claim(v.s.any(), "", api.LockRequest{Name: name, TTLSeconds: 60}); !holder.held() {
			v.t.Errorf("%s: a free lock: %v", where, holder)
			return
		}
	}
	line, err := send(v.s.any(), api.LockRequest{Name: name, TTLSeconds: vanishTTL, WaitSeconds: vanishNextWait})
	if err != nil {
		v.t.Errorf("%s: %v", where, err)
		return
	}
	defer line.Close()
	if when >= whileWaiting && !v.stand(name, 2) {
		v.t.Errorf("%s: its claim is not listed", where)
		return
	}
	if when < whileWaiting {
		vanish(line, reset)
	}
	next := make(chan answer, 1)
	go func() {
		next <- v.c.claim(v.s.any(), "", api.LockRequest{Name: name, TTLSeconds: vanishTTL, WaitSeconds: vanishNextWait})
	}()
	if when == whileWaiting {
		if !v.stand(name, 3) {
			v.t.Errorf("%s: the next one's claim is not listed", where)
			return
		}
		vanish(line, reset)
		left := time.Now()
		if !v.stand(name, 2) {
			v.t.Errorf("%s: a client that waits without key and id leaves the queue when its line drops, normally within %v, but stood in it for %v", where, vanishNoticed, time.Since(left))
		}
	}
	if when == whenGranted {
		v.stand(name, 3)
		go vanish(line, reset)
	}
	since := time.Now()
	if holder.held() {
		if err := v.c.releaseSurely(v.s, holder.lock.ID); err != nil {
			v.t.Errorf("%s: %v", where, err)
		}
	}
	a := <-next
	took := a.got.Sub(since)
	if !a.held() || took > seconds(vanishTTL)+expiryLag+slack {
		v.t.Errorf("%s: it costs the next at most its TTL (%d s) and %v, but after %v the next is told %v", where, vanishTTL, expiryLag, took, a)
		return
	}
	v.mu.Lock()
	v.took[when] = append(v.took[when], took)
	v.mu.Unlock()
	if err := v.c.releaseSurely(v.s, a.lock.ID); err != nil {
		v.t.Errorf("%s: %v", where, err)
	}
	if !v.stand(name, 0) {
		v.t.Errorf("%s: nothing is left of it, but a claim still stands", where)
	}
}

// stand waits until n claims on the name stand.
func (v *vanishing) stand(name string, n int) bool {
	for began := time.Now(); time.Since(began) < vanishNoticed+slack; time.Sleep(lookAgain) {
		if locks, err := v.c.list(v.s.any(), name); err == nil && len(locks) == n {
			return true
		}
	}
	return false
}

// send sends a claim on a line of its own and does not wait for the answer.
func send(replica string, claim api.LockRequest) (*net.TCPConn, error) {
	line, err := net.Dial("tcp", strings.TrimPrefix(replica, "http://"))
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(claim)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(line, "%s /locks HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", http.MethodPost, len(body), body)
	return line.(*net.TCPConn), err
}

func vanish(line *net.TCPConn, reset bool) {
	if reset {
		line.SetLinger(0)
	}
	line.Close()
}
