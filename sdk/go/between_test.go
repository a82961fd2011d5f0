package latchkey_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// between is something that answers in the service's place, or in place of its answer.
func between(t *testing.T, answer http.HandlerFunc) string {
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return server.URL
}

func page(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Location", "https://login.example.com/")
		w.WriteHeader(status)
		fmt.Fprint(w, "<html>")
	}
}

// handOn sends a request to the shared server, and returns its answer.
func handOn(t *testing.T, req *http.Request) *http.Response {
	t.Helper()
	again, err := http.NewRequest(req.Method, shared+req.URL.RequestURI(), req.Body)
	if err != nil {
		t.Error(err)
		return nil
	}
	again.Header = req.Header
	var line http.Transport
	defer line.CloseIdleConnections()
	resp, err := line.RoundTrip(again)
	if err != nil {
		t.Error(err)
	}
	return resp
}

func TestAnswerOfSomethingBetweenLetsTheNextServerBeAsked(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 400, 401, 403, 404, 410, 500, 520, 524} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			strange := between(t, page(status))
			both := newClient(t, latchkey.Config{Servers: []string{strange, shared}})
			mustLock(t, both, fmt.Sprint("between/", status), latchkey.LockOptions{})
			alone := newClient(t, latchkey.Config{Servers: []string{strange}, Timeout: time.Second})
			_, err := alone.Lock(within(t), "between", latchkey.LockOptions{})
			as[*latchkey.UnreachableError](t, err)
			_, err = alone.Claim(within(t), latchkey.ClaimRequest{Name: "between"})
			as[*latchkey.UnreachableError](t, err)
			if told := as[*latchkey.Error](t, err); told.Status != status {
				t.Errorf("told %v, want status %d", err, status)
			}
		})
	}
}

// TestClaimThatWasPerhapsDoneIsRepeated: it was, and the answer is another's, or says that the service failed.
func TestClaimThatWasPerhapsDoneIsRepeated(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"500": page(500), "520": page(520), "524": page(524),
		"internal": func(w http.ResponseWriter, _ *http.Request) { refuse(w, 500, "internal") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var posts atomic.Int64
			c := newClient(t, latchkey.Config{Servers: []string{between(t, func(w http.ResponseWriter, req *http.Request) {
				resp := handOn(t, req)
				defer resp.Body.Close()
				if req.Method == http.MethodPost && posts.Add(1) == 1 {
					answer(w, req)
					return
				}
				w.WriteHeader(resp.StatusCode)
				io.Copy(w, resp.Body)
			})}})
			lock := mustLock(t, c, "perhaps/"+name, latchkey.LockOptions{})
			if all := claims(t, newClient(t, latchkey.Config{}), lock.Name()); len(all) != 1 || all[0].ID != lock.ID() {
				t.Errorf("the claims are %+v, want the lock's", all)
			}
		})
	}
}

func TestClaimThatWasPerhapsDoneIsTakenBackWhenItIsRefused(t *testing.T) {
	t.Parallel()
	var posts atomic.Int64
	c := newClient(t, latchkey.Config{Servers: []string{between(t, func(w http.ResponseWriter, req *http.Request) {
		var n int64
		if req.Method == http.MethodPost {
			n = posts.Add(1)
		}
		if n == 2 {
			refuse(w, http.StatusForbidden, "forbidden")
			return
		}
		resp := handOn(t, req)
		defer resp.Body.Close()
		if n == 1 {
			panic(http.ErrAbortHandler) // cut
		}
		w.WriteHeader(resp.StatusCode)
		io.Copy(w, resp.Body)
	})}})
	_, err := c.Lock(within(t), "cut, then 403", latchkey.LockOptions{TTL: time.Hour})
	wantIs(t, err, latchkey.ErrForbidden)
	if all := claims(t, newClient(t, latchkey.Config{}), "cut, then 403"); len(all) != 0 {
		t.Errorf("the claims are %+v, want none", all)
	}
}
