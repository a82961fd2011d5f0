package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"sync"
	"syscall"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// acquireCommand takes a lock and ends: what renews it is somebody else's affair.
type acquireCommand struct {
	Key  string `placeholder:"TEXT" group:"claim" help:"Idempotency key, 16 to 128 printable ASCII characters: while the claim stands, the same key for the same name finds it again (default: a random one)."`
	JSON bool   `name:"json" help:"Print the lock as JSON: name, id, fencing_token, ttl_seconds."`

	claimFlags   `embed:""`
	serviceFlags `embed:""`
}

func (*acquireCommand) Help() string {
	return "Prints the lock's id and its fencing token, with a space between. Nobody renews it but you. The TTL counts from before this was called, or, " +
		"after a wait, from just before it returns. Whoever knows the id can renew the lock and release it.\n\n" +
		"  lock=$(latchkey acquire nightly --ttl 5m --no-wait) || exit\n" +
		"  id=${lock% *} token=${lock#* }\n\n" + durationHelp + outageHelp + clientExitHelp
}

func (c *acquireCommand) check(bad *faults) {
	c.claimFlags.check(bad)
	if c.Key != "" && !soundKey(c.Key) {
		bad.add("key", "must have 16 to 128 printable ASCII characters")
	}
	c.serviceFlags.check(bad)
}

const leastKey, mostKey = 16, 128

func soundKey(key string) bool {
	for _, b := range []byte(key) {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return len(key) >= leastKey && len(key) <= mostKey
}

func (c *acquireCommand) run(s surroundings) error {
	client, err := c.client(c.logger(s.stderr))
	if err != nil {
		return err
	}
	signals := catchSignals()
	defer signals.stop()
	signal.Ignore(syscall.SIGPIPE) // a lock that cannot be told is to be given back
	options := c.options()
	options.Key = c.Key
	lock, err := c.takeUntil(s.stop, signals, client, options, s.stderr)
	if err != nil {
		return err
	}
	// its heartbeat ends with the process
	if err := c.tell(s.stdout, lock); err != nil {
		_, left := lock.Release()
		return notTold(errors.Join(err, left))
	}
	return nil
}

func (c *acquireCommand) tell(to io.Writer, lock *latchkey.Lock) error {
	if c.JSON {
		return printJSON(to, struct {
			Name  string `json:"name"`
			ID    string `json:"id"`
			Token int64  `json:"fencing_token"`
			TTL   int64  `json:"ttl_seconds"`
		}{lock.Name(), lock.ID(), lock.Token(), int64(lock.TTL() / time.Second)})
	}
	_, err := fmt.Fprintln(to, lock.ID(), lock.Token())
	return err
}

// takeUntil takes the lock, until a signal stops that, or ctx ends.
func (f *claimFlags) takeUntil(ctx context.Context, signals *caught, client *latchkey.Client, options latchkey.LockOptions, stderr io.Writer) (*latchkey.Lock, error) {
	waiting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	taken := make(chan struct{})
	var listening sync.WaitGroup
	listening.Go(func() {
		select {
		case sig := <-signals.told:
			giveUp(signalled{sig})
		case <-taken:
		}
	})
	lock, err := f.take(waiting, client, options, stderr)
	close(taken)
	listening.Wait()
	if err == nil && waiting.Err() != nil { // the grant and the signal met
		lock.Release()
		err = waiting.Err()
	}
	return lock, clientEnd(waiting, err)
}

// take takes the lock. A service that answers nothing at first is told soon; one that goes away later is waited for as long
// as the lock is.
func (f *claimFlags) take(ctx context.Context, client *latchkey.Client, options latchkey.LockOptions, stderr io.Writer) (*latchkey.Lock, error) {
	if options.Wait > 0 {
		if _, err := client.List(ctx, latchkey.Filter{Name: f.Name, Limit: 1}); err != nil && !isRefusal(err) {
			return nil, err
		}
	}
	trouble := troubleTeller{to: io.Discard, name: f.Name}
	if f.Verbose {
		options.OnWait = func(p latchkey.Progress) { go f.tellWait(ctx, client, p, stderr) }
		trouble.to = stderr
	}
	trying, giveUp := context.WithCancel(ctx)
	defer giveUp()
	if options.Wait == 0 {
		trouble.atLimit = giveUp
	}
	options.OnTrouble = trouble.hear
	lock, err := client.Lock(trying, f.Name, options)
	if err != nil && trouble.limit != nil {
		return nil, fmt.Errorf("%s: not acquired: %w", shown(f.Name), answered{trouble.limit})
	}
	if err == nil && f.Verbose {
		fmt.Fprintf(stderr, "latchkey: %s: held, with token %d\n", shown(f.Name), lock.Token())
	}
	return lock, err
}

// isRefusal says whether the service answered: what it refuses here it refuses to the claim too, in words about the claim.
func isRefusal(err error) bool {
	unreachable := (*latchkey.UnreachableError)(nil)
	return !errors.As(err, &unreachable) && errors.As(err, new(*latchkey.Error))
}

// tellWait says who holds the lock and how many are ahead.
func (f *claimFlags) tellWait(ctx context.Context, client *latchkey.Client, p latchkey.Progress, to io.Writer) {
	if p.PlaceLost {
		return // the logger is told too
	}
	holder := ""
	page, err := client.List(ctx, latchkey.Filter{Name: f.Name, State: latchkey.Held, Limit: 1})
	if err == nil && len(page.Locks) > 0 {
		holder = fmt.Sprintf(", held by %s with token %d", shown(page.Locks[0].Holder), page.Locks[0].FencingToken)
	}
	fmt.Fprintf(to, "latchkey: %s: waiting, %d ahead%s\n", shown(f.Name), p.Position, holder)
}
