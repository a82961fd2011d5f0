package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// healthPromise is how soon /healthz answers whatever else is going on. A test on a busy machine forgives healthSlack.
const (
	healthPromise = 500 * time.Millisecond
	healthSlack   = 2 * time.Second
)

// probing asks /healthz again and again until its end is called, which judges the slowest answer.
func probing(t *testing.T, replica string) (end func()) {
	t.Helper()
	c := newCaller(t, "", nil)
	stop, done := make(chan struct{}), make(chan []time.Duration)
	go func() {
		var took []time.Duration
		defer func() { done <- took }()
		for tick := time.NewTicker(lookAgain); ; {
			began := time.Now()
			if got, err := c.try(http.MethodGet, replica+"/healthz", ""); err != nil || got.status != http.StatusOK {
				t.Errorf("healthz answers %d %s, %v", got.status, got.body, err)
			}
			took = append(took, time.Since(began))
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		t.Helper()
		close(stop)
		took := <-done
		middle, slowest := median(took), took[len(took)-1] // which has sorted them
		t.Logf("healthz was asked %d times: median %v, slowest %v", len(took), middle, slowest)
		if slowest > healthSlack {
			t.Errorf("healthz answers within %v, and took %v", healthPromise, slowest)
		}
	}
}

// arrival is how long these tests let a header and a body take.
const arrival = 2 * time.Second

// abuse is a request that is no good, written until somebody has enough.
type abuse struct {
	begin string
	again string        // is written after it, again and again
	pause time.Duration // before each of them
	want  string        // of the answer's first line; "" is none
}

var abuses = map[string]abuse{
	"nothing at all":         {"", "", time.Hour, ""},
	"half a first line":      {"GET /heal", "", time.Hour, ""},
	"slow header":            {"GET /locks HTTP/1.1\r\nHost: a\r\nX: ", "a", 100 * time.Millisecond, ""},
	"slow header lines":      {"GET /locks HTTP/1.1\r\nHost: a\r\n", "X: a\r\n", 100 * time.Millisecond, ""},
	"endless header":         {"GET /locks HTTP/1.1\r\nHost: a\r\nX: ", strings.Repeat("a", 4096), 0, " 431 "},
	"endless header lines":   {"GET /locks HTTP/1.1\r\nHost: a\r\n", strings.Repeat("X: a\r\n", 500), 0, " 431 "},
	"endless URL":            {"GET /locks?", strings.Repeat("a", 4096), 0, " 431 "},
	"slow body":              {post + "Content-Length: 1000\r\n\r\n{", " ", 100 * time.Millisecond, " 408 "},
	"no body":                {post + "Content-Length: 1000\r\n\r\n", "", time.Hour, " 408 "},
	"slow chunks":            {post + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "1\r\n \r\n", 100 * time.Millisecond, " 408 "},
	"no last chunk":          {post + "Transfer-Encoding: chunked\r\n\r\n14\r\n{\"name\":\"abused\"}   \r\n", "", time.Hour, " 408 "},
	"endless chunks":         {post + "Transfer-Encoding: chunked\r\n\r\n", "1000\r\n" + strings.Repeat(" ", 4096) + "\r\n", 0, " 413 "},
	"endless tiny chunks":    {post + "Transfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\n \r\n", 1000), 0, " 4"},
	"endless chunk line":     {post + "Transfer-Encoding: chunked\r\n\r\n1;", strings.Repeat("a", 4096), 0, " 400 "},
	"endless trailers":       {post + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", strings.Repeat("X: a\r\n", 500), 0, " 4"},
	"endless body":           {post + "Content-Length: 1000000000000\r\n\r\n", strings.Repeat(" ", 4096), 0, " 413 "},
	"a body too large to be": {post + "Content-Length: 99999999999999999999\r\n\r\n", strings.Repeat(" ", 4096), 0, " 400 "},
}

const post = "POST /locks HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"

// TestRequestsThatNeverEndAreCutOff: slow or endless, over TLS and without, many at a time. Each is refused or dropped within its
// time, none claims anything, and others are answered meanwhile. OWASP API4.
func TestRequestsThatNeverEndAreCutOff(t *testing.T) {
	each := shortOrLong(2, 25)
	ours := newAuthority(t)
	bounds := []string{"--header-timeout=" + arrival.String(), "--body-timeout=" + arrival.String(), "--max-header=8192"}
	plain, _ := twoReplicas(t, bounds...)
	cert, key := ours.issue(t)
	_, secure := newRealm(t, "a", lockEverything).replicas(append(bounds, "--tls-cert="+cert, "--tls-key="+key)...)
	end := probing(t, plain.url)
	var all sync.WaitGroup
	answered := map[string]*atomic.Int64{} // as wanted
	for what, abuse := range abuses {
		n := &atomic.Int64{}
		answered[what] = n
		for range each {
			all.Go(func() { cutOff(t, what, dialRaw(t, plain.url), abuse, abuse.want, n) })
			all.Go(func() {
				want := abuse.want
				if strings.HasPrefix(abuse.begin, post) {
					want = " 4" // as nobody it is refused for that, if not for the other
				}
				cutOff(t, what+", over TLS", dialTLS(t, secure.url, ours), abuse, want, n)
			})
		}
	}
	all.Go(func() {
		cutOff(t, "no TLS handshake", dialRaw(t, secure.url), abuses["nothing at all"], "", &atomic.Int64{})
	})
	hello := abuse{begin: "\x16\x03\x01\x02\x00\x01", again: "\x00", pause: 100 * time.Millisecond}
	all.Go(func() { cutOff(t, "a slow TLS handshake", dialRaw(t, secure.url), hello, "", &atomic.Int64{}) })
	all.Wait()
	end()
	for what, n := range answered {
		if n.Load() == 0 {
			t.Errorf("%s is never answered%s", what, abuses[what].want)
		}
	}
	if _, list := ask(t, http.MethodGet, plain.url+"/locks", ""); len(list["locks"].([]any)) != 0 {
		t.Errorf("requests that never ended have claimed %v", list)
	}
}

// dialRaw speaks no TLS even where it is expected.
func dialRaw(t *testing.T, replica string) net.Conn {
	line, err := net.DialTimeout("tcp", strings.TrimPrefix(strings.TrimPrefix(replica, "http://"), "https://"), bound)
	if err != nil {
		t.Error(err)
		return nil
	}
	return line
}

// dialTLS returns nil where there are too many handshakes at one time for each to be in time.
func dialTLS(t *testing.T, replica string, by *authority) net.Conn {
	line, err := tls.Dial("tcp", strings.TrimPrefix(replica, "https://"), by.client())
	if err != nil {
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		return nil
	}
	return line
}

// cutOff abuses a line, which must be answered as wanted and closed within the time that there is for it. Whoever writes as fast as
// they can may lose the answer with the line.
func cutOff(t *testing.T, how string, line net.Conn, a abuse, want string, answered *atomic.Int64) {
	if line == nil {
		return
	}
	defer line.Close()
	began := time.Now()
	line.SetDeadline(began.Add(arrival + slack + bound))
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		next := time.NewTimer(0)
		defer next.Stop()
		for text := a.begin; ; text = a.again {
			select {
			case <-next.C:
				next.Reset(a.pause)
			case <-stop:
				return
			}
			if _, err := io.WriteString(line, text); err != nil {
				return
			}
		}
	})
	// all of the answer, until the line ends: with a reset too, as it was still written to
	answer, err := io.ReadAll(line)
	took := time.Since(began)
	close(stop)
	line.SetDeadline(time.Now())
	writing.Wait()
	first, _, _ := strings.Cut(string(answer), "\r\n")
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout(), took > arrival+slack:
		t.Errorf("%s: the line was open for %v, want at most %v and a little; it said %q", how, took, arrival, first)
	case want == "" && first != "" && !strings.Contains(first, " 408 ") && !strings.Contains(first, " 400 "):
		t.Errorf("%s: it is answered %q, want nothing", how, answer)
	case a.pause == 0 && (first == "" || strings.Contains(first, " 4") && !strings.Contains(first, want)):
	case want != "" && !strings.Contains(first, want):
		t.Errorf("%s: it is answered %q (%v), want%s", how, first, err, want)
	default:
		answered.Add(1)
	}
}

// idle are lines that say nothing.
type idle struct {
	opened int
	closed atomic.Int64 // by the other side
}

func (l *idle) gone() int { return int(l.closed.Load()) }

// idleLines opens so many of them, and closes them in the end. What was reset before it was open is none.
func idleLines(t *testing.T, replica string, n int) *idle {
	t.Helper()
	var (
		lines   = &idle{}
		mu      sync.Mutex
		opened  []net.Conn
		all     sync.WaitGroup
		readers sync.WaitGroup
	)
	t.Cleanup(func() {
		for _, line := range opened {
			line.Close()
		}
		readers.Wait()
	})
	const dialers = 16
	for i := range dialers {
		all.Go(func() {
			for range (n + i) / dialers {
				line, err := net.DialTimeout("tcp", strings.TrimPrefix(replica, "http://"), bound)
				if errors.Is(err, syscall.ECONNRESET) {
					continue
				} else if err != nil {
					t.Errorf("dial: %v", err)
					return
				}
				readers.Go(func() {
					io.Copy(io.Discard, line)
					lines.closed.Add(1)
				})
				mu.Lock()
				opened = append(opened, line)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	lines.opened = len(opened)
	return lines
}

func metricOf(t *testing.T, c *caller, at, name string) string {
	t.Helper()
	for line := range strings.Lines(c.do(http.MethodGet, at+"/metrics", "").body) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strings.TrimSpace(value)
		}
	}
	return fmt.Sprintf("no metric %s", name)
}
