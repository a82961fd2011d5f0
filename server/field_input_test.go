package server

import (
	"slices"
	"testing"
)

// overflowing are whole numbers that arithmetic in 64 bits, in nanoseconds or in floating point makes something else of,
// some of them a value that is allowed.
var overflowing = []string{
	"9000000001",           // one more second than etcd takes
	"86400000000000",       // a day in nanoseconds
	"9007199254740993",     // 2^53+1
	"36028797018963998",    // 2^55+30: in nanoseconds it wraps to 30 s
	"9223372036854775807",  // the largest that int64 has
	"9223372036854775808",  // one more
	"18446744073709551616", // 2^64: it wraps to 0
	"18446744073709551646", // 2^64+30
	"-9223372036854775809",
	"-18446744073709551586", // -2^64+30
	"340282366920938463463374607431768211486",
	"1e1", "1e18", "1E+1", "0.30e2",
}

// None of them is clamped, wrapped or rounded into what is allowed, and none reaches the store.
func TestNumbersThatOverflowAreRefused(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	for _, n := range overflowing {
		for _, c := range []struct{ method, path, body, place string }{
			{"POST", "/locks", `{"name":"a","ttl_seconds":` + n + `}`, "body /ttl_seconds"},
			{"POST", "/leases", `{"ttl_seconds":` + n + `}`, "body /ttl_seconds"},
			{"POST", "/locks", `{"name":"a","wait_seconds":` + n + `}`, "body /wait_seconds"},
			{"GET", "/locks/" + someID + "?wait_seconds=" + n, "", "wait_seconds"},
		} {
			got := do(t, ts, c.method, c.path, c.body).problem(t)
			if got.Code != "invalid_request" || !slices.Equal(places(got), []string{c.place}) {
				t.Errorf("%s %s %s: got %s at %q, want invalid_request at %s", c.method, c.path, c.body, got.Code, places(got), c.place)
			}
		}
	}
}

// A wait has a bound that the client is told, whatever way it asks to wait.
func TestWaitsWithoutAnEndAreRefused(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	for _, wait := range []string{"56", "3601", "86400", "1000000000", "-1", "1.5", `"10"`, "true", "null"} {
		got := do(t, ts, "POST", "/locks", `{"name":"a","queue":true,"wait_seconds":`+wait+`}`).problem(t)
		if got.Code != "invalid_request" || !slices.Equal(places(got), []string{"body /wait_seconds"}) {
			t.Errorf("a claim that waits %s: got %s at %q", wait, got.Code, places(got))
		}
	}
	for _, wait := range []string{"56", "86400", "-1", "1.5", "forever", "%2210%22", ""} {
		got := do(t, ts, "GET", "/locks/"+someID+"?wait_seconds="+wait, "").problem(t)
		if got.Code != "invalid_request" || !slices.Equal(places(got), []string{"wait_seconds"}) {
			t.Errorf("a poll that waits %q: got %s at %q", wait, got.Code, places(got))
		}
	}
}
