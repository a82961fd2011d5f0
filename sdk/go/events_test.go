package latchkey_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestStreamOfAClaimTellsItsStates(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{Servers: []string{"http://127.0.0.1:1", shared}})
	first := mustLock(t, c, "events", latchkey.LockOptions{})
	claim, err := c.Claim(within(t), latchkey.ClaimRequest{Name: "events", Queue: true})
	if err != nil {
		t.Fatal(err)
	}
	var told []latchkey.State
	for event, err := range c.LockEvents(within(t), claim.ID) {
		if err != nil || event.Claim == nil {
			t.Fatalf("told %+v, %v", event, err)
		}
		if told = append(told, event.Claim.State); len(told) == 1 {
			first.Release()
		}
	}
	if len(told) != 2 || told[0] != latchkey.Queued || told[1] != latchkey.Held {
		t.Errorf("told %q, want queued and held", told)
	}
	if err := c.Release(within(t), claim.ID); err != nil {
		t.Error(err)
	}
	for event, err := range c.LockEvents(within(t), claim.ID) {
		wantIs(t, err, latchkey.ErrLockNotFound)
		if event != (latchkey.LockEvent{}) {
			t.Errorf("of a claim that is gone is told %+v", event)
		}
	}
}

func TestStreamOfALeaseRenewsIt(t *testing.T) {
	t.Parallel()
	c := newClient(t, latchkey.Config{})
	lease, err := c.CreateLease(within(t), latchkey.LeaseRequest{TTLSeconds: 4})
	if err != nil {
		t.Fatal(err)
	}
	renewals, lost := 0, false
	var until time.Time
	for event, err := range c.KeepAlive(within(t), lease.ID) {
		switch {
		case err != nil:
			t.Fatal(err)
		case event.Renewed != nil:
			if !event.Until.After(until) || time.Until(event.Until) > 4*time.Second {
				t.Errorf("renewed until %v, before until %v", event.Until, until)
			}
			until = event.Until
			if renewals++; renewals == 5 { // for longer than its TTL
				if err := c.EndLease(within(t), lease.ID); err != nil {
					t.Fatal(err)
				}
			}
		case event.Lost != nil:
			wantIs(t, event.Lost, latchkey.ErrLeaseNotFound)
			lost = true
		}
	}
	if renewals < 5 || !lost {
		t.Errorf("told of %d renewals, and that it is lost: %v", renewals, lost)
	}
}

func TestStreamThatBreaksIsToldAsAnError(t *testing.T) {
	t.Parallel()
	line := etcdtest.NewProxy(t, address(shared))
	c := newClient(t, latchkey.Config{Servers: []string{"http://" + line.Addr()}})
	mustLock(t, newClient(t, latchkey.Config{}), "broken", latchkey.LockOptions{})
	claim, err := c.Claim(within(t), latchkey.ClaimRequest{Name: "broken", Queue: true})
	if err != nil {
		t.Fatal(err)
	}
	var broke error
	for event, err := range c.LockEvents(within(t), claim.ID) {
		if event.Claim != nil {
			line.Reset()
		}
		broke = err
	}
	as[*latchkey.UnreachableError](t, broke)
}

func TestStreamThatEndsWithoutAWordIsToldAsAnError(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write([]byte(": still here\n\nevent: queued\ndata: {\"state\":\"queued\",\"position\":3}\n\nevent: held\n"))
	}))
	defer server.Close()
	c := newClient(t, latchkey.Config{Servers: []string{server.URL}})
	var told []int
	var broke error
	for event, err := range c.LockEvents(within(t), "a") {
		if broke = err; event.Claim != nil {
			told = append(told, event.Claim.Position)
		}
	}
	as[*latchkey.UnreachableError](t, broke)
	if len(told) != 1 || told[0] != 3 {
		t.Errorf("told the positions %d, want 3", told)
	}
}
