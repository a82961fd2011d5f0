package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// listener hears the names of a stream's events.
type listener struct{ heard chan string }

// listen opens a stream and hears it until it or the test ends.
func (c *client) listen(t *testing.T, url string) *listener {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		t.Fatalf("a stream answers %s", resp.Status)
	}
	l := &listener{make(chan string, 1024)}
	ended := make(chan struct{})
	t.Cleanup(func() { resp.Body.Close(); <-ended })
	go func() {
		defer close(ended)
		defer close(l.heard)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				l.heard <- name
			}
		}
	}()
	return l
}

// await waits for an event.
func (l *listener) await(t *testing.T, within time.Duration, name string) {
	t.Helper()
	late := time.After(within)
	var others []string
	for {
		select {
		case heard, open := <-l.heard:
			if heard == name {
				return
			}
			if !open {
				t.Fatalf("the stream ended without an event %q, after %q", name, others)
			}
			others = append(others, heard)
		case <-late:
			t.Fatalf("no event %q within %v, but %q", name, within, others)
		}
	}
}

// hint claims as a client would that wants to be served before others.
func (c *client) hint(replica, key string, claim api.LockRequest) (a answer) {
	body, err := json.Marshal(claim)
	if err != nil {
		return answer{err: err}
	}
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, replica+"/locks", bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	for header, value := range map[string]string{
		"Content-Type": "application/json", "Idempotency-Key": key, "Retry": "true", "Retry-Attempt": "99", "Priority": "u=0",
		"X-Queue-Position": "0", "X-Retry-Count": "99", "X-Forwarded-For": "127.0.0.1", "Prefer": "wait=0",
	} {
		req.Header.Set(header, value)
	}
	return c.send(req)
}

// send sends a request that is made already.
func (c *client) send(req *http.Request) (a answer) {
	a.sent = time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	a.status = resp.StatusCode
	if resp.StatusCode < 300 {
		a.err = json.NewDecoder(resp.Body).Decode(&a.lock)
	} else {
		a.err = json.NewDecoder(resp.Body).Decode(&a.problem)
	}
	a.got = time.Now()
	return a
}

// text is the answer as it was written.
func (c *client) text(method, url string) (string, error) {
	req, err := http.NewRequestWithContext(c.ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
