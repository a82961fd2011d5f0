package store

import (
	"testing"
	"time"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// lapsing is a claim whose place at A is just being taken out, as nobody has asked for it for a waiting TTL.
func lapsing(t *testing.T) (a, b *Store, mine Lock, leaving *etcdtest.Fault) {
	a, faults := faulty(t)
	b = open(t, shared(t))
	mustHold(t, a, Claim{Name: "x"})
	mine = enqueue(t, a, Claim{Name: "x"})
	leaving = faults.Every(etcdtest.Txns(deletes)).Hold()
	leaving.WaitArrived(t)
	return a, b, mine, leaving
}

func adopted(t *testing.T, b *Store, mine Lock) {
	t.Helper()
	old := asItStands(t, b, mine.ID)
	askInBackground(t, b, mine, within)
	eventually(t, "B adopts the claim", func() bool { return asItStands(t, b, mine.ID).onLease != old.onLease })
}

func TestAskThatMeetsALapseIsNotToldThatTheClaimHasMoved(t *testing.T) {
	a, b, mine, leaving := lapsing(t)
	wait := askInBackground(t, a, mine, within/4)
	p := current(t, a).lines["x"].places[a.keys.claim("x", asItStands(t, b, mine.ID).nonce)]
	eventually(t, "A's request is attached", func() bool {
		p.line.mu.Lock()
		defer p.line.mu.Unlock()
		return p.attached > 0
	})
	adopted(t, b, mine)
	leaving.Release()
	if l, err := get(t, wait); err != nil || l.State != Queued {
		t.Errorf("the request at A: got %+v, %v, want it queued", l, err)
	}
}

func TestAskAfterAnotherReplicaHasAdoptedDuringALapse(t *testing.T) {
	a, b, mine, leaving := lapsing(t)
	p := current(t, a).lines["x"].places[a.keys.claim("x", asItStands(t, b, mine.ID).nonce)]
	adopted(t, b, mine)
	eventually(t, "A sees it", func() bool {
		p.line.mu.Lock()
		defer p.line.mu.Unlock()
		return p.over != nil
	})
	wait := askInBackground(t, a, mine, within/4)
	l, err := get(t, wait)
	leaving.Release()
	if err != nil || l.State != Queued {
		t.Errorf("the request at A: got %+v, %v, want it queued", l, err)
	}
}

// A claim that another replica serves does not go with the lease that it was on here.
func TestWaitIsNotToldAPlaceLostThatStandsElsewhere(t *testing.T) {
	a, b := pair(t)
	mustHold(t, a, Claim{Name: "x"})
	mine := enqueue(t, a, Claim{Name: "x"})
	old := asItStands(t, b, mine.ID)
	wait := askInBackground(t, a, mine, 5*time.Second)
	askInBackground(t, b, mine, within)
	eventually(t, "B adopts the claim", func() bool { return asItStands(t, b, mine.ID).onLease != old.onLease })
	if _, err := shared(t).Revoke(ctxFor(t), old.onLease); err != nil {
		t.Fatal(err)
	}
	l, err := get(t, wait)
	st := asItStands(t, b, mine.ID) // it stands
	if err != nil || l.State != Queued {
		t.Errorf("the wait at A: got %+v, %v, want it queued; the claim stands: %+v", l, err, st)
	}
}
