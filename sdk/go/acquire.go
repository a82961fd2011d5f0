package latchkey

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"
)

// Forever lets Lock wait until its context ends.
const Forever time.Duration = math.MaxInt64

const (
	leastSlice   = time.Second     // the shortest bound that a server can have
	mostConfirms = 2               // when the answer takes longer than the lock lasts
	leaveBound   = 2 * time.Second // for giving back what was not acquired
	soonAnswer   = time.Second     // an answer that comes before that, though it was to wait for longer
)

// LockOptions say how to take a lock. The zero value tries once, for a lock with a TTL of 30 s.
type LockOptions struct {
	// TTL is how long the lock outlives its last renewal: whole seconds, within the service's bounds (2 s to 24 h by default).
	// 30 s if 0. Short ones pass on sooner when a holder dies; they are renewed every third.
	TTL time.Duration
	// Wait is how long to wait in line: 0 tries once, Forever waits until the context ends.
	Wait time.Duration
	// Holder and Metadata are shown to others: up to 255 bytes; up to 16 pairs, 2048 bytes in all.
	Holder   string
	Metadata map[string]string
	// Key is the idempotency key, 16 to 128 printable ASCII characters, for a program that wants to find its own claim again
	// after it was restarted. It must be fresh for each acquisition. A random one if empty.
	Key string
	// Margin is how long before the deadline a lock that could not be renewed is reported as uncertain, at most half of the TTL.
	// If 0 a tenth of the TTL, at least 250 ms and at most 2 s.
	Margin time.Duration
	// OnWait is told how the wait goes, by the goroutine that called Lock. It must not block: the next request waits for it.
	OnWait func(Progress)
	// OnTrouble is told, in the same way, what keeps Lock from getting on: while every server fails, after each try what came of
	// it, which is an [*Error] if the service refused and else what is wrong with the line; and nil once, when a try has
	// succeeded again. Lock goes on trying meanwhile, for as long as it would anyhow.
	OnTrouble func(error)
}

// Progress is how a wait goes.
type Progress struct {
	Position  int  // the claims ahead
	PlaceLost bool // the place in the queue was lost, and the name is claimed anew at its end
}

// Lock takes the lock name, and keeps it by a heartbeat until its Release. When ctx ends later that changes nothing; when it
// ends during Lock, the claim is given back.
//
// The place in the queue survives broken lines and dead replicas. Beyond opts.Wait, Lock needs at most the client's Timeout for
// the answer to a try, twice that to renew what was granted, and 2 s to give back what was not.
//
// The error is a [*NotAcquiredError] if others had the lock all the while, an [*UnreachableError] if no server gave a definite
// answer, an [*Error] if the service refused, or an administrator took the place away ([ErrLockBroken]); it matches context.Canceled or context.DeadlineExceeded if ctx ended.
func (c *Client) Lock(ctx context.Context, name string, opts LockOptions) (*Lock, error) {
	return c.acquire(ctx, name, opts, nil)
}

func (c *Client) acquire(ctx context.Context, name string, opts LockOptions, lease *Lease) (*Lock, error) {
	caller := ctx
	a := acquisition{c: c, opts: opts, lease: lease, trouble: newTrouble(c.servers.number(), opts.OnTrouble)}
	a.asked = ClaimRequest{Name: name, Queue: opts.Wait > 0, Holder: opts.Holder, Metadata: opts.Metadata, Key: opts.Key}
	if opts.Wait < 0 {
		return nil, fmt.Errorf("latchkey: Wait is %v, and must not be negative", opts.Wait)
	}
	if lease != nil {
		a.asked.LeaseID = lease.ID()
		var cancel context.CancelFunc
		ctx, cancel = lease.during(ctx)
		defer cancel()
	} else {
		var err error
		if a.asked.TTLSeconds, err = checkTTL(opts.TTL, opts.Margin); err != nil {
			return nil, err
		}
	}
	lock, err := a.run(ctx)
	if err == nil {
		return lock, nil
	}
	err = a.leave(ctx, err)
	if lease != nil && !lease.Held() && caller.Err() == nil {
		err = lease.Check()
	}
	return nil, err
}

// acquisition is one call of Lock.
type acquisition struct {
	c     *Client
	opts  LockOptions
	lease *Lease // nil for a lock with a lease of its own

	trouble *trouble

	asked   ClaimRequest
	claim   Claim         // as the service told it last
	sent    time.Duration // when the request was sent from which the TTL counts
	doubted bool          // a claim may stand whose id was never told
}

var (
	errWaitOver  = errors.New("latchkey: the wait is over")
	errPlaceLost = errors.New("latchkey: the place was lost")
)

// run claims, and claims anew when the place was lost, until the lock is held and surely so.
func (a *acquisition) run(ctx context.Context) (*Lock, error) {
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if a.opts.Wait != Forever {
		waiting, cancel = context.WithTimeoutCause(ctx, a.opts.Wait, errWaitOver)
	}
	defer cancel()
	for {
		if a.opts.Key == "" {
			a.asked.Key = rand.Text()
		}
		a.claim, a.doubted = Claim{}, false
		err := a.take(ctx, waiting)
		switch {
		case err == nil:
			return a.hold(ctx), nil
		case !errors.Is(err, errPlaceLost):
			return nil, err
		case waiting.Err() != nil:
			return nil, errWaitOver
		}
		a.c.log.Info("the place in the queue was lost: claiming anew", slog.String("lock", a.asked.Name))
		a.tell(Progress{PlaceLost: true})
	}
}

// take makes one claim, waits for its grant, and makes sure of it.
func (a *acquisition) take(ctx, waiting context.Context) error {
	if err := a.place(ctx, waiting); err != nil {
		return err
	}
	if a.claim.State == Queued {
		if err := a.wait(waiting); err != nil {
			return err
		}
		return a.confirm(ctx)
	}
	if !a.sure() { // the answer took too long to count from its request
		return a.confirm(ctx)
	}
	return nil
}

// place sends the claim. It does not wait there, so as to have the id from the first moment.
func (a *acquisition) place(ctx, waiting context.Context) error {
	for {
		claim, got, err := a.c.claimFrom(ctx, a.asked, a.line(waiting, false))
		a.doubted = (a.doubted || got.doubted) && !isSettled(err)
		switch {
		case err == nil:
			a.claim, a.sent = claim, got.sent
			return nil
		case errors.Is(err, ErrPlaceLost) && a.opts.Wait > 0, a.lease != nil && errors.Is(err, ErrLeaseNotFound):
			return a.gone(err)
		case !a.goOn(waiting, err):
			return err
		}
	}
}

// line is the place that a request is about.
func (a *acquisition) line(waiting context.Context, kept bool) *place {
	if a.opts.Wait == 0 {
		return &place{trouble: a.trouble}
	}
	return &place{waiting, kept, a.trouble}
}

// isSettled says whether err tells that the service has looked, and that no claim of ours stands. A refusal, as of a token,
// says nothing of what an earlier try did.
func isSettled(err error) bool {
	if errors.As(err, new(*UnreachableError)) {
		return false
	}
	return errors.Is(err, ErrLockHeld) || errors.Is(err, ErrLeaseNotFound) || errors.Is(err, ErrPlaceLost)
}

// goOn says whether to try further after err: the servers could not be reached, and there is time left to wait.
func (a *acquisition) goOn(waiting context.Context, err error) bool {
	unreachable := (*UnreachableError)(nil)
	return errors.As(err, &unreachable) && waiting.Err() == nil && a.opts.Wait > 0
}

// wait asks for the claim until it is held.
func (a *acquisition) wait(waiting context.Context) error {
	pauses := backoff{most: mostPause}
	told, slice := -1, mostSlice
	for a.claim.State == Queued {
		if a.claim.Position != told {
			told = a.claim.Position
			a.tell(Progress{Position: told})
		}
		ask := min(slice.Truncate(time.Second), untilEnd(waiting))
		began := a.c.now()
		claim, _, err := a.c.ask(waiting, a.claim.ID, ask, a.line(waiting, true))
		switch {
		case err == nil:
			a.claim = claim
		case waitRefused(err) && slice > leastSlice:
			slice /= 2
		case errors.Is(err, ErrLockBroken):
			return err
		case isOver(err) || errors.Is(err, ErrPlaceLost):
			return a.gone(err)
		case !a.goOn(waiting, err):
			return err
		}
		if early := a.c.now()-began < min(ask, soonAnswer); early && a.claim.State == Queued && !sleep(waiting, pauses.next()) {
			return errWaitOver
		}
	}
	return nil
}

// waitRefused says whether the server lets wait for less than was asked.
func waitRefused(err error) bool {
	told := (*Error)(nil)
	return errors.As(err, &told) && slices.ContainsFunc(told.Errors, func(f InputFault) bool { return f.Parameter == "wait_seconds" })
}

// untilEnd is the time left, rounded up to whole seconds as the service counts them: the context cuts the rest.
func untilEnd(waiting context.Context) time.Duration {
	end, bounded := waiting.Deadline()
	if !bounded {
		return longestWait
	}
	return max(0, time.Until(end)+time.Second-1).Truncate(time.Second)
}

// gone tells a place that was lost from a lease that was.
func (a *acquisition) gone(err error) error {
	if a.lease != nil && errors.Is(err, ErrLeaseNotFound) {
		a.lease.heart.end(&LostError{Cause: err})
		return a.lease.Check()
	}
	return errPlaceLost
}

// confirm renews, and counts from that: the grant is as old as the wait's last answer was under way.
func (a *acquisition) confirm(ctx context.Context) error {
	for range mostConfirms {
		r := renewal(a.claim.LeaseID, new(LeaseInfo))
		r.place = a.line(ctx, true) // what was granted runs out as a place lapses
		got, err := a.c.call(ctx, r)
		switch {
		case isOver(err) && !errors.Is(err, ErrLockBroken):
			return a.gone(err)
		case err != nil:
			return err
		case a.lease != nil:
			a.lease.heart.renewedBy(got.sent)
			return a.lease.Check()
		}
		if a.sent = got.sent; a.sure() {
			return nil
		}
	}
	return &UncertainError{Name: a.asked.Name}
}

// sure says whether the lock surely stands, counted from what was sent.
func (a *acquisition) sure() bool {
	if a.lease != nil {
		return a.lease.Held()
	}
	return a.c.now() < a.sent+a.ttl()-marginOf(a.opts.Margin, a.ttl())
}

func (a *acquisition) ttl() time.Duration { return time.Duration(a.claim.TTLSeconds) * time.Second }

func (a *acquisition) hold(ctx context.Context) *Lock {
	if a.lease != nil {
		return a.lease.newLock(a.claim)
	}
	return a.c.newLock(ctx, a.claim, marginOf(a.opts.Margin, a.ttl()), a.sent)
}

func (a *acquisition) tell(p Progress) {
	if a.opts.OnWait != nil {
		a.opts.OnWait(p)
	}
}
