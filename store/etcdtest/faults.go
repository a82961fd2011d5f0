package etcdtest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// Bounds of what a test waits for here.
const (
	arriveBound = 10 * time.Second
	lateBound   = 10 * time.Second // for a call that its caller no longer waits for
)

// Faults makes calls of the clients it is given to fail. It stands below the client's own retry: every attempt passes here.
type Faults struct {
	ended context.Context // at the end of the test
	late  sync.WaitGroup  // calls that their callers no longer wait for

	mu    sync.Mutex
	armed []*Fault
	calls map[string]int
}

// NewFaults returns faults that do nothing yet. At the end of the test it lets go whatever is held.
func NewFaults(t testing.TB) *Faults {
	ended, end := context.WithCancel(context.Background())
	f := &Faults{ended: ended, calls: map[string]int{}}
	t.Cleanup(func() {
		end()
		f.late.Wait()
	})
	return f
}

// DialOptions go into clientv3.Config.DialOptions.
func (f *Faults) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(f.unary), grpc.WithChainStreamInterceptor(f.stream)}
}

// Calls counts the unary calls made, or the messages sent on streams, of a method. Those that are held or dropped count.
func (f *Faults) Calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// Next returns a fault for the next call that matches, Every one for all of them. It is armed by saying what to do.
// A call meets one fault at the most: the one that was armed first.
func (f *Faults) Next(m Match) *Fault { return f.fault(m, false) }

// Every is Next for all calls, until Remove.
func (f *Faults) Every(m Match) *Fault { return f.fault(m, true) }

func (f *Faults) fault(m Match, lasting bool) *Fault {
	return &Fault{
		faults: f, match: m, lasting: lasting,
		arrived: make(chan struct{}), done: make(chan struct{}), released: make(chan struct{}),
	}
}

// sent returns the fault that a call meets on its way to etcd, or nil.
func (f *Faults) sent(c Call, unary bool) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.Request != nil {
		f.calls[c.Method]++
	}
	return f.meet(c, func(x *Fault) bool { return unary || !x.act.onReply() })
}

// received returns the fault that a message of a stream meets on its way back, or nil.
func (f *Faults) received(c Call) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.meet(c, func(x *Fault) bool { return x.act.onReply() || x.act == count })
}

func (f *Faults) meet(c Call, fits func(*Fault) bool) *Fault {
	for i, x := range f.armed {
		if !fits(x) || !x.match(c) {
			continue
		}
		x.hits++
		if x.hits == 1 {
			close(x.arrived)
		}
		if !x.lasting {
			f.armed = append(f.armed[:i:i], f.armed[i+1:]...)
		}
		if x.act != count {
			return x
		}
	}
	return nil
}

type act int

const (
	count act = iota
	hold
	late
	drop
	fail
	loseReply
	breakReply
	holdReply
	slow
)

func (a act) onReply() bool { return a >= loseReply }

// Fault is one thing that goes wrong, once or always.
type Fault struct {
	faults  *Faults
	match   Match
	lasting bool
	act     act
	code    codes.Code
	most    time.Duration
	hits    int // guarded by faults.mu

	arrived, done, released chan struct{}
	doneOnce, releaseOnce   sync.Once
	err                     error
}

func (x *Fault) arm(a act, code codes.Code) *Fault {
	x.act, x.code = a, code
	x.faults.mu.Lock()
	defer x.faults.mu.Unlock()
	x.faults.armed = append(x.faults.armed, x)
	return x
}

// Count does nothing but count.
func (x *Fault) Count() *Fault { return x.arm(count, 0) }

// Hold keeps the request here, unsent, until Release. It is never sent if its context ends before.
func (x *Fault) Hold() *Fault { return x.arm(hold, 0) }

// Late is for unary calls: the caller waits in vain until its context ends, and at Release the request is sent all the same.
func (x *Fault) Late() *Fault { return x.arm(late, 0) }

// Drop never sends the request: the caller waits in vain until its context ends. On a stream one sent message is missing.
func (x *Fault) Drop() *Fault { return x.arm(drop, 0) }

// Fail never sends the request: the caller gets code at once. A stream breaks with it.
func (x *Fault) Fail(code codes.Code) *Fault { return x.arm(fail, code) }

// LoseReply lets etcd do it, and the caller wait in vain until its context ends. On a stream one received message is missing.
func (x *Fault) LoseReply() *Fault { return x.arm(loseReply, 0) }

// BreakReply lets etcd do it, and tells the caller code. A stream breaks with it in place of the received message.
// With DeadlineExceeded or Canceled the etcd client itself repeats the call, even a write, as long as its context lives.
func (x *Fault) BreakReply(code codes.Code) *Fault { return x.arm(breakReply, code) }

// HoldReply lets etcd do it, and keeps the answer here until Release, or until the caller's context ends.
func (x *Fault) HoldReply() *Fault { return x.arm(holdReply, 0) }

// Slow lets each call take longer by a random time, most of it at the most and mostly a tenth of that, on its way to etcd and
// on its way back. Of a stream each received message is late.
func (x *Fault) Slow(most time.Duration) *Fault {
	x.most = most
	return x.arm(slow, 0)
}

// linger is one such time.
func (x *Fault) linger(ctx context.Context) {
	most := x.most
	if rand.N(4) > 0 {
		most /= 10
	}
	select {
	case <-time.After(rand.N(most)):
	case <-ctx.Done():
	}
}

// Arrived is closed when the first call met this fault.
func (x *Fault) Arrived() <-chan struct{} { return x.arrived }

// Done is closed when etcd has answered that call, however late.
func (x *Fault) Done() <-chan struct{} { return x.done }

// Err is how etcd answered that call. It may be asked after Done.
func (x *Fault) Err() error {
	<-x.done
	return x.err
}

// WaitArrived waits for Arrived, bounded.
func (x *Fault) WaitArrived(t testing.TB) {
	t.Helper()
	wait(t, x.arrived, "no call met the fault")
}

// WaitDone waits for Done, bounded.
func (x *Fault) WaitDone(t testing.TB) {
	t.Helper()
	wait(t, x.done, "etcd has not answered the call that met the fault")
}

func wait(t testing.TB, c <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(arriveBound):
		t.Fatalf("etcdtest: %s within %v", otherwise, arriveBound)
	}
}

// Release lets go what this fault holds, and what it would hold from now on.
func (x *Fault) Release() { x.releaseOnce.Do(func() { close(x.released) }) }

// Remove lets further calls pass. What is held stays so until Release.
func (x *Fault) Remove() {
	f := x.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, y := range f.armed {
		if x == y {
			f.armed = append(f.armed[:i:i], f.armed[i+1:]...)
			return
		}
	}
}

// Hits counts the calls that met this fault.
func (x *Fault) Hits() int {
	x.faults.mu.Lock()
	defer x.faults.mu.Unlock()
	return x.hits
}

func (x *Fault) answered(err error) {
	x.doneOnce.Do(func() {
		x.err = err
		close(x.done)
	})
}

// held waits for Release. It returns false if ctx or the test ended first.
func (x *Fault) held(ctx context.Context) bool {
	select {
	case <-x.released:
		return true
	case <-ctx.Done():
	case <-x.faults.ended.Done():
	}
	return false
}
