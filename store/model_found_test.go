package store

import (
	"testing"
	"time"
)

// What the model has found wrong, by name.

func TestClaimOnALeaseThatEndedElsewhereIsToldSoOnABusyNameToo(t *testing.T) {
	a, b := pair(t)
	held := mustHold(t, a, Claim{Name: "x"})
	lease := mustLease(t, a, 30*time.Second)
	for range 2 { // from the second on a looks before it tries
		wantBusy(t, "a try on a held name", errOf(a.Claim(ctxFor(t), Claim{Name: "x", LeaseID: lease.ID})))
	}
	if err := b.EndLease(ctxFor(t), lease.ID); err != nil {
		t.Fatal(err)
	}
	for range 2 { // once as it is remembered, once as it is read
		wantErr(t, "a try on a lease that has ended", errOf(a.Claim(ctxFor(t), Claim{Name: "x", LeaseID: lease.ID})), ErrNoLease)
	}
	mustRelease(t, a, held)
}
