package latchkey_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

func TestWaiterIsGrantedAndRenewsBeforeItIsHandedTheLock(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	first := mustLock(t, c, "in line", latchkey.LockOptions{})
	sent := newLines(t)
	waiter := lockBeside(t.Context(), t, newClient(t, latchkey.Config{Transport: sent}), "in line", latchkey.LockOptions{Wait: time.Minute})
	eventually(t, "asked for", func() bool { return len(sent.all(http.MethodGet)) == 1 })
	if released, err := first.Release(); !released {
		t.Fatal(err)
	}
	lock := waiter.mustEnd()
	if lock.Token() <= first.Token() || !lock.Held() {
		t.Errorf("token %d after %d, held: %v", lock.Token(), first.Token(), lock.Check())
	}
	renewals := sent.all(http.MethodPut)
	if len(renewals) != 1 || renewals[0].status != http.StatusOK {
		t.Errorf("it was handed over with the renewals %+v, want one that was answered", renewals)
	}
}

func TestWaitThatIsOver(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	lock := mustLock(t, c, "over", latchkey.LockOptions{Holder: "a", Metadata: map[string]string{"k": "v"}})
	began := time.Now()
	_, err := c.Lock(within(t), "over", latchkey.LockOptions{Wait: 1200 * time.Millisecond})
	if took := time.Since(began); took < 1200*time.Millisecond {
		t.Errorf("a wait of 1.2s took %v", took)
	}
	refused := as[*latchkey.NotAcquiredError](t, err)
	if h := refused.Holder; h == nil || h.Holder != "a" || h.Metadata["k"] != "v" || h.FencingToken != lock.Token() || refused.QueueLength != 0 {
		t.Errorf("refused by %+v with %d ahead, want the holder and none", h, refused.QueueLength)
	}
	if all := claims(t, c, "over"); len(all) != 1 {
		t.Errorf("after the wait the claims are %+v, want the holder's", all)
	}
}

func TestWaitThatIsCancelledLeavesNoClaim(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	mustLock(t, c, "cancelled", latchkey.LockOptions{})
	ctx, cancel := context.WithCancelCause(t.Context())
	waiter := lockBeside(ctx, t, c, "cancelled", latchkey.LockOptions{Wait: latchkey.Forever})
	awaitClaims(t, c, "cancelled", number(2))
	cause := errors.New("changed my mind")
	cancel(cause)
	_, err := waiter.end()
	wantIs(t, err, context.Canceled, cause)
	if all := claims(t, c, "cancelled"); len(all) != 1 {
		t.Errorf("after the wait the claims are %+v, want the holder's", all)
	}
}

func TestContextThatEndsFirstBoundsTheWait(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	mustLock(t, c, "bounded", latchkey.LockOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := c.Lock(ctx, "bounded", latchkey.LockOptions{Wait: latchkey.Forever})
	wantIs(t, err, context.DeadlineExceeded)
	if all := claims(t, c, "bounded"); len(all) != 1 {
		t.Errorf("after the wait the claims are %+v, want the holder's", all)
	}
}

func TestPlaceThatIsLostIsClaimedAnew(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	first := mustLock(t, c, "place", latchkey.LockOptions{})
	sent := newLines(t)
	waiter := lockBeside(t.Context(), t, newClient(t, latchkey.Config{Transport: sent}), "place", latchkey.LockOptions{Wait: time.Minute})
	lost := awaitClaims(t, c, "place", number(2))[1].ID
	if err := c.Release(within(t), lost); err != nil {
		t.Fatal(err)
	}
	if p := waiter.next(); !p.PlaceLost {
		t.Errorf("it is told %+v, want that its place is lost", p)
	}
	awaitClaims(t, c, "place", number(2))
	first.Release()
	if lock := waiter.mustEnd(); lock.ID() == lost || !lock.Held() {
		t.Errorf("it was granted the claim that was lost, or none: %v", lock.Check())
	}
	posts := sent.all(http.MethodPost)
	if len(posts) != 2 || posts[0].key == "" || posts[1].key == "" || posts[0].key == posts[1].key {
		t.Errorf("it was claimed by %+v, want two claims with a key each", posts)
	}
}

func TestGrantThatIsGoneBeforeItsRenewalIsClaimedAnew(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	first := mustLock(t, c, "grant", latchkey.LockOptions{})
	sent := newLines(t)
	var once sync.Once
	sent.before = func(req *http.Request) {
		if req.Method == http.MethodPut {
			once.Do(func() {
				if err := c.Release(req.Context(), req.URL.Path[len("/leases/"):]); err != nil {
					t.Error(err)
				}
			})
		}
	}
	waiter := lockBeside(t.Context(), t, newClient(t, latchkey.Config{Transport: sent}), "grant", latchkey.LockOptions{Wait: time.Minute})
	first.Release()
	lock := waiter.mustEnd()
	all := claims(t, c, "grant")
	if len(all) != 1 || all[0].ID != lock.ID() || !lock.Held() {
		t.Errorf("the claims are %+v, want that of the lock alone, held: %v", all, lock.Check())
	}
}

func TestServerThatLetsWaitForLessIsAskedForLess(t *testing.T) {
	t.Parallel()
	servers := []string{serve(t, "--data-dir="+t.TempDir()+"/data", "--max-wait=2s").url}
	c := newClient(t, latchkey.Config{Servers: servers})
	first := mustLock(t, c, "slices", latchkey.LockOptions{})
	sent := newLines(t)
	patient := newClient(t, latchkey.Config{Servers: servers, Transport: sent})
	waiter := lockBeside(t.Context(), t, patient, "slices", latchkey.LockOptions{Wait: time.Minute})
	eventually(t, "asked for in slices", func() bool {
		asked := 0
		for _, s := range sent.all(http.MethodGet) {
			if s.status == http.StatusOK {
				asked++
			}
		}
		return asked > 1
	})
	first.Release()
	waiter.mustEnd()
}

func TestWaiterIsToldItsPosition(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{Servers: []string{serve(t, "--data-dir="+t.TempDir()+"/data", "--max-wait=1s").url}})
	mustLock(t, c, "position", latchkey.LockOptions{})
	first, err := c.Claim(within(t), latchkey.ClaimRequest{Name: "position", Queue: true})
	if err != nil {
		t.Fatal(err)
	}
	waiter := lockBeside(within(t), t, c, "position", latchkey.LockOptions{Wait: latchkey.Forever})
	if waiter.first.Position != 2 {
		t.Errorf("told %+v, want position 2", waiter.first)
	}
	if err := c.Release(within(t), first.ID); err != nil {
		t.Fatal(err)
	}
	if p := waiter.next(); p.Position != 1 {
		t.Errorf("told %+v, want position 1", p)
	}
}

func TestServersThatDieDuringAWait(t *testing.T) {
	t.Parallel()
	r := serve(t, "--data-dir="+t.TempDir()+"/data")
	c := newClient(t, latchkey.Config{Servers: []string{r.url}, Timeout: 2 * time.Second})
	held := mustLock(t, c, "dies", latchkey.LockOptions{})
	began := time.Now()
	waiter := lockBeside(t.Context(), t, c, "dies", latchkey.LockOptions{Wait: 3 * time.Second})
	r.kill()
	_, err := waiter.end()
	as[*latchkey.UnreachableError](t, err)
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("it gave up after %v of 3s", took)
	}
	held.Release()
}

func TestOwnKeyFindsTheClaimAgain(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	opts := latchkey.LockOptions{Key: "a key of sixteen or more", TTL: 10 * time.Second}
	before := mustLock(t, c, "key", opts)
	after := mustLock(t, newClient(t, latchkey.Config{}), "key", opts) // as if the program had been restarted
	if after.ID() != before.ID() || after.Token() != before.Token() {
		t.Errorf("found %d, want %d", after.Token(), before.Token())
	}
}
