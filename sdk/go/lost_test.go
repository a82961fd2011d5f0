package latchkey_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestCutLineIsUncertainBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*etcdtest.Proxy){
		"cut":    (*etcdtest.Proxy).Cut,
		"silent": func(p *etcdtest.Proxy) { p.Blackhole() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := newClient(t, latchkey.Config{})
			line := etcdtest.NewProxy(t, address(shared))
			sent := newLines(t)
			c := newClient(t, latchkey.Config{Servers: []string{"http://" + line.Addr()}, Transport: sent})
			lock := mustLock(t, c, "uncertain/"+name, latchkey.LockOptions{TTL: 6 * time.Second, Margin: 3 * time.Second})
			work := lock.Context(t.Context())
			fail(line)

			err := await(t, work)
			if left := lock.Remaining(); left <= 0 {
				t.Errorf("it was reported %v before the deadline", left)
			}
			as[*latchkey.UncertainError](t, err)
			wantIs(t, err, latchkey.ErrNotHeld)
			if lost := (*latchkey.LostError)(nil); errors.As(err, &lost) {
				t.Errorf("%v is both lost and uncertain", err)
			}
			if all := claims(t, direct, lock.Name()); len(all) != 1 || all[0].ID != lock.ID() {
				t.Errorf("when it was reported the claims were %+v, want its own: nobody else can have it yet", all)
			}

			line.Heal()
			before := len(sent.all(http.MethodPut))
			if released, err := lock.Release(); !released || err == nil {
				t.Errorf("release: %v, %v, want that it was given back, and that it was uncertain before", released, err)
			}
			if after := len(sent.all(http.MethodPut)); after != before {
				t.Errorf("%d renewals were sent after it was reported", after-before)
			}
		})
	}
}

func TestLineThatHealsInTimeLosesNothing(t *testing.T) {
	t.Parallel()
	line := etcdtest.NewProxy(t, address(shared))
	sent := newLines(t)
	c := newClient(t, latchkey.Config{Servers: []string{"http://" + line.Addr()}, Transport: sent})
	lock := mustLock(t, c, "healed", latchkey.LockOptions{TTL: 15 * time.Second})
	line.Cut()
	eventually(t, "renewed in vain", func() bool { return len(sent.all(http.MethodPut)) >= 3 })
	line.Heal()
	eventually(t, "renewed", func() bool {
		all := sent.all(http.MethodPut)
		return all[len(all)-1].status == http.StatusOK
	})
	if err := lock.Check(); err != nil {
		t.Error(err)
	}
}

func TestSleepPastTheDeadlineIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(context.Context, *latchkey.Lock) error{
		"check":   func(_ context.Context, l *latchkey.Lock) error { return l.Check() },
		"context": func(ctx context.Context, _ *latchkey.Lock) error { return ctx.Err() },
		"channel": func(ctx context.Context, _ *latchkey.Lock) error { return ended(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, latchkey.Config{})
			jump := c.Jumping()
			lock := mustLock(t, c, "slept/"+name, latchkey.LockOptions{TTL: time.Hour})
			work := lock.Context(t.Context())
			if err := ask(work, lock); err != nil {
				t.Fatal(err)
			}
			jump(time.Hour)
			if ask(work, lock) == nil {
				t.Error("an hour was slept and the lock counts as held")
			}
			as[*latchkey.UncertainError](t, context.Cause(work))
			_, err := lock.Release()
			as[*latchkey.UncertainError](t, err)
		})
	}
}

func ended(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	default:
		return nil
	}
}

func TestSleepIsToldToWhoOnlyListens(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	jump := c.Jumping()
	lock := mustLock(t, c, "slept/listens", latchkey.LockOptions{TTL: time.Hour})
	done := lock.Context(t.Context()).Done()
	time.Sleep(100 * time.Millisecond) // the timers are set by then
	jump(time.Hour)
	select {
	case <-done:
	case <-time.After(bound):
		t.Errorf("the context has not ended %v after the sleep", bound)
	}
}

func TestUncertainIsReportedWhateverARenewalWaitsFor(t *testing.T) {
	t.Parallel()
	sent := newLines(t)
	stuck := make(chan struct{})
	sent.before = func(req *http.Request) {
		if req.Method == http.MethodPut {
			<-stuck
		}
	}
	c := newClient(t, latchkey.Config{Transport: sent})
	lock := mustLock(t, c, "stuck", latchkey.LockOptions{TTL: 2 * time.Second})
	t.Cleanup(func() { close(stuck) })
	as[*latchkey.UncertainError](t, await(t, lock.Context(t.Context())))
}
