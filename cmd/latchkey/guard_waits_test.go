package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// The server's own bounds on headers, bodies and writes are 10 s, and so is the heartbeat of its streams.
const (
	ownBounds = 10 * time.Second
	heartbeat = 10 * time.Second
)

// A wait that is silent for longer than any bound of the server ends in a whole answer, and a stream that is says
// something meanwhile, at its time, and then brings its grant.
func TestSilenceLongerThanEveryBoundEndsInAGrant(t *testing.T) {
	t.Parallel()
	a, b := twoReplicas(t)
	c := newClient(t)
	silences := shortOrLong([]time.Duration{ownBounds + 2*time.Second}, []time.Duration{
		time.Second, 5 * time.Second, ownBounds + time.Second, 15 * time.Second, 20 * time.Second, 25 * time.Second, 31 * time.Second,
		35 * time.Second, 40 * time.Second, 45 * time.Second, 50 * time.Second, 54 * time.Second,
	})
	var all sync.WaitGroup
	for _, silence := range silences {
		for _, how := range []string{"wait", "poll", "stream"} {
			name := fmt.Sprint(how, " of ", silence)
			holder := c.claim(a.url, "", api.LockRequest{Name: name, TTLSeconds: 120})
			if !holder.held() {
				t.Fatalf("a free lock: %v", holder)
			}
			place, line := "", dialTo(t, b.url)
			defer line.Close()
			if how != "wait" {
				got := c.claim(b.url, "", api.LockRequest{Name: name, Queue: true})
				if !got.queued() {
					t.Fatalf("a place: %v", got)
				}
				place = got.lock.ID
			}
			all.Go(func() {
				most := int64(55)
				switch how {
				case "wait":
					if got := c.claim(b.url, "", api.LockRequest{Name: name, WaitSeconds: most}); !got.held() {
						t.Errorf("%s: %v", name, got)
					}
				case "poll":
					if got := c.poll(b.url, place, most); !got.held() {
						t.Errorf("%s: %v", name, got)
					}
				case "stream":
					followToItsGrant(t, line, name, place, silence)
				}
			})
			all.Go(func() {
				over := time.NewTimer(silence)
				<-over.C
				if got := c.release(a.url, holder.lock.ID); got.status != http.StatusNoContent {
					t.Errorf("%s: release: %v", name, got)
				}
			})
		}
	}
	all.Wait()
}

// followToItsGrant reads a stream to its end and looks when its heartbeats came.
func followToItsGrant(t *testing.T, line net.Conn, name, id string, silence time.Duration) {
	line.SetDeadline(time.Now().Add(silence + bound))
	if _, err := io.WriteString(line, "GET /locks/"+id+"/events HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Error(err)
		return
	}
	last, beats, granted := time.Now(), 0, false
	for lines := bufio.NewScanner(line); !granted && lines.Scan(); {
		text := lines.Text()
		granted = text == "event: held"
		if strings.HasPrefix(text, ":") {
			beats++
			if gap := time.Since(last); gap < heartbeat/2 || gap > heartbeat+slack/2 {
				t.Errorf("%s: its heartbeat came after %v, want %v", name, gap, heartbeat)
			}
		}
		if strings.HasPrefix(text, ":") || strings.HasPrefix(text, "event:") {
			last = time.Now()
		}
	}
	if want := int(silence/heartbeat) - 1; !granted || beats < want || beats == 0 && silence > ownBounds+time.Second {
		t.Errorf("%s: granted %v after %d heartbeats, want at least %d", name, granted, beats, want)
	}
}
