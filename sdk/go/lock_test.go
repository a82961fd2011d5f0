package latchkey_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

func TestLockIsHeldUntilItsRelease(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	name := "held/until ü"
	lock := mustLock(t, c, name, latchkey.LockOptions{TTL: 5 * time.Second, Holder: "a", Metadata: map[string]string{"k": "v"}})
	if err := lock.Check(); err != nil || !lock.Held() {
		t.Fatalf("a new lock is not held: %v", err)
	}
	if got := lock.Remaining(); got <= 0 || got > 5*time.Second {
		t.Errorf("%v remain of a TTL of 5s", got)
	}
	all := claims(t, c, name)
	if len(all) != 1 || all[0].FencingToken != lock.Token() || all[0].ID != lock.ID() || all[0].LeaseID != lock.LeaseID() {
		t.Errorf("the service lists %+v, want the one lock", all)
	}

	_, err := c.Lock(within(t), name, latchkey.LockOptions{})
	wantIs(t, err, latchkey.ErrLockHeld)
	refused := as[*latchkey.NotAcquiredError](t, err)
	if h := refused.Holder; h == nil || h.Holder != "a" || h.Metadata["k"] != "v" || h.FencingToken != lock.Token() {
		t.Errorf("refused by %+v, want the holder with its metadata and token", h)
	}

	work := lock.Context(t.Context())
	for range 2 {
		if released, err := lock.Release(); !released || err != nil {
			t.Errorf("release: %v, %v, want true", released, err)
		}
	}
	wantIs(t, await(t, work), latchkey.ErrReleased)
	wantIs(t, lock.Check(), latchkey.ErrReleased, latchkey.ErrNotHeld)
	if got := lock.Remaining(); got != 0 {
		t.Errorf("%v remain of a lock that was released", got)
	}
	if next := mustLock(t, c, name, latchkey.LockOptions{}); next.Token() <= lock.Token() {
		t.Errorf("token %d came after %d", next.Token(), lock.Token())
	}
}

func TestContextOfALockEndsWithItsParent(t *testing.T) {
	t.Parallel()
	lock := mustLock(t, newClient(t, latchkey.Config{}), "parent", latchkey.LockOptions{})
	parent, cancel := context.WithCancel(t.Context())
	work := lock.Context(parent)
	child, stop := context.WithCancel(work)
	defer stop()
	cancel()
	wantIs(t, await(t, child), context.Canceled)
	if !lock.Held() {
		t.Error("the end of the parent ended the lock")
	}
}

func TestLockOutlivesTheContextOfItsAcquisition(t *testing.T) {
	t.Parallel()
	sent := newLines(t)
	c := newClient(t, latchkey.Config{Transport: sent})
	ctx, cancel := context.WithCancel(t.Context())
	lock, err := c.Lock(ctx, "outlives", latchkey.LockOptions{TTL: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	eventually(t, "renewed", func() bool {
		all := sent.all(http.MethodPut)
		return len(all) >= 2 && all[1].status == http.StatusOK
	})
	if released, err := lock.Release(); !released || err != nil {
		t.Errorf("release: %v, %v", released, err)
	}
}

func TestTTLIsCountedFromWhenTheRequestWasSent(t *testing.T) {
	t.Parallel()
	const ttl, late = 20 * time.Second, time.Second
	sent := newLines(t)
	sent.after = func(*http.Request) { time.Sleep(late) }
	c := newClient(t, latchkey.Config{Transport: sent})
	counts := func(l *latchkey.Lock) {
		t.Helper()
		if left := l.Remaining(); left <= 0 || left > ttl-late {
			t.Errorf("%v remain of a TTL of %v, whose answer came %v late", left, ttl, late)
		}
	}
	first := mustLock(t, c, "counted", latchkey.LockOptions{TTL: ttl})
	counts(first)
	waiter := lockBeside(t.Context(), t, c, "counted", latchkey.LockOptions{TTL: ttl, Wait: time.Minute})
	first.Release()
	lock := waiter.mustEnd()
	counts(lock)
	before := lock.Remaining()
	eventually(t, "renewed by the heartbeat", func() bool {
		left := lock.Remaining()
		renewed := left > before
		before = left
		return renewed
	})
	counts(lock)
}

func TestAnswerThatComesAfterTheTTLIsNotCountedFrom(t *testing.T) {
	t.Parallel()
	sent := newLines(t)
	var once sync.Once
	sent.after = func(req *http.Request) { once.Do(func() { time.Sleep(3700 * time.Millisecond) }) }
	c := newClient(t, latchkey.Config{Transport: sent})
	lock := mustLock(t, c, "too late", latchkey.LockOptions{TTL: 4 * time.Second, Wait: time.Minute})
	if err := lock.Check(); err != nil {
		t.Errorf("it was handed over and is not held: %v", err)
	}
}

func TestReleaseOfALockThatIsGone(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	lock := mustLock(t, c, "gone", latchkey.LockOptions{})
	if err := c.Release(within(t), lock.ID()); err != nil {
		t.Fatal(err)
	}
	if released, err := lock.Release(); released || err != nil {
		t.Errorf("release: %v, %v, want false and no error", released, err)
	}
}

func TestRenewalsGoOnWithJitter(t *testing.T) {
	t.Parallel()
	const ttl, locks, renewals = 4 * time.Second, 6, 6
	var sent [locks]*lines
	var held [locks]*latchkey.Lock
	for i := range locks {
		sent[i] = newLines(t)
		c := newClient(t, latchkey.Config{Transport: sent[i]})
		held[i] = mustLock(t, c, fmt.Sprint("jitter/", i), latchkey.LockOptions{TTL: ttl})
	}
	shortest := ttl
	for i, lock := range held {
		eventually(t, "renewed often", func() bool { return len(sent[i].all(http.MethodPut)) >= renewals })
		if err := lock.Check(); err != nil {
			t.Errorf("after %d renewals: %v", renewals, err)
		}
		all := sent[i].all(http.MethodPut)
		for j := 1; j < len(all); j++ {
			shortest = min(shortest, all[j].at.Sub(all[j-1].at))
		}
	}
	// busy machines make it longer, nothing makes it shorter
	if shortest < ttl/3*8/10 || shortest > ttl/3 {
		t.Errorf("the shortest of %d times between renewals is %v, want %v less up to a tenth", locks*(renewals-1), shortest, ttl/3)
	}
}

func TestLockLostByItsEnd(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	lock := mustLock(t, c, "ended", latchkey.LockOptions{TTL: 6 * time.Second})
	work := lock.Context(t.Context())
	if err := c.Release(within(t), lock.ID()); err != nil {
		t.Fatal(err)
	}
	err := await(t, work)
	as[*latchkey.LostError](t, err)
	wantIs(t, err, latchkey.ErrNotHeld, latchkey.ErrLeaseNotFound)
	wantIs(t, lock.Check(), err)
	if uncertain := (*latchkey.UncertainError)(nil); errors.As(err, &uncertain) {
		t.Errorf("%v is both lost and uncertain", err)
	}
	_, err = lock.Release()
	as[*latchkey.LostError](t, err)
}
