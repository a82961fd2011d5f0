package store

import (
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestRenewalOfAnEarlierTermIsNotCountedThoughTheWitnessIsKnown holds a member's "ok" back while the leadership moves, for
// leases whose renewals begin without a read.
func TestRenewalOfAnEarlierTermIsNotCountedThoughTheWitnessIsKnown(t *testing.T) {
	cluster := etcdtest.NewCluster(t, 3)
	faults := etcdtest.NewFaults(t)
	a := open(t, cluster.Client(t, nil, faults), func(c *Config) { c.RequestBound, c.WaitingTTL = within, 60*time.Second })
	lock, lease := mustHold(t, a, Claim{Name: "x"}), mustLease(t, a, 30*time.Second)
	for _, id := range []string{lock.ID, lease.ID} {
		if _, err := a.Renew(ctxFor(t), id, time.Now()); err != nil {
			t.Fatal(err)
		}
		if w, known := a.remembered(id); !known || w.until.IsZero() {
			t.Fatalf("the witness of %q is not known after a renewal", id)
		}
		ok := faults.Next(etcdtest.KeepAliveReplies(nil)).HoldReply()
		renewal := inBackground(func() (Lock, error) { return Lock{}, errOf(a.Renew(ctxFor(t), id, time.Now())) })
		ok.WaitDone(t)
		before := etcdLeaseOf(t, a, id)
		leader := cluster.Leader()
		cluster.Kill(leader)
		eventually(t, "another leads", func() bool { return len(claimsOn(t, a, "x")) == 1 })
		stillWaiting(t, renewal)
		ok.Release()
		if _, err := get(t, renewal); err != nil {
			t.Errorf("renew: %v", err)
		}
		if etcdLeaseOf(t, a, id) == before {
			t.Error("a renewal was confirmed by an answer of the term before")
		}
		cluster.Restart(leader)
		if err := cluster.WaitHealthy(ctxFor(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// etcdLeaseOf is the etcd lease that a held lock or a client's lease is on.
func etcdLeaseOf(t testing.TB, s *Store, id string) clientv3.LeaseID {
	t.Helper()
	w, err := s.witness(ctxFor(t), id)
	if err != nil {
		t.Fatalf("look at %s: %v", id, err)
	}
	return w.etcdLease()
}

func TestRenewalBesideATransactionIsProvenByItsOwnTermAlone(t *testing.T) {
	sent := time.Now()
	for name, c := range map[string]struct {
		answered, committed uint64
		want                time.Time
	}{
		"one term":                    {7, 7, sent},
		"answered in the term before": {6, 7, time.Time{}},
		"answered in the term after":  {8, 7, time.Time{}},
		"not answered":                {0, 7, time.Time{}},
		"neither has a term":          {0, 0, time.Time{}},
	} {
		if got := (kept{sent: sent, term: c.answered}).provenBy(c.committed); !got.Equal(c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestWitnessesForgetTheOldestAndKeepTheLatestEnd(t *testing.T) {
	var w witnesses
	soon, later := time.Now().Add(time.Second), time.Now().Add(time.Minute)
	w.put(witness{id: "x", record: &leaseRecord{}, until: later})
	w.put(witness{id: "x", record: &leaseRecord{}, until: soon})
	w.extend("x", soon)
	w.extend("unknown", later)
	if got := w.until("x"); !got.Equal(later) {
		t.Errorf("got %v, want the later end %v", got, later)
	}
	if _, known := w.get("unknown"); known {
		t.Error("an end made a witness")
	}
	for i := range maxWitnesses {
		w.put(witness{id: fmt.Sprint(i), record: &leaseRecord{}})
	}
	if _, known := w.get("x"); !known {
		t.Error("one that is in use is forgotten before so many others came")
	}
	for i := range 2 * maxWitnesses {
		w.put(witness{id: fmt.Sprint("more", i), record: &leaseRecord{}})
	}
	if _, known := w.get("x"); known || len(w.young)+len(w.old) > 2*maxWitnesses {
		t.Errorf("%d are remembered, and one that nobody used among them: %v", len(w.young)+len(w.old), known)
	}
	w.put(witness{id: "x", record: &leaseRecord{}, until: later})
	if got := w.drop("x"); !got.until.Equal(later) {
		t.Errorf("dropped: got %v, want %v", got.until, later)
	}
	if _, known := w.get("x"); known {
		t.Error("a dropped witness is still known")
	}
}
