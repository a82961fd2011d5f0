package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// What became of leases in other lock services: raised unseen, brought back, made twice, taken for another's.

func TestTTLToldIsTheOneThatEtcdKeeps(t *testing.T) {
	a, b := pair(t)
	least, most := a.TTLBounds()
	for _, ttl := range []time.Duration{least, 2 * time.Second, 7 * time.Second, pooledTTL + time.Second, most} {
		for _, how := range []string{"begun for it", "pooled"} {
			l := mustHold(t, a, Claim{Name: ttl.String(), TTL: ttl})
			if granted := grantedTTL(t, b, asItStands(t, b, l.ID).onLease); l.TTL != ttl || granted != ttl {
				t.Errorf("a lock for %v on a lease %s: told %v, etcd keeps %v", ttl, how, l.TTL, granted)
			}
			mustRelease(t, a, l)
		}
		lease := mustLease(t, a, ttl)
		record, err := b.readLease(ctxFor(t), calledOf(t, lease.ID))
		if err != nil {
			t.Fatal(err)
		}
		if granted := grantedTTL(t, b, record.Lease); lease.TTL != ttl || granted != ttl {
			t.Errorf("a lease for %v: told %v, etcd keeps %v", ttl, lease.TTL, granted)
		}
	}
}

func grantedTTL(t testing.TB, s *Store, id clientv3.LeaseID) time.Duration {
	t.Helper()
	resp, err := s.left(ctxFor(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(resp.GrantedTTL) * time.Second
}

// TestRenewalOfWhatIsGoneMakesNothing renews what never was, was ended, and ran out, wherever it was known.
func TestRenewalOfWhatIsGoneMakesNothing(t *testing.T) {
	etcd := etcdtest.New(t)
	a, b := open(t, etcd.Client(t)), open(t, etcd.Client(t))
	foreign := open(t, etcd.Client(t), func(c *Config) { c.Prefix += "other/" })
	const short = time.Second
	released, ended := mustHold(t, a, Claim{Name: "released"}), mustLease(t, a, time.Minute)
	ranOut, leaseRanOut := mustHold(t, a, Claim{Name: "ran out", TTL: short}), mustLease(t, a, short)
	for _, s := range []*Store{a, b} { // so that both remember them
		for _, id := range []string{released.ID, ended.ID} {
			if _, err := s.Renew(ctxFor(t), id, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustRelease(t, a, released)
	if err := a.EndLease(ctxFor(t), ended.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the others have run out", func() bool {
		_, lock := a.Look(ctxFor(t), ranOut.ID)
		_, lease := a.GetLease(ctxFor(t), leaseRanOut.ID)
		return errors.Is(lock, ErrNoLock) && errors.Is(lease, ErrNoLease)
	})
	gone := map[string]string{
		"a lock of another store": mustHold(t, foreign, Claim{Name: "x"}).ID, "a lease of another store": mustLease(t, foreign, time.Minute).ID,
		"a lease that never was": newNonce().text(), "a released lock": released.ID, "an ended lease": ended.ID,
		"a lock that ran out": ranOut.ID, "a lease that ran out": leaseRanOut.ID,
	}
	leases, keys := etcdLeases(t, a), keysOf(t, a)
	for what, id := range gone {
		for _, s := range []*Store{a, b, b, a} {
			_, err := s.Renew(ctxFor(t), id, time.Now())
			wantErr(t, "the renewal of "+what, err, ErrNoLease)
		}
	}
	for _, lease := range etcdLeases(t, a) {
		if !slices.Contains(leases, lease) {
			t.Errorf("a renewal of what is gone has begun the etcd lease %x", lease)
		}
	}
	if now := keysOf(t, a); !slices.Equal(now, keys) {
		t.Errorf("renewals of what is gone changed what stands from %q to %q", keys, now)
	}
}

func etcdLeases(t testing.TB, s *Store) []clientv3.LeaseID {
	t.Helper()
	resp, err := s.etcd.Leases(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]clientv3.LeaseID, len(resp.Leases))
	for i, l := range resp.Leases {
		ids[i] = l.ID
	}
	return ids
}

func keysOf(t testing.TB, s *Store) []string {
	t.Helper()
	got, err := s.etcd.Get(ctxFor(t), s.cfg.Prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]string, len(got.Kvs))
	for i, kv := range got.Kvs {
		keys[i] = string(kv.Key)
	}
	return keys
}

// TestLostReplyOfALeaseGrantLeavesNoLease: who chooses the id of a lease may ask for it twice and still has one.
func TestLostReplyOfALeaseGrantLeavesNoLease(t *testing.T) {
	etcd, faults := etcdtest.New(t), etcdtest.NewFaults(t)
	a := open(t, etcd.Client(t, faults), func(c *Config) { c.RequestBound = 2 * time.Second })
	const claims, ttl = 10, pooledTTL
	var held []Lock
	for i := range claims {
		lost := faults.Next(etcdtest.Method(etcdtest.MethodLeaseGrant)).BreakReply(codes.Unavailable)
		l, err := a.Claim(ctxFor(t), Claim{Name: fmt.Sprint(i), TTL: ttl})
		lost.WaitDone(t)
		if err == nil {
			held = append(held, l)
		} else if !errors.Is(err, ErrUnavailable) {
			t.Errorf("a claim whose etcd lease was granted unheard: %v", err)
		}
	}
	if len(held) == 0 {
		t.Error("no claim outlives one lost reply")
	}
	for _, l := range held {
		mustRelease(t, a, l)
	}
	noSpareLeases(t, a)

	lost := faults.Every(etcdtest.Method(etcdtest.MethodLeaseGrant)).BreakReply(codes.Unavailable)
	var work sync.WaitGroup
	for i := range claims {
		work.Go(func() { // not of the pool's: another TTL
			if l, err := a.Claim(ctxFor(t), Claim{Name: fmt.Sprint(i), TTL: 2 * time.Second}); err == nil {
				t.Errorf("a claim is held on an etcd lease that nobody heard of: %+v", l)
			}
		})
	}
	work.Wait()
	lost.Remove()
	noSpareLeases(t, a)
}

// noSpareLeases waits until etcd has the replica's lease, a waiting one, and those of the pool.
func noSpareLeases(t testing.TB, s *Store) {
	t.Helper()
	eventually(t, "no etcd lease is left that nobody uses", func() bool { return len(etcdLeases(t, s)) <= 2+s.idleLeases() })
}

// TestClaimAtTheEndOfAnEarlierTTLIsAGrantOfItsOwn claims anew, as a client that has forgotten all, while its earlier
// claim runs out: it is told of no hold but one that lasts.
func TestClaimAtTheEndOfAnEarlierTTLIsAGrantOfItsOwn(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	const ttl = 2 * time.Second
	begun := time.Now()
	first := mustHold(t, a, Claim{Name: "x", TTL: ttl, Key: newNonce().text(), Holder: "h"})
	sleep(ctxFor(t), ttl-time.Second)
	var again Lock
	var asked time.Time
	for i, err := 0, error(nil); ; i++ {
		asked = time.Now()
		again, err = []*Store{a, b}[i%2].Claim(ctxFor(t), Claim{Name: "x", TTL: ttl, Key: newNonce().text(), Holder: "h"})
		if err == nil {
			break
		}
		wantBusy(t, "a claim anew while the earlier one stands", err)
		if time.Since(begun) > within {
			t.Fatalf("the earlier claim stands after %v", within)
		}
		sleep(ctxFor(t), 100*time.Millisecond)
	}
	if again.State != Held || again.Replayed || again.ID == first.ID || again.Token <= first.Token {
		t.Errorf("got %+v, want a grant of its own after %+v", again, first)
	}
	if took := time.Since(begun); took < ttl {
		t.Errorf("granted anew after %v, inside the earlier TTL", took)
	}
	sleep(ctxFor(t), time.Until(asked.Add(ttl-time.Second)))
	if _, err := b.Renew(ctxFor(t), again.ID, time.Now()); err != nil && time.Since(asked) < ttl {
		t.Errorf("renew well inside its TTL: %v", err)
	}
}
