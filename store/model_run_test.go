package store

import (
	"flag"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// modelRuns and modelSteps bound what the ordinary suite runs. More: -rapid.checks and -rapid.steps.
const (
	modelRuns  = "25"
	modelSteps = "50"
)

// TestStoreKeepsToItsModel gives random commands to two replicas and to the model, and compares after each: the answer,
// the claims in etcd, what each replica sees of them and who waits there. Commands that fail are shrunk to a few.
func TestStoreKeepsToItsModel(t *testing.T) {
	unlessSet(t, "rapid.checks", modelRuns)
	unlessSet(t, "rapid.steps", modelSteps)
	unlessSet(t, "rapid.nofailfile", "true") // the seed is told, and does as well
	server := etcdtest.Shared(t)
	etcd := [modelReplicas]*clientv3.Client{}
	for at := range etcd {
		etcd[at] = server.Client(t)
	}
	elsewhere := open(t, server.Client(t))
	foreign := mustHold(t, elsewhere, Claim{Name: modelNames[0], TTL: time.Hour})
	rapid.Check(t, func(t *rapid.T) {
		r := newModelRig(t, etcd, foreign.ID)
		defer r.close()
		t.Repeat(r.commands())
		r.empty(t)
	})
	if l, err := elsewhere.Look(ctxFor(t), foreign.ID); err != nil || l.State != Held || l.Token != foreign.Token {
		t.Errorf("the lock in another store: got %+v, %v, want it as it was", l, err)
	}
}

// unlessSet sets a flag for this test, if the command line does not.
func unlessSet(t *testing.T, name, value string) {
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	f := flag.Lookup(name)
	if set || f == nil {
		return
	}
	before := f.Value.String()
	if err := f.Value.Set(value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Value.Set(before) }) // it has been that
}

// empty releases all there is, and asks that nothing is left of it.
func (r *modelRig) empty(t *rapid.T) {
	ctx, cancel := modelBound()
	defer cancel()
	for len(r.world.all()) > 0 {
		no := r.world.all()[0].no
		r.did(t, r.world.release(no), r.stores[no%modelReplicas].Release(ctx, r.ids[no]))
	}
	for at, s := range r.stores {
		for end := time.Now().Add(within); s.serving() != 0 || claimsOnSlots(s) != 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("replica %d serves %d claims, and has %d on its waiting leases, when there is none", at, s.serving(), claimsOnSlots(s))
			}
		}
	}
}

func claimsOnSlots(s *Store) (n int) {
	p := &s.registration().presence
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sl := range p.slots {
		n += sl.claims
	}
	return n
}
