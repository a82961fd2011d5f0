package etcdtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// faulty returns a client whose calls meet faults, and one whose calls do not.
func faulty(t *testing.T) (*etcdtest.Faults, *clientv3.Client, *clientv3.Client) {
	t.Helper()
	s := etcdtest.New(t)
	f := etcdtest.NewFaults(t)
	return f, s.Client(t, f), s.Client(t)
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want && !(want == codes.DeadlineExceeded && errors.Is(err, context.DeadlineExceeded)) {
		t.Fatalf("error %v, want code %v", err, want)
	}
}

func TestLostReply(t *testing.T) {
	t.Parallel()
	f, c, truth := faulty(t)
	lost := f.Next(etcdtest.Touches(t.Name())).LoseReply()
	_, err := c.Put(within(t, brief), t.Name(), "done")
	wantCode(t, err, codes.DeadlineExceeded)
	lost.WaitDone(t)
	if lost.Err() != nil {
		t.Fatal(lost.Err())
	}
	wantValue(t, truth, t.Name(), "done")
	if n := f.Calls(etcdtest.MethodPut); n != 1 {
		t.Errorf("%d puts were sent, want 1", n)
	}
	put(t, c, t.Name(), "again") // only the next call was concerned
}

func TestBrokenReplyOfAWriteIsNotRetriedByTheClient(t *testing.T) {
	t.Parallel()
	f, c, truth := faulty(t)
	f.Next(etcdtest.Txns(nil)).BreakReply(codes.Unavailable)
	_, err := c.Txn(within(t, bound)).Then(clientv3.OpPut(t.Name(), "done")).Commit()
	wantCode(t, err, codes.Unavailable)
	wantValue(t, truth, t.Name(), "done")
	if n := f.Calls(etcdtest.MethodTxn); n != 1 {
		t.Errorf("%d transactions were sent, want 1", n)
	}
}

func TestBrokenReplyOfAReadIsRetriedByTheClient(t *testing.T) {
	t.Parallel()
	f, c, _ := faulty(t)
	f.Next(etcdtest.Ranges(nil)).BreakReply(codes.Unavailable)
	wantValue(t, c, t.Name(), "")
	if n := f.Calls(etcdtest.MethodRange); n != 2 {
		t.Errorf("%d reads were sent, want 2", n)
	}
}

func TestLateRequestAppliesAfterItsCallerGaveUp(t *testing.T) {
	t.Parallel()
	f, c, truth := faulty(t)
	late := f.Next(etcdtest.Puts(nil)).Late()
	_, err := c.Put(within(t, brief), t.Name(), "late")
	wantCode(t, err, codes.DeadlineExceeded)
	wantValue(t, truth, t.Name(), "")
	put(t, c, t.Name(), "first")
	late.Release()
	late.WaitDone(t)
	if late.Err() != nil {
		t.Fatal(late.Err())
	}
	wantValue(t, truth, t.Name(), "late")
}

func TestHeldRequest(t *testing.T) {
	t.Parallel()
	f, c, truth := faulty(t)

	held := f.Next(etcdtest.Puts(nil)).Hold()
	put := make(chan error, 1)
	go func() {
		_, err := c.Put(within(t, bound), t.Name(), "1")
		put <- err
	}()
	held.WaitArrived(t)
	wantValue(t, truth, t.Name(), "")
	held.Release()
	if err := <-put; err != nil {
		t.Fatal(err)
	}
	wantValue(t, truth, t.Name(), "1")

	// one whose caller gives up is never sent
	given := f.Next(etcdtest.Puts(nil)).Hold()
	_, err := c.Put(within(t, brief), t.Name(), "2")
	wantCode(t, err, codes.DeadlineExceeded)
	given.Release()
	wantValue(t, truth, t.Name(), "1")
}

func TestHeldReply(t *testing.T) {
	t.Parallel()
	f, c, truth := faulty(t)
	held := f.Next(etcdtest.Writes).HoldReply()
	put := make(chan error, 1)
	go func() {
		_, err := c.Put(within(t, bound), t.Name(), "1")
		put <- err
	}()
	held.WaitDone(t)
	wantValue(t, truth, t.Name(), "1")
	select {
	case err := <-put:
		t.Fatalf("the caller was told (%v) while its answer was held", err)
	default:
	}
	held.Release()
	if err := <-put; err != nil {
		t.Fatal(err)
	}
}

func TestRequestsThatAreNeverSent(t *testing.T) {
	t.Parallel()
	f, c, truth := faulty(t)
	f.Next(etcdtest.Any).Drop()
	_, err := c.Put(within(t, brief), t.Name(), "1")
	wantCode(t, err, codes.DeadlineExceeded)

	failing := f.Every(etcdtest.Method(etcdtest.MethodPut)).Fail(codes.Unavailable)
	for range 2 {
		_, err = c.Put(within(t, bound), t.Name(), "2")
		wantCode(t, err, codes.Unavailable)
	}
	if n := failing.Hits(); n != 2 {
		t.Errorf("%d hits, want 2", n)
	}
	wantValue(t, truth, t.Name(), "")
	failing.Remove()
	put(t, c, t.Name(), "3")
}

func TestMatchesLookIntoNestedTransactions(t *testing.T) {
	t.Parallel()
	f, c, _ := faulty(t)
	key := t.Name()
	nested := clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpTxn([]clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(key), "=", 0)}, []clientv3.Op{clientv3.OpPut("elsewhere", "")}, nil)})
	writes := f.Every(etcdtest.Match(etcdtest.Writes).And(etcdtest.Touches(key))).Count()
	if _, err := c.Do(within(t, bound), nested); err != nil {
		t.Fatal(err)
	}
	wantValue(t, c, key, "") // no write
	put(t, c, "not"+key, "") // not the key
	if n := writes.Hits(); n != 1 {
		t.Errorf("%d hits, want 1", n)
	}
}

func TestKeepAliveAnswersCanBeHeldAndLost(t *testing.T) {
	t.Parallel()
	f, c, truth := faulty(t)
	lease, err := truth.Grant(within(t, bound), 60)
	if err != nil {
		t.Fatal(err)
	}

	f.Next(etcdtest.KeepAliveReplies(nil)).LoseReply()
	_, err = c.KeepAliveOnce(within(t, brief), lease.ID)
	wantCode(t, err, codes.DeadlineExceeded)

	held := f.Next(etcdtest.KeepAliveReplies(nil)).HoldReply()
	answered := make(chan error, 1)
	go func() {
		_, err := c.KeepAliveOnce(within(t, bound), lease.ID)
		answered <- err
	}()
	held.WaitArrived(t)
	select {
	case err := <-answered:
		t.Fatalf("answered (%v) while held", err)
	default:
	}
	held.Release()
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	if n := f.Calls(etcdtest.MethodLeaseKeepAlive); n != 2 {
		t.Errorf("%d renewals sent, want 2", n)
	}
}

func TestHeldRenewalLetsTheLeaseRunOut(t *testing.T) {
	t.Parallel()
	f, c, truth := faulty(t)
	lease, err := truth.Grant(within(t, bound), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := truth.Put(within(t, bound), t.Name(), "1", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	gone := truth.Watch(within(t, bound), t.Name())
	held := f.Next(etcdtest.KeepAlives(func(r *pb.LeaseKeepAliveRequest) bool { return r.ID == int64(lease.ID) })).Hold()
	renewed := make(chan error, 1)
	go func() {
		_, err := c.KeepAliveOnce(within(t, bound), lease.ID)
		renewed <- err
	}()
	held.WaitArrived(t)
	if w := <-gone; len(w.Events) != 1 || w.Events[0].Type != clientv3.EventTypeDelete {
		t.Fatalf("watch told %+v, want the key's end", w)
	}
	held.Release()
	if err := <-renewed; err == nil {
		t.Error("a renewal sent after the lease's end was answered well")
	}
}

func TestWatchEventsCanBeDelayedLostAndBroken(t *testing.T) {
	t.Parallel()
	f, c, truth := faulty(t)
	events := func(r *pb.WatchResponse) bool { return len(r.Events) > 0 }
	watch := c.Watch(within(t, bound), t.Name(), clientv3.WithCreatedNotify())
	if w := <-watch; !w.Created {
		t.Fatalf("got %+v, want the watch created", w)
	}

	held := f.Next(etcdtest.WatchReplies(events)).HoldReply()
	put(t, truth, t.Name(), "held")
	held.WaitArrived(t)
	select {
	case w := <-watch:
		t.Fatalf("told %+v while held", w)
	default:
	}
	held.Release()
	wantEvent(t, watch, "held")

	lost := f.Next(etcdtest.WatchReplies(events)).LoseReply()
	put(t, truth, t.Name(), "lost")
	lost.WaitArrived(t)
	put(t, truth, t.Name(), "told")
	wantEvent(t, watch, "told")

	// a broken stream is opened again by the client, from where it was
	opened := f.Every(func(c etcdtest.Call) bool {
		return c.Method == etcdtest.MethodWatch && c.Request == nil && c.Reply == nil
	}).Count()
	f.Next(etcdtest.WatchReplies(events)).BreakReply(codes.Unavailable)
	put(t, truth, t.Name(), "resumed")
	wantEvent(t, watch, "resumed")
	if opened.Hits() == 0 {
		t.Error("the stream was not opened again")
	}
}

func TestStreamThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	f, c, _ := faulty(t)
	f.Every(etcdtest.Method(etcdtest.MethodLeaseKeepAlive)).Fail(codes.PermissionDenied)
	_, err := c.KeepAliveOnce(within(t, bound), 1)
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the refusal at once", err)
	}
}

func wantEvent(t *testing.T, watch clientv3.WatchChan, want string) {
	t.Helper()
	select {
	case w := <-watch:
		if len(w.Events) != 1 || string(w.Events[0].Kv.Value) != want {
			t.Fatalf("told %+v, want %q", w, want)
		}
	case <-time.After(bound):
		t.Fatalf("not told of %q", want)
	}
}
