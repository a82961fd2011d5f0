package store

import (
	"testing"
	"time"
)

// TestRequestRepeatedAtAnotherReplicaKeepsItsPlaceWhenTheFirstEnds is for clients whose balancer gives up early and asks
// another replica, while the first still waits: its end is not theirs.
func TestRequestRepeatedAtAnotherReplicaKeepsItsPlaceWhenTheFirstEnds(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x", TTL: 60 * time.Second})
	for _, after := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 3500 * time.Millisecond} {
		key := "repeated after " + after.String()
		first := claimInBackground(t, a, Claim{Name: "x", Key: key, Wait: 4 * time.Second})
		queuedUp(t, a, "x", 2)
		time.Sleep(after)
		second := claimInBackground(t, b, Claim{Name: "x", Key: key, Wait: within})
		if l, err := get(t, first); err != nil || l.State != Queued {
			t.Fatalf("the first, whose wait is over: got %+v, %v, want it queued still", l, err)
		}
		time.Sleep(500 * time.Millisecond)
		stillWaiting(t, second)
		mustRelease(t, a, held)
		held = getHeld(t, second)
	}
}

func TestTryRepeatedAtAnotherReplicaTakesNoPlaceAway(t *testing.T) {
	a, b := pair(t)
	const key = "0123456789abcdef"
	held := mustHold(t, a, Claim{Name: "x", TTL: 60 * time.Second})
	wait := claimInBackground(t, a, Claim{Name: "x", Key: key, Wait: within, Queue: true})
	queuedUp(t, a, "x", 2)
	if l := mustClaim(t, b, Claim{Name: "x", Key: key}); l.State != Queued || !l.Replayed {
		t.Fatalf("the try: got %+v, want the claim that waits", l)
	}
	time.Sleep(500 * time.Millisecond)
	stillWaiting(t, wait)
	mustRelease(t, a, held)
	getHeld(t, wait)
}
