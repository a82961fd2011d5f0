package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/api"
)

// client speaks to the service like any program. It may be used by many goroutines.
type client struct {
	ctx  context.Context
	http *http.Client
	// patience is how much longer than it asks to wait it waits for an answer.
	patience time.Duration
}

func newClient(t *testing.T) *client {
	t.Helper()
	lines := &http.Transport{MaxIdleConnsPerHost: 1024}
	t.Cleanup(lines.CloseIdleConnections)
	return &client{t.Context(), &http.Client{Transport: lines}, answerBound}
}

// answer is what the service said to a request, or why it said nothing.
type answer struct {
	status   int
	lock     api.Lock    // with 2xx
	problem  api.Problem // with the others
	replayed bool
	retry    string // Retry-After
	err      error

	sent, got time.Time
}

func (a answer) String() string {
	switch {
	case a.err != nil:
		return fmt.Sprintf("no answer after %v: %v", a.got.Sub(a.sent), a.err)
	case a.problem.Code != "":
		return fmt.Sprintf("%d %s after %v: %s", a.status, a.problem.Code, a.got.Sub(a.sent), a.problem.Detail)
	}
	return fmt.Sprintf("%d after %v, %s at position %d, token %d", a.status, a.got.Sub(a.sent), a.lock.State, a.lock.Position, a.lock.FencingToken)
}

func (a answer) held() bool   { return a.err == nil && a.lock.State == "held" }
func (a answer) queued() bool { return a.err == nil && a.lock.State == "queued" }

// elsewhere says that the same request is to be sent to another replica: the line died, or the service asks for that.
func (a answer) elsewhere() bool {
	return a.err != nil || a.status == http.StatusServiceUnavailable && a.problem.Code != "place_lost"
}

// answerBound is a patience that only a service which is stuck tries.
const answerBound = 30 * time.Second

func (c *client) do(method, url, key string, body any, wait time.Duration) (a answer) {
	ctx, cancel := context.WithTimeout(c.ctx, wait+c.patience)
	defer cancel()
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer{err: err}
		}
		sent = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, sent)
	if err != nil {
		return answer{err: err}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	a.sent = time.Now()
	defer func() { a.got = time.Now() }()
	resp, err := c.http.Do(req)
	if err != nil {
		a.err = err
		return a
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.err = err
		return a
	}
	a.status = resp.StatusCode
	a.replayed = resp.Header.Get("Idempotent-Replayed") == "true"
	a.retry = resp.Header.Get("Retry-After")
	switch {
	case len(text) == 0:
	case resp.StatusCode < 300:
		a.err = json.Unmarshal(text, &a.lock)
	default:
		a.err = json.Unmarshal(text, &a.problem)
	}
	return a
}

func (c *client) get(url string) answer { return c.do(http.MethodGet, url, "", nil, 0) }

// claim claims a name at a replica.
func (c *client) claim(replica, key string, claim api.LockRequest) answer {
	return c.do(http.MethodPost, replica+"/locks", key, claim, seconds(claim.WaitSeconds))
}

// poll asks for a claim.
func (c *client) poll(replica, id string, wait int64) answer {
	return c.do(http.MethodGet, fmt.Sprintf("%s/locks/%s?wait_seconds=%d", replica, id, wait), "", nil, seconds(wait))
}

func (c *client) look(replica, id string) answer { return c.get(replica + "/locks/" + id) }

func (c *client) renew(replica, id string) answer {
	return c.do(http.MethodPut, replica+"/leases/"+id, "", nil, 0)
}

func (c *client) release(replica, id string) answer {
	return c.do(http.MethodDelete, replica+"/locks/"+id, "", nil, 0)
}

// lease makes a lease of the client's own.
func (c *client) lease(s *service, ttl int64) (string, error) {
	for began := time.Now(); ; time.Sleep(tryAgain()) {
		a := c.do(http.MethodPost, s.any()+"/leases", "", api.LeaseRequest{TTLSeconds: ttl}, 0)
		if a.status == http.StatusCreated {
			return a.lock.ID, nil
		}
		if !a.elsewhere() || time.Since(began) > takerBound {
			return "", fmt.Errorf("a lease is asked for: %v", a)
		}
	}
}

// releaseSurely releases a lock, at one replica or another.
func (c *client) releaseSurely(s *service, id string) error { return c.removeSurely(s, "/locks/"+id) }

// endSurely ends a lease.
func (c *client) endSurely(s *service, id string) error { return c.removeSurely(s, "/leases/"+id) }

// removeSurely removes a lock or a lease. After a try of which nobody knows what it did, to find nothing is as good.
func (c *client) removeSurely(s *service, path string) error {
	unsure := false
	for began := time.Now(); ; time.Sleep(tryAgain()) {
		a := c.do(http.MethodDelete, s.any()+path, "", nil, 0)
		switch {
		case a.status == http.StatusNoContent, a.status == http.StatusNotFound && unsure:
			return nil
		case !a.elsewhere():
			return fmt.Errorf("a DELETE answers %v, want 204", a)
		case time.Since(began) > takerBound:
			return fmt.Errorf("no DELETE is done for %v: %v", takerBound, a)
		}
		unsure = true
	}
}

// list is the claims on a name, in the order of the queue.
func (c *client) list(replica, name string) ([]api.Lock, error) {
	req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, replica+"/locks?limit=1000&name="+url.QueryEscape(name), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the list answers %s", resp.Status)
	}
	var page api.LockList
	err = json.NewDecoder(resp.Body).Decode(&page)
	locks := make([]api.Lock, len(page.Locks))
	for i, l := range page.Locks {
		locks[i] = api.Lock(l)
	}
	return locks, err
}

// awaitClaims waits until there are n claims on the name, and returns how long that took.
func (c *client) awaitClaims(t *testing.T, replica, name string, n int, within time.Duration, promise string) time.Duration {
	t.Helper()
	return eventually(t, within, promise, func() bool {
		locks, err := c.list(replica, name)
		return err == nil && len(locks) == n
	})
}

// tryAgain is the pause before a request is sent to another replica.
func tryAgain() time.Duration { return 50*time.Millisecond + rand.N(100*time.Millisecond) }

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func keysUnder(t *testing.T, etcd *clientv3.Client, prefix string) []string {
	t.Helper()
	got, err := etcd.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]string, len(got.Kvs))
	for i, kv := range got.Kvs {
		keys[i] = strings.TrimPrefix(string(kv.Key), prefix)
	}
	return keys
}
