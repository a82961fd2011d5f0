//go:build unix

package latchkey_test

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
	"github.com/latchkey/latchkey/store/etcdtest"
)

// twoReplicas are on one etcd.
func twoReplicas(t *testing.T, args ...string) (first, second *replica) {
	t.Helper()
	args = append(args, "--etcd-endpoints=http://"+etcdtest.New(t).Endpoint())
	return serve(t, args...), serve(t, args...)
}

func TestPlaceOutlivesTheReplica(t *testing.T) {
	t.Parallel()
	first, second := twoReplicas(t, "--waiting-ttl=5s")
	direct := newClient(t, latchkey.Config{Servers: []string{second.url}})
	both := newClient(t, latchkey.Config{Servers: []string{first.url, second.url}})
	held := mustLock(t, direct, "place", latchkey.LockOptions{})
	waiter := lockBeside(t.Context(), t, both, "place", latchkey.LockOptions{Wait: time.Minute})
	behind := lockBeside(t.Context(), t, direct, "place", latchkey.LockOptions{Wait: time.Minute})
	place := awaitClaims(t, direct, "place", number(3))[1].ID

	first.kill()
	time.Sleep(6 * time.Second) // longer than a place outlives its replica, so somebody has asked for it since
	held.Release()
	lock := waiter.mustEnd()
	if lock.ID() != place || !lock.Held() {
		t.Errorf("the place was not kept: %v", lock.Check())
	}
	select {
	case <-behind.done:
		t.Error("the one behind holds the lock too")
	default:
	}
	for len(waiter.progress) > 0 {
		if p := <-waiter.progress; p.PlaceLost {
			t.Error("the waiter was told that its place was lost")
		}
	}
	lock.Release()
	behind.mustEnd()
}

func TestPlaceOutlivesTheSilenceOfTheReplica(t *testing.T) {
	t.Parallel()
	first, second := twoReplicas(t)
	direct := newClient(t, latchkey.Config{Servers: []string{second.url}})
	sent := newLines(t)
	both := newClient(t, latchkey.Config{Servers: []string{first.url, second.url}, Transport: sent})
	held := mustLock(t, direct, "place", latchkey.LockOptions{})
	waiter := lockBeside(t.Context(), t, both, "place", latchkey.LockOptions{Wait: time.Minute})
	place := awaitClaims(t, direct, "place", number(2))[1].ID
	eventually(t, "asked for", func() bool { return len(sent.all(http.MethodGet)) > 0 })
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "asked for elsewhere", func() bool {
		all := sent.all(http.MethodGet)
		return all[len(all)-1].host == address(second.url)
	})
	held.Release()
	if lock := waiter.mustEnd(); lock.ID() != place {
		t.Error("the place was not kept")
	}
}

func TestHoldOutlivesTheReplica(t *testing.T) {
	t.Parallel()
	first, second := twoReplicas(t)
	direct := newClient(t, latchkey.Config{Servers: []string{second.url}})
	both := newClient(t, latchkey.Config{Servers: []string{first.url + ", " + second.url}})
	const ttl = 8 * time.Second
	lock := mustLock(t, both, "hold", latchkey.LockOptions{TTL: ttl})
	first.kill()
	ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
	defer cancel()
	work := lock.Context(ctx)
	wantIs(t, await(t, work), context.DeadlineExceeded) // not the end of the lock
	if all := claims(t, direct, "hold"); len(all) != 1 || all[0].ID != lock.ID() || !lock.Held() {
		t.Errorf("two TTLs after its replica was killed: %v, the claims are %+v", lock.Check(), all)
	}
	if released, err := lock.Release(); !released || err != nil {
		t.Errorf("release: %v, %v", released, err)
	}
}

func TestLockThroughTheSecondServerWhenTheFirstIsDead(t *testing.T) {
	t.Parallel()
	silent := etcdtest.NewProxy(t, address(shared))
	silent.Blackhole()
	for name, dead := range map[string]string{"refuses": "http://127.0.0.1:1", "is silent": "http://" + silent.Addr()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, latchkey.Config{Servers: []string{dead, shared}, Timeout: 4 * time.Second})
			lock := mustLock(t, c, "dead first/"+name, latchkey.LockOptions{})
			if released, err := lock.Release(); !released || err != nil {
				t.Errorf("release: %v, %v", released, err)
			}
		})
	}
}
