package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// What etcd itself can do to a lock service, and did to others.

func TestHandOffsGoOnUnderCompaction(t *testing.T) {
	etcd := etcdtest.New(t)
	a, b := open(t, etcd.Client(t)), open(t, etcd.Client(t))
	ctx, stop := context.WithCancel(ctxFor(t))
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() {
		for ctx.Err() == nil {
			if resp, err := a.etcd.Put(ctx, "/junk", "x"); err == nil {
				_, _ = a.etcd.Compact(ctx, resp.Header.Revision) // refused when nothing is new
			}
			sleep(ctx, 5*time.Millisecond)
		}
	})
	held := mustHold(t, a, Claim{Name: "x"})
	for i := range 200 {
		next := claimInBackground(t, []*Store{a, b}[i%2], Claim{Name: "x", Wait: within})
		queuedUp(t, a, "x", 2)
		released := time.Now()
		mustRelease(t, a, held)
		held = getHeld(t, next)
		if took := time.Since(released); took > 5*time.Second {
			t.Fatalf("hand-off %d took %v", i, took)
		}
	}
}

func TestMissedEventIsNoticedByALook(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	a := open(t, etcdtest.Shared(t).Client(t, faults))
	b := open(t, shared(t))
	held := mustHold(t, b, Claim{Name: "x"})
	wait := claimInBackground(t, a, Claim{Name: "x", Wait: within})
	eventually(t, "a watches the name", func() bool { return current(t, a).waiting("x") == 2 })
	faults.Every(etcdtest.WatchReplies(nil)).LoseReply()
	released := time.Now()
	mustRelease(t, b, held)
	getHeld(t, wait)
	if took := time.Since(released); took > 5*time.Second {
		t.Errorf("a release whose event was lost was noticed after %v", took)
	}
}

func TestPlaceThatVanishesUnheardIsNoticedByTheNextList(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	a := open(t, etcdtest.Shared(t).Client(t, faults))
	a.relistEvery = time.Second
	mustHold(t, a, Claim{Name: "x"})
	mine := enqueue(t, a, Claim{Name: "x"})
	wait := askInBackground(t, a, mine, within)
	eventually(t, "a watches the name", func() bool { return current(t, a).waiting("x") == 2 })
	faults.Every(etcdtest.WatchReplies(nil)).LoseReply()
	if _, err := a.etcd.Delete(ctxFor(t), asItStands(t, a, mine.ID).key); err != nil {
		t.Fatal(err)
	}
	_, err := get(t, wait)
	wantErr(t, "a wait on a place whose end was not heard", err, ErrPlaceLost)
}

func TestFullStoreStillReleases(t *testing.T) {
	etcd := etcdtest.New(t)
	a := open(t, etcd.Client(t))
	held := mustHold(t, a, Claim{Name: "x"})
	lease := mustLease(t, a, 60*time.Second)
	onLease := mustHold(t, a, Claim{Name: "on lease", LeaseID: lease.ID})
	alarm(t, etcd, etcdserverpb.AlarmRequest_ACTIVATE)
	_, err := a.Claim(ctxFor(t), Claim{Name: "y", TTL: 30 * time.Second})
	wantErr(t, "a claim in a full store", err, ErrUnavailable)
	if _, err := a.Renew(ctxFor(t), lease.ID, time.Now()); err != nil {
		t.Errorf("renew in a full store: %v", err)
	}
	mustRelease(t, a, held)
	mustRelease(t, a, onLease)
	if got := claimsOn(t, a, "y"); len(got) != 0 {
		t.Errorf("the refused claim stands: %+v", got)
	}
	alarm(t, etcd, etcdserverpb.AlarmRequest_DEACTIVATE)
	mustHold(t, a, Claim{Name: "x"})
}

func TestRefusalAfterAnUnansweredAttemptIsNotANo(t *testing.T) {
	etcd := etcdtest.New(t)
	faults := etcdtest.NewFaults(t)
	a := open(t, etcd.Client(t, faults))
	const key = "0123456789abcdef"
	first := faults.Next(puts(a, a.keys.locks())).HoldReply()
	try := claimInBackground(t, a, Claim{Name: "x", Key: key})
	first.WaitDone(t)
	second := faults.Next(puts(a, a.keys.locks())).Hold() // the first runs into its bound, the fence is raised
	second.WaitArrived(t)
	alarm(t, etcd, etcdserverpb.AlarmRequest_ACTIVATE)
	second.Release()
	_, err := get(t, try)
	wantErr(t, "a claim whose first attempt was applied and whose second was refused", err, ErrUnknown)
	queuedUp(t, a, "x", 1)
	alarm(t, etcd, etcdserverpb.AlarmRequest_DEACTIVATE)
	if l := mustHold(t, a, Claim{Name: "x", Key: key}); !l.Replayed {
		t.Errorf("got %+v, want it replayed", l)
	}
}

func alarm(t testing.TB, etcd *etcdtest.Server, action etcdserverpb.AlarmRequest_AlarmAction) {
	t.Helper()
	server := etcd.Etcd().Server
	_, err := server.Alarm(ctxFor(t), &etcdserverpb.AlarmRequest{
		Action: action, Alarm: etcdserverpb.AlarmType_NOSPACE, MemberID: uint64(server.MemberID()),
	})
	if err != nil {
		t.Fatalf("alarm: %v", err)
	}
}

func TestGrantThatEtcdRefusesEndsWithTheWait(t *testing.T) {
	etcd := etcdtest.New(t)
	a := open(t, etcd.Client(t))
	held := mustHold(t, a, Claim{Name: "x"})
	begun := time.Now()
	wait := claimInBackground(t, a, Claim{Name: "x", Wait: 2 * time.Second})
	queuedUp(t, a, "x", 2)
	alarm(t, etcd, etcdserverpb.AlarmRequest_ACTIVATE)
	mustRelease(t, a, held)
	_, err := get(t, wait)
	wantErr(t, "a wait whose grant a full store refuses", err, ErrUnavailable)
	if took := time.Since(begun); took > 2*time.Second+a.cfg.RequestBound-time.Second {
		t.Errorf("a wait of 2 s took %v", took)
	}
	queuedUp(t, a, "x", 0)
}

func TestRefusalOnAWatchedNameIsUnavailable(t *testing.T) {
	etcd := etcdtest.New(t)
	a := open(t, etcd.Client(t))
	held := mustHold(t, a, Claim{Name: "x"})
	enqueue(t, a, Claim{Name: "x"})
	eventually(t, "a watches the name", func() bool { return current(t, a).waiting("x") == 2 })
	alarm(t, etcd, etcdserverpb.AlarmRequest_ACTIVATE)
	_, err := a.Claim(ctxFor(t), Claim{Name: "x", TTL: 30 * time.Second, Queue: true})
	wantErr(t, "a claim that a full store refuses", err, ErrUnavailable)
	mustRelease(t, a, held)
}

func TestMissedRoundOfRenewalsEndsNoWait(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	a := open(t, etcdtest.Shared(t).Client(t, faults), func(c *Config) { c.WaitingTTL = 6 * time.Second })
	held := mustHold(t, a, Claim{Name: "x"})
	wait := claimInBackground(t, a, Claim{Name: "x", Wait: within})
	queuedUp(t, a, "x", 2)
	lost := faults.Every(etcdtest.KeepAlives(nil)).Fail(codes.Unavailable)
	lost.WaitArrived(t)
	sleep(ctxFor(t), 500*time.Millisecond)
	lost.Remove()
	eventually(t, "all is renewed again", func() bool {
		p := &current(t, a).presence
		p.mu.Lock()
		defer p.mu.Unlock()
		return time.Since(p.slots[0].proven) < p.every
	})
	stillWaiting(t, wait)
	mustRelease(t, a, held)
	getHeld(t, wait)
}

// TestReplicaWhoseRegistrationHasRunOutKeepsNoPlaces is one that was stopped for longer than its registration lasts, and for
// less than its waiting leases do.
func TestReplicaWhoseRegistrationHasRunOutKeepsNoPlaces(t *testing.T) {
	faults := etcdtest.NewFaults(t)
	a := open(t, etcdtest.Shared(t).Client(t, faults))
	mustHold(t, a, Claim{Name: "x"})
	wait := claimInBackground(t, a, Claim{Name: "x", Wait: within})
	queuedUp(t, a, "x", 2)
	r := current(t, a)
	r.presence.mu.Lock()
	slot := r.presence.slots[0].id
	r.presence.mu.Unlock()
	renewals := faults.Every(etcdtest.KeepAlives(func(req *etcdserverpb.LeaseKeepAliveRequest) bool {
		return clientv3.LeaseID(req.ID) == slot
	})).Count()
	if !r.presence.renew(ctxFor(t)) || renewals.Hits() == 0 {
		t.Fatal("a place is not kept: this asks for nothing")
	}
	if _, err := a.etcd.Revoke(ctxFor(t), r.lease); err != nil {
		t.Fatal(err)
	}
	before := renewals.Hits()
	if r.presence.renew(ctxFor(t)) || renewals.Hits() != before {
		t.Errorf("a place was kept after the registration had run out, %d times", renewals.Hits()-before)
	}
	if _, err := get(t, wait); !errors.Is(err, ErrUnavailable) {
		t.Errorf("the wait: got %v, want %v", err, ErrUnavailable)
	}
}

func TestUserLimitedToThePrefixIsEnough(t *testing.T) {
	etcd := etcdtest.New(t)
	root := etcd.Client(t)
	ctx := ctxFor(t)
	const prefix = "/latchkey/"
	for what, do := range map[string]func() error{
		"role":  func() error { return errOf(root.RoleAdd(ctx, "root")) },
		"role2": func() error { return errOf(root.RoleAdd(ctx, "locks")) },
	} {
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for _, err := range []error{
		errOf(root.RoleGrantPermission(ctx, "locks", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))),
		errOf(root.UserAdd(ctx, "root", "root-password")), errOf(root.UserGrantRole(ctx, "root", "root")),
		errOf(root.UserAdd(ctx, "latchkey", "password")), errOf(root.UserGrantRole(ctx, "latchkey", "locks")),
		errOf(root.AuthEnable(ctx)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{etcd.Endpoint()}, Username: "latchkey", Password: "password", DialTimeout: within,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s := open(t, client, func(c *Config) { // each stream authenticates anew, which takes its time
		c.Prefix, c.WaitingTTL, c.RequestBound = prefix, 30*time.Second, within
	})
	held := mustHold(t, s, Claim{Name: "x", TTL: 10 * time.Second})
	if _, err := s.Renew(ctx, held.ID, time.Now()); err != nil {
		t.Errorf("renew: %v", err)
	}
	wait := claimInBackground(t, s, Claim{Name: "x", Wait: within})
	queuedUp(t, s, "x", 2)
	mustRelease(t, s, held)
	getHeld(t, wait)
	lease := mustLease(t, s, 10*time.Second)
	mustHold(t, s, Claim{Name: "y", LeaseID: lease.ID})
	if got, err := s.GetLease(ctx, lease.ID); err != nil || len(got.Locks) != 1 {
		t.Errorf("get a lease: %+v, %v", got, err)
	}
	if err := s.EndLease(ctx, lease.ID); err != nil {
		t.Errorf("end a lease: %v", err)
	}
}

func TestTriesOnABusyNameLeaveNothing(t *testing.T) {
	etcd := etcdtest.New(t)
	a := open(t, etcd.Client(t))
	mustHold(t, a, Claim{Name: "x", TTL: 60 * time.Second})
	leases := func() int {
		resp, err := a.etcd.Leases(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		return len(resp.Leases)
	}
	var work sync.WaitGroup
	for range 10 {
		work.Go(func() {
			for range 20 {
				if _, err := a.Claim(ctxFor(t), Claim{Name: "x", TTL: 60 * time.Second}); err == nil {
					t.Error("a try on a held name succeeded")
				}
			}
		})
	}
	work.Wait()
	queuedUp(t, a, "x", 1)
	eventually(t, "only the holder's lease, the replica's and the pool's are left", func() bool {
		return leases() == 2+a.idleLeases()
	})
}

func TestNoNameLeavesAResidue(t *testing.T) {
	etcd := etcdtest.New(t)
	a := open(t, etcd.Client(t))
	for i := range 300 {
		name := fmt.Sprintf("n%d", i)
		held := mustHold(t, a, Claim{Name: name})
		if i%10 == 0 {
			wait := claimInBackground(t, a, Claim{Name: name, Wait: within})
			queuedUp(t, a, name, 2)
			mustRelease(t, a, held)
			held = getHeld(t, wait)
		}
		mustRelease(t, a, held)
	}
	got, err := a.etcd.Get(ctxFor(t), a.keys.locks(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || got.Count != 0 {
		t.Errorf("got %d claims, %v, want none", got.Count, err)
	}
	eventually(t, "lines and leases are gone", func() bool {
		r := current(t, a)
		r.mu.Lock()
		lines := len(r.lines)
		r.mu.Unlock()
		resp, err := a.etcd.Leases(ctxFor(t))
		return err == nil && lines == 0 && len(resp.Leases) <= 2+a.idleLeases() // the replica's, and one waiting lease to spare
	})
}
