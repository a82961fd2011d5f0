package latchkey_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestClientsTakeOneLockInTurnOverLinesThatBreak sees that a lock which counts as held is the only one, and tokens only grow.
func TestClientsTakeOneLockInTurnOverLinesThatBreak(t *testing.T) {
	t.Parallel()
	const workers, turns, breaks = 6, 8, 40
	one, two := etcdtest.NewProxy(t, address(shared)), etcdtest.NewProxy(t, address(shared))
	over := make(chan struct{})
	var breaking sync.WaitGroup
	breaking.Go(func() {
		for range breaks { // not for ever: on a busy machine nothing would get through
			line := []*etcdtest.Proxy{one, two}[rand.N(2)]
			line.Reset()
			line.Swallow(1)
			time.Sleep(rand.N(20 * time.Millisecond))
			line.Heal() // what was not swallowed by now is not
			select {
			case <-over:
				return
			case <-time.After(rand.N(80 * time.Millisecond)):
			}
		}
	})

	var guard latchkey.FenceGuard
	var inside atomic.Pointer[latchkey.Lock]
	var all sync.WaitGroup
	for i := range workers {
		c := newClient(t, latchkey.Config{Servers: []string{"http://" + one.Addr(), "http://" + two.Addr()}})
		all.Go(func() {
			for turn := range turns {
				lock, err := c.Lock(t.Context(), "turns", latchkey.LockOptions{
					TTL: 10 * time.Second, Wait: 2 * bound, Holder: fmt.Sprint(i, " ", turn),
				})
				if err != nil {
					t.Errorf("worker %d, turn %d: %v", i, turn, err)
					return
				}
				if before := inside.Swap(lock); before != nil && before.Held() {
					t.Errorf("tokens %d and %d are held at the same time", before.Token(), lock.Token())
				}
				if err := guard.Accept("turns", lock.Token()); err != nil {
					t.Error(err)
				}
				time.Sleep(rand.N(20 * time.Millisecond)) // the work
				inside.CompareAndSwap(lock, nil)
				if _, err := lock.Release(); err != nil {
					t.Errorf("worker %d, turn %d: release: %v", i, turn, err)
				}
			}
		})
	}
	all.Wait()
	close(over)
	breaking.Wait()
	if left := claims(t, newClient(t, latchkey.Config{}), "turns"); len(left) != 0 {
		t.Errorf("after all turns the claims are %+v", left)
	}
}
