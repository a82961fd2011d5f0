package server

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store"
)

func TestLeasesAreMade(t *testing.T) {
	var got store.Lease
	ts := serve(t, &fakeStore{newLease: func(_ context.Context, l store.Lease, arrived time.Time) (store.Lease, error) {
		if time.Since(arrived) > patience {
			t.Errorf("arrived at %v", arrived)
		}
		got = l
		l.ID = "lease"
		return l, nil
	}}, Config{})
	for body, want := range map[string]store.Lease{
		`{}`: {TTL: 30 * time.Second},
		`{"ttl_seconds":86400,"holder":"h","metadata":{"k":"v"}}`: {TTL: 24 * time.Hour, Holder: "h", Metadata: map[string]string{"k": "v"}},
	} {
		a := do(t, ts, "POST", "/leases", body)
		lease := decode[api.Lease](t, a, 201)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", body, got, want)
		}
		seconds := int64(want.TTL / time.Second)
		if lease.ID != "lease" || lease.TTLSeconds != seconds || lease.RenewAfterSeconds != seconds/3 || a.header.Get("Location") != "/leases/lease" {
			t.Errorf("%s: got %s %v", body, a.body, a.header)
		}
	}
}

func TestRenewals(t *testing.T) {
	lease, err := store.Lease{ID: someID, TTL: 2 * time.Second, Token: 7, Holder: "h"}, error(nil)
	ts := serve(t, &fakeStore{renew: func(_ context.Context, id string, arrived time.Time) (store.Lease, error) {
		if id != someID || time.Since(arrived) > patience {
			t.Errorf("renewed %q, arrived at %v", id, arrived)
		}
		return lease, err
	}}, Config{})
	got := do(t, ts, "PUT", "/leases/"+someID, "")
	want := api.Lease{ID: someID, TTLSeconds: 2, RenewAfterSeconds: 1, FencingToken: 7, Holder: "h"}
	if body := decode[api.Lease](t, got, 200); !reflect.DeepEqual(body, want) || got.header.Get("Fencing-Token") != "7" {
		t.Errorf("got %s %v", got.body, got.header)
	}

	lease.Token = 0
	got = do(t, ts, "PUT", "/leases/"+someID, "")
	if got.header.Values("Fencing-Token") != nil || strings.Contains(got.body, "fencing_token") {
		t.Errorf("a client's lease has a token: %s %v", got.body, got.header)
	}
	for e, code := range map[error]string{
		store.ErrNoLease: "lease_not_found", store.ErrLockQueued: "lock_queued", store.ErrUnknown: "outcome_unknown",
	} {
		err = e
		if got := do(t, ts, "PUT", "/leases/"+someID, ""); got.problem(t).Code != code || strings.Contains(got.body, someID) {
			t.Errorf("%v: got %s", e, got.body)
		}
	}
}

func TestLeasesAreLookedAt(t *testing.T) {
	lease := store.Lease{
		ID: "lease", TTL: 30 * time.Second, Left: 17*time.Second + 900*time.Millisecond,
		Locks: []store.Lock{{ID: "x", LeaseID: "lease", Name: "a", State: store.Held, Token: 7, TTL: 30 * time.Second}},
	}
	ts := serve(t, &fakeStore{getLease: func(context.Context, string) (store.Lease, error) { return lease, nil }}, Config{})
	got := do(t, ts, "GET", "/leases/lease", "")
	body := decode[api.LeaseStatus](t, got, 200)
	if body.TTLLeftSeconds != 17 || len(body.Locks) != 1 || body.Locks[0].FencingToken != 7 || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %s %v", got.body, got.header)
	}
	lease.Left, lease.Locks = -time.Second, nil
	got = do(t, ts, "GET", "/leases/lease", "")
	if !strings.Contains(got.body, `"ttl_left_seconds":0`) || !strings.Contains(got.body, `"locks":[]`) {
		t.Errorf("got %s", got.body)
	}
}

func TestLeasesAreEnded(t *testing.T) {
	var err error
	ts := serve(t, &fakeStore{endLease: func(_ context.Context, id string) error {
		if id != "lease" {
			t.Errorf("ended %q", id)
		}
		return err
	}}, Config{})
	if got := do(t, ts, "DELETE", "/leases/lease", ""); got.status != 204 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	err = store.ErrNoLease
	if got := do(t, ts, "DELETE", "/leases/lease", "").problem(t); got.Code != "lease_not_found" {
		t.Errorf("got %+v", got)
	}
}

// A lock on a lease of its client's has none of its own, but stands: what is told must not sound as if it were lost.
func TestLockOnAnotherLeaseIsNotToldToBeGone(t *testing.T) {
	ts := serve(t, &fakeStore{renew: func(context.Context, string, time.Time) (store.Lease, error) {
		return store.Lease{}, store.ErrOnLease
	}}, Config{})
	got := do(t, ts, "PUT", "/leases/lock", "").problem(t)
	if got.Code != "lease_not_found" || !strings.Contains(got.Detail, "lease_id") || strings.Contains(got.Detail, "ran out") {
		t.Errorf("got %+v", got)
	}
}
