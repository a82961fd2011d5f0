package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/latchkey/latchkey/api"
)

// tearing is a front of one replica. It carries each request there, and on a line that was used before it tears off
// every other answer: then Go's own client sends a request with a key again, and tells nobody.
type tearing struct {
	replica string
	carried atomic.Int64
	torn    atomic.Int64
}

type usesKey struct{}

func (f *tearing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := f.carried.Add(1)
	on, err := http.NewRequestWithContext(r.Context(), r.Method, f.replica+r.URL.RequestURI(), r.Body)
	if err != nil {
		panic(err)
	}
	on.Header = r.Header
	resp, err := http.DefaultTransport.RoundTrip(on)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if uses := r.Context().Value(usesKey{}).(*atomic.Int64); uses.Add(1) > 1 && n%2 == 0 {
		f.torn.Add(1)
		panic(http.ErrAbortHandler) // the line is cut before a byte of the answer
	}
	for _, name := range []string{"Content-Type", "Idempotent-Replayed"} {
		w.Header().Set(name, resp.Header.Get(name))
	}
	w.WriteHeader(resp.StatusCode)
	w.Write(body)
}

func newTearing(t *testing.T, replica string) (*tearing, string) {
	t.Helper()
	f := &tearing{replica: replica}
	front := httptest.NewUnstartedServer(f)
	front.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, usesKey{}, &atomic.Int64{})
	}
	front.Start()
	t.Cleanup(front.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return f, front.URL
}

// A claim with a key that the client's library sends again by itself, since its line was cut, is one claim: its answer is
// as good as the first one's, and nothing else stands.
func TestClaimsSentAgainByTheClientsLibraryAreOne(t *testing.T) {
	t.Parallel()
	const clients, each = 4, 20
	a, _ := twoReplicas(t)
	front, url := newTearing(t, a.url)
	c := newClient(t)
	var sent atomic.Int64
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			for i := range each {
				name := fmt.Sprintf("%d %d", n, i)
				sent.Add(1)
				got := c.claim(url, rand.Text(), api.LockRequest{Name: name})
				if !got.held() {
					t.Errorf("a free lock: %v", got)
					return
				}
				if locks, err := c.list(a.url, name); err != nil || len(locks) != 1 || locks[0].ID != got.lock.ID || locks[0].FencingToken != got.lock.FencingToken {
					t.Errorf("of one claim stands %+v (%v), want %+v alone", locks, err, got.lock)
				}
				if got := c.release(a.url, got.lock.ID); got.status != http.StatusNoContent {
					t.Errorf("release: %v", got)
				}
			}
		})
	}
	all.Wait()
	if front.torn.Load() == 0 || front.carried.Load() <= sent.Load() {
		t.Errorf("%d claims were sent %d times, %d answers torn off: nothing was sent again", sent.Load(), front.carried.Load(), front.torn.Load())
	}
}

// Clients whose numbers are doubles, as those of every browser, lose nothing of an answer: ids are text, and a token is
// the same number after it was read and written.
func TestAnswersLoseNothingInADouble(t *testing.T) {
	t.Parallel()
	a, b := twoReplicas(t)
	for i := range 20 {
		got := hear(t, http.MethodPost, a.url+"/locks", fmt.Sprintf(`{"name":"n%d"}`, i))
		var read map[string]any // numbers become float64
		if err := json.Unmarshal([]byte(got.body), &read); err != nil || got.status != http.StatusCreated {
			t.Fatalf("got %d %s, %v", got.status, got.body, err)
		}
		token, _ := read["fencing_token"].(float64)
		if text := strconv.FormatFloat(token, 'f', -1, 64); text != got.header.Get("Fencing-Token") || !strings.Contains(got.body, `"fencing_token":`+text+",") {
			t.Errorf("the token %s is read as %s", got.header.Get("Fencing-Token"), text)
		}
		id, _ := read["id"].(string)
		if got := hear(t, http.MethodPut, b.url+"/leases/"+id, ""); got.status != http.StatusOK {
			t.Errorf("renewed by the id as it was read: %d %s", got.status, got.body)
		}
		if got := hear(t, http.MethodDelete, b.url+"/locks/"+id, ""); got.status != http.StatusNoContent {
			t.Errorf("released by the id as it was read: %d %s", got.status, got.body)
		}
	}
}
