package latchkey_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// TestTokenSourceThatBlocksHoldsNothingUp though it does not look at its context.
func TestTokenSourceThatBlocksHoldsNothingUp(t *testing.T) {
	t.Parallel()
	refused := func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusUnauthorized, "unauthorized") }
	service := play(t, holding(3, map[string]http.HandlerFunc{http.MethodPut: refused, http.MethodDelete: refused}))
	blocked := make(chan struct{})
	t.Cleanup(func() { close(blocked) })
	var asked atomic.Int64
	c := newClient(t, latchkey.Config{Servers: []string{service.URL}, Timeout: time.Second, TokenSource: func(context.Context) (string, error) {
		if asked.Add(1) > 1 {
			<-blocked
		}
		return "lk_first", nil
	}})
	lock, err := c.Lock(within(t), playedName, latchkey.LockOptions{TTL: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	as[*latchkey.UncertainError](t, await(t, lock.Context(t.Context())))
	done := make(chan struct{})
	go func() {
		defer close(done)
		lock.Release()
		_, err = c.Get(context.Background(), playedID)
	}()
	select {
	case <-done:
	case <-time.After(bound):
		t.Fatalf("a release and a call have not returned within %v", bound)
	}
	if err == nil {
		t.Error("a call that was refused succeeds")
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the source was asked %d times, and has not answered the second", n)
	}
}
