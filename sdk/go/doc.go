// Package latchkey is the Go client of latchkey: distributed locks over plain HTTP. It needs the standard library alone.
//
// [Client.Lock] takes a lock, or waits in line for it, and keeps it by a heartbeat until [Lock.Release]:
//
//	client, err := latchkey.New(latchkey.Config{})
//	lock, err := client.Lock(ctx, "billing/invoices", latchkey.LockOptions{Wait: time.Minute})
//	defer lock.Release()
//	work(lock.Context(ctx), lock.Token())
//
// # What to count on
//
// Nobody else is granted the name before [Lock.Remaining] is over. It is counted from when the last successful renewal was
// sent, on a clock that goes on while the process is stopped and, on Linux, while the machine sleeps.
//
// A lock can be lost while work is going on. [Lock.Context] then ends, and its cause says how: a [*LostError] when the service
// said that the lock is over, an [*UncertainError] when no renewal was answered in time. Both are reported before anybody else
// can be granted the name, the second by [LockOptions].Margin; only a process that was itself stopped learns it late.
// [Lock.Check] and the context's own Err ask the clock, so a process that wakes sees the loss before it does anything more.
//
// Between the last look and a write there is always a gap. What the lock protects must refuse a token that is lower than the
// highest it has accepted: give it [Lock.Token] with each write, and see [FenceGuard] and [SQLFenceGuard].
//
// # Who calls
//
// Where the service asks who calls, [Config].Token or TokenSource says it, or the client certificate of [Config].TLS. What is
// refused is an [*Error] with [ErrUnauthorized] or [ErrForbidden]. A renewal that is refused so loses nothing yet: it is tried
// again, with the source's next token, until the lock is uncertain.
//
// # Failures
//
// A failure that the service told of is an [*Error], and errors.Is finds its code in it, as in
// errors.Is(err, latchkey.ErrLockHeld). When no server gave a definite answer in time it is an [*UnreachableError]. No error
// names the id of a lock or a lease: whoever knows an id can release it.
package latchkey
