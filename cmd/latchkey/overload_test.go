package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// What TestOverload does.
const (
	keenHolders   = 50
	keenTTL       = 6
	keenEvery     = 2 * time.Second
	keenTurns     = 3 // renewals before a holder releases its lock and claims another
	floodTTL      = 10
	floodTimes    = 10 // what is offered, of what is served
	floodLines    = 3000
	floodKeepsOne = 50 // of so many locks that it is granted
	keptTTL       = 300
)

// TestOverload floods one replica with ten times the claims that it can serve. Whoever holds a lock and renews it in time keeps it,
// renewals and releases are answered, so is /healthz, and what is refused is told so. OWASP API4, API6.
func TestOverload(t *testing.T) {
	for name, args := range map[string][]string{"as it is": nil, "with few claims at once": {"--max-claims-at-once=128"}} {
		t.Run(name, func(t *testing.T) {
			r := startReplica(t, append(args, "--data-dir="+t.TempDir()+"/data")...)
			overload(t, r.url())
		})
	}
}

func overload(t *testing.T, replica string) {
	calm := newFlood(t, replica, "calm", 64)
	capacity := calm.run(time.Second, 0)
	t.Logf("served when there is not too much: %d claims and as many releases a second", capacity)
	if capacity == 0 {
		t.Fatal("nothing was served")
	}
	holders := newKeen(t, replica)
	end := probing(t, replica)
	f := newFlood(t, replica, "flood", floodLines)
	lasts := shortOrLong(4*time.Second, time.Minute)
	served := f.run(lasts, floodTimes*capacity)
	per := func(n *atomic.Int64) int64 { return n.Load() * int64(time.Second) / int64(lasts) }
	t.Logf("of %d claims a second, %d found no free line of %d; %d were served and %d refused a second, %d lines broke; refused as %v",
		floodTimes*capacity, per(&f.unsent), floodLines, served, per(&f.refused), f.broken.Load(), f.codes())
	end()
	holders.judge()
	if f.unsent.Load()+f.refused.Load() < int64(capacity) {
		t.Error("this was no overload")
	}
	f.judge(calm.kept)
}

// flood claims names nobody else wants, each once, and releases most of what it is granted.
type flood struct {
	t       *testing.T
	replica string
	name    string
	tickets chan struct{}
	all     sync.WaitGroup

	claims, served, refused, broken, unsent atomic.Int64

	mu      sync.Mutex
	kept    []api.Lock
	refusal map[string]int
}

func newFlood(t *testing.T, replica, name string, lines int) *flood {
	t.Helper()
	f := &flood{t: t, replica: replica, name: name, tickets: make(chan struct{}), refusal: map[string]int{}}
	for range lines {
		f.all.Go(f.work)
	}
	return f
}

// run offers so many claims a second, or as many as are served for 0, and returns how many are served a second.
func (f *flood) run(lasts time.Duration, rate int) (served int) {
	f.t.Helper()
	over := time.NewTimer(lasts)
	defer over.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	began, offered := time.Now(), 0
	for running := true; running; {
		if rate == 0 {
			select {
			case f.tickets <- struct{}{}:
			case <-over.C:
				running = false
			}
			continue
		}
		for due := int(time.Since(began).Seconds() * float64(rate)); offered < due; offered++ {
			select {
			case f.tickets <- struct{}{}:
			default:
				f.unsent.Add(1)
			}
		}
		select {
		case <-tick.C:
		case <-over.C:
			running = false
		}
	}
	served = int(float64(f.served.Load()) / time.Since(began).Seconds())
	close(f.tickets)
	f.all.Wait()
	return served
}

// work is one line, which claims when it gets a ticket.
func (f *flood) work() {
	var line *rawLine
	for range f.tickets {
		if line == nil {
			conn, err := net.DialTimeout("tcp", strings.TrimPrefix(f.replica, "http://"), bound)
			if err != nil {
				f.broken.Add(1)
				continue
			}
			line = &rawLine{conn, bufio.NewReader(conn)}
		}
		if err := f.claim(line); err != nil {
			f.broken.Add(1)
			line.conn.Close()
			line = nil
		}
	}
	if line != nil {
		line.conn.Close()
	}
}

func (f *flood) claim(line *rawLine) error {
	n, sent := f.claims.Add(1), time.Now()
	ttl := floodTTL
	keep := n%floodKeepsOne == 0
	if keep {
		ttl = keptTTL
	}
	got, text, err := line.ask("POST", "/locks", fmt.Sprintf(`{"name":"%s/%d","ttl_seconds":%d}`, f.name, n, ttl))
	if err != nil {
		return err
	}
	if got.StatusCode != http.StatusCreated {
		f.refusedAs(got, text, time.Since(sent))
		return nil
	}
	var lock api.Lock
	if err := json.Unmarshal(text, &lock); err != nil {
		return err
	}
	f.served.Add(1)
	if keep {
		f.mu.Lock()
		f.kept = append(f.kept, lock)
		f.mu.Unlock()
		return nil
	}
	return f.release(line, lock.ID)
}

// release releases a lock that was just granted. That this removed it says that it was there; so does, if it was not told what an
// earlier try did, that there is nothing to remove.
func (f *flood) release(line *rawLine, id string) error {
	unsure := false
	for began := time.Now(); ; {
		got, text, err := line.ask("DELETE", "/locks/"+id, "")
		switch {
		case err != nil:
			return err
		case got.StatusCode == http.StatusNoContent, got.StatusCode == http.StatusNotFound && unsure:
			return nil
		case got.StatusCode != http.StatusServiceUnavailable, time.Since(began) > bound:
			f.t.Errorf("the release of a lock that was just granted answers %d %s", got.StatusCode, text)
			return nil
		}
		unsure = true
	}
}

// heldBack is how long a refusal is, so that those who come back at once are not all that is done.
const heldBack = time.Second

// refusedAs judges a refusal: it says that there is too much, and when to come back.
func (f *flood) refusedAs(got *http.Response, text []byte, took time.Duration) {
	var told api.Problem
	err := json.Unmarshal(text, &told)
	f.refused.Add(1)
	f.mu.Lock()
	f.refusal[told.Code]++
	f.mu.Unlock()
	if told.Code == "overloaded" && took < heldBack {
		f.t.Errorf("a claim too many is refused after %v, and is to be held back for %v", took, heldBack)
	}
	if err != nil || got.StatusCode != http.StatusServiceUnavailable && got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" || got.Header.Get("Retry-After") == "0" {
		f.t.Errorf("a claim too many answers %d %s with Retry-After %q", got.StatusCode, text, got.Header.Get("Retry-After"))
	}
}

func (f *flood) codes() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refusal
}

// judge asks of everything that was granted and not released whether it is held, and that nothing else is in the end.
func (f *flood) judge(others []api.Lock) {
	f.t.Helper()
	c := newClient(f.t)
	kept := append(f.kept, others...)
	for _, lock := range kept {
		if got := c.renew(f.replica, lock.ID); got.status != http.StatusOK || got.lock.FencingToken != lock.FencingToken {
			f.t.Errorf("%q was granted with the token %d, and now a renewal answers %v", lock.Name, lock.FencingToken, got)
		}
		if got := c.release(f.replica, lock.ID); got.status != http.StatusNoContent {
			f.t.Errorf("its release answers %v", got)
		}
	}
	took := eventually(f.t, seconds(floodTTL)+slack, "of what was refused, nothing stands", func() bool {
		var page api.LockList
		got := hear(f.t, http.MethodGet, f.replica+"/locks?limit=1000", "")
		return json.Unmarshal([]byte(got.body), &page) == nil && got.status == http.StatusOK && len(page.Locks) == 0
	})
	f.t.Logf("all of %d locks that were kept were held to the end, and nothing else stood %v later", len(kept), took)
}

// rawLine speaks HTTP with as little effort as can be.
type rawLine struct {
	conn net.Conn
	in   *bufio.Reader
}

func (l *rawLine) ask(method, path, body string) (*http.Response, []byte, error) {
	l.conn.SetDeadline(time.Now().Add(answerBound))
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
	if _, err := l.conn.Write(out.Bytes()); err != nil {
		return nil, nil, err
	}
	resp, err := http.ReadResponse(l.in, nil)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, text, err
}

// keen are clients that hold a lock each and renew it in time, and now and then release it and claim another.
type keen struct {
	t       *testing.T
	replica string
	stop    context.CancelFunc
	all     sync.WaitGroup

	mu                         sync.Mutex
	renewals, releases, grants []time.Duration // how long they took
	again                      map[string]int  // what had to be sent again, by what was said
	late                       int             // renewals that were sent too late for a promise
}

func newKeen(t *testing.T, replica string) *keen {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	k := &keen{t: t, replica: replica, stop: stop, again: map[string]int{}}
	t.Cleanup(func() { stop(); k.all.Wait() })
	lines := newClient(t)
	var begun sync.WaitGroup
	for i := range keenHolders {
		begun.Add(1)
		k.all.Go(func() { k.hold(ctx, lines, i, begun.Done) })
	}
	begun.Wait()
	return k
}

func (k *keen) hold(ctx context.Context, c *client, i int, begun func()) {
	tick := time.NewTicker(1 + rand.N(keenEvery)) // not all at once
	defer tick.Stop()
	for turn := 0; ctx.Err() == nil; turn++ {
		got := k.until(c, &k.grants, func() answer {
			name := fmt.Sprintf("keen/%d/%d", i, turn)
			return c.claim(k.replica, "the only claim of "+name, api.LockRequest{Name: name, TTLSeconds: keenTTL})
		}, http.StatusCreated, ctx)
		if turn == 0 {
			begun()
		}
		if !got.held() {
			return
		}
		last := got.sent
		for n := 0; n < keenTurns && ctx.Err() == nil; n++ {
			select {
			case <-tick.C:
				tick.Reset(keenEvery)
			case <-ctx.Done():
				continue
			}
			var ok bool
			if last, ok = k.renew(c, got.lock, last); !ok {
				return
			}
		}
		k.until(c, &k.releases, func() answer { return c.release(k.replica, got.lock.ID) }, http.StatusNoContent, context.Background())
	}
}

// renew renews a lock that was last renewed then, and returns when that was sent.
func (k *keen) renew(c *client, lock api.Lock, last time.Time) (time.Time, bool) {
	got := k.until(c, &k.renewals, func() answer { return c.renew(k.replica, lock.ID) }, http.StatusOK, context.Background())
	switch {
	case got.status == http.StatusOK && got.lock.FencingToken == lock.FencingToken:
		return got.sent, true
	case got.status == http.StatusNotFound && got.sent.Sub(last) >= seconds(keenTTL):
		k.mu.Lock()
		k.late++
		k.mu.Unlock()
	default:
		k.t.Errorf("%q was renewed in time, %v after the last, and that answers %v", lock.Name, got.sent.Sub(last), got)
	}
	return last, false
}

// until sends a request until it is answered otherwise than that there is too much, and notes how long that took in all.
func (k *keen) until(c *client, took *[]time.Duration, send func() answer, want int, ctx context.Context) (got answer) {
	began, unsure := time.Now(), false
	for ; ; time.Sleep(tryAgain()) {
		got = send()
		if want == http.StatusNoContent && got.status == http.StatusNotFound && unsure {
			got.status = want
		}
		if got.err == nil && got.status != http.StatusServiceUnavailable && got.status != http.StatusTooManyRequests || ctx.Err() != nil || time.Since(began) > 2*bound {
			break
		}
		unsure = true
		k.mu.Lock()
		k.again[fmt.Sprint(want, " ", got.problem.Code)]++
		k.mu.Unlock()
	}
	if got.status != want && ctx.Err() == nil && want != http.StatusOK {
		k.t.Errorf("what must answer %d answers %v", want, got)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	*took = append(*took, time.Since(began))
	return got
}

func (k *keen) judge() {
	k.t.Helper()
	k.stop()
	k.all.Wait()
	for what, took := range map[string][]time.Duration{"renewals": k.renewals, "releases": k.releases, "claims of holders": k.grants} {
		if len(took) == 0 {
			k.t.Errorf("there were no %s", what)
			continue
		}
		slices.Sort(took)
		k.t.Logf("%d %s: median %v, p99 %v, slowest %v", len(took), what, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	}
	k.t.Logf("%d renewals were sent too late to be judged; sent again: %v", k.late, k.again)
	if k.late > keenHolders/10 {
		k.t.Errorf("%d of %d holders were kept from renewing in time", k.late, keenHolders)
	}
}
