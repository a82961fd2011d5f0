package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counted counts what is read of a body.
type counted struct {
	io.ReadCloser
	read *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// endless is a body of JSON that goes on as long as somebody reads it.
type endless struct{ begun bool }

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	if !e.begun {
		e.begun = true
		n = copy(p, `{"name":"`)
	}
	for i := n; i < len(p); i++ {
		p[i] = 'a'
	}
	return len(p), nil
}

// Of a body that is too large no more is read than is needed to see that, and what lets its sender hear the answer.
func TestLargeBodiesAreHardlyRead(t *testing.T) {
	t.Parallel()
	const large, each = 100 << 20, 25
	var read atomic.Int64
	fake := &fakeStore{t: t}
	s, err := New(fake, Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ts := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = counted{r.Body, &read}
		s.ServeHTTP(w, r)
	}), s.log)
	post := func(length int64) error {
		req, err := http.NewRequestWithContext(t.Context(), "POST", ts.URL+"/locks", io.LimitReader(&endless{}, large))
		if err != nil {
			return err
		}
		req.ContentLength = length
		req.Header.Set("Content-Type", "application/json")
		res, err := ts.Client().Do(req)
		if err != nil {
			return nil // it was still sending when the line was closed: it was refused as well
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return err
		}
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			return fmt.Errorf("got %d, want 413", res.StatusCode)
		}
		return nil
	}
	var all sync.WaitGroup
	for range each {
		for _, length := range []int64{large, -1} { // announced, and in chunks
			all.Go(func() {
				if err := post(length); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	ts.Close() // what is still read is read now
	most := int64(2*each) * (s.cfg.MaxBody + lingerBytes + 64<<10)
	if got := read.Load(); got == 0 || got > most {
		t.Errorf("of %d bodies of %d bytes %d were read, want at most %d", 2*each, large, got, most)
	}
}

// dear are bodies within the size that cost their reader the most.
func dear(size int) map[string]string {
	fill := func(begin, again, end string) string {
		return begin + strings.Repeat(again, max(0, size-len(begin)-len(end))/len(again)) + end
	}
	var pairs strings.Builder
	for i := 0; pairs.Len() < size-100; i++ {
		fmt.Fprintf(&pairs, `"%x":"",`, i)
	}
	return map[string]string{
		"nested arrays":  fill("", "[", ""),
		"nested objects": fill(`{"metadata":`, `{"a":`, ""),
		"many pairs":     `{"name":"a","metadata":{` + pairs.String() + `"z":""}}`,
		"many fields":    `{"name":"a",` + pairs.String() + `"z":""}`,
		"one pair again": fill(`{"name":"a","metadata":{`, `"k":"",`, `"k":""}}`),
		"escapes":        fill(`{"name":"`, `\u00e9`, `"}`),
		"surrogates":     fill(`{"name":"`, `\ud83d\ude00`, `"}`),
		"digits":         fill(`{"name":"a","ttl_seconds":`, "9", "}"),
		"exponent":       fill(`{"name":"a","ttl_seconds":1e`, "9", "}"),
		"empty objects":  fill(`{"name":"a","metadata":[`, "{},", "{}]}"),
	}
}

// What is dear to read is refused fast, and many of them at once keep nobody from being served.
func TestDearBodiesDelayNobody(t *testing.T) {
	t.Parallel()
	const (
		senders = 6
		one     = 2 * time.Second // what costs the square of its length takes many; a race detector on a busy machine needs one
	)
	ts := serve(t, &fakeStore{}, Config{})
	bodies := dear(64 << 10)
	for name, body := range bodies {
		began := time.Now()
		if got := do(t, ts, "POST", "/locks", body).problem(t); got.Code != "invalid_request" {
			t.Errorf("%s: got %+v", name, got)
		}
		if took := time.Since(began); took > one {
			t.Errorf("%s: refused after %v", name, took)
		}
	}

	var all sync.WaitGroup
	refused := make(chan error, senders*len(bodies))
	for range senders {
		all.Go(func() {
			for _, body := range bodies {
				res, err := ts.Client().Post(ts.URL+"/locks", "application/json", strings.NewReader(body))
				if err != nil {
					refused <- err
					continue
				}
				_, err = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != http.StatusBadRequest {
					err = errors.Join(err, fmt.Errorf("got %d, want 400", res.StatusCode))
				}
				refused <- err
			}
		})
	}
	longest := time.Duration(0)
	for done := 0; done < senders*len(bodies); done++ {
		if err := <-refused; err != nil {
			t.Error(err)
		}
		began := time.Now()
		if got := do(t, ts, "GET", "/healthz", ""); got.status != 200 {
			t.Errorf("beside them healthz answers %d", got.status)
		}
		longest = max(longest, time.Since(began))
	}
	all.Wait()
	if longest > patience/2 {
		t.Errorf("beside them healthz took %v", longest)
	}
	t.Logf("beside %d dear bodies healthz took %v at the most", senders*len(bodies), longest)
}
