package server

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store"
)

// null is neither a value nor the same as nothing, in whatever field.
func TestNullIsNoValue(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	for path, schema := range map[string]string{"/locks": "LockRequest", "/leases": "LeaseRequest"} {
		fields := contractDoc().Components.Schemas[schema].Value.Properties
		if len(fields) < 3 {
			t.Fatalf("%s has %d fields", schema, len(fields))
		}
		for field := range fields {
			body := `{"` + field + `":null}`
			if path == "/locks" && field != "name" {
				body = `{"name":"a","` + field + `":null}`
			}
			got := do(t, ts, "POST", path, body).problem(t)
			if got.Code != "invalid_request" || !slices.Equal(places(got), []string{"body /" + field}) {
				t.Errorf("POST %s %s: got %+v", path, body, got)
			}
		}
	}
}

// Clocks are compared nowhere, so none is told: the contract has durations only, and the one time in an answer is HTTP's.
func TestNoTimeOfDayIsTold(t *testing.T) {
	for _, never := range []string{`format: *["']?date`, `format: *["']?time`, `\d{4}-\d\d-\d\d[T ]\d\d:`} {
		if found := regexp.MustCompile(never).Find(api.Contract); found != nil {
			t.Errorf("the contract has %q", found)
		}
	}
	ts := serve(t, &fakeStore{claim: func(context.Context, store.Claim) (store.Lock, error) {
		return store.Lock{ID: "x", Name: "a", State: store.Held, Token: 1, TTL: time.Minute}, nil
	}}, Config{})
	for _, c := range [][3]string{{"POST", "/locks", `{"name":"a"}`}, {"POST", "/locks", `{}`}, {"GET", "/nowhere", ""}, {"GET", "/healthz", ""}} {
		got := do(t, ts, c[0], c[1], c[2])
		if _, err := time.Parse(http.TimeFormat, got.header.Get("Date")); err != nil {
			t.Errorf("%s %s: %v", c[0], c[1], err)
		}
		for _, name := range []string{"Expires", "Last-Modified"} {
			if got.header.Values(name) != nil {
				t.Errorf("%s %s has %s", c[0], c[1], name)
			}
		}
	}
}
