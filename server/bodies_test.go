package server

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/latchkey/latchkey/api"
)

// A body that the guard let pass means to us what it means to encoding/json, in every field that the contract has.
func TestBodiesAreWhatTheirTextSays(t *testing.T) {
	all, err := readContract(api.Contract)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []bodyCase{
		{route{"POST", "/locks"}, func(fields map[string]any) any { return lockRequestOf(fields) }, decoded[api.LockRequest]},
		{route{"POST", "/leases"}, func(fields map[string]any) any { return leaseRequestOf(fields) }, decoded[api.LeaseRequest]},
	} {
		whole := map[string]any{}
		for name, property := range all[c.at].body.Properties {
			if whole[name] = property.Value.Example; whole[name] == nil {
				t.Errorf("%s has no example", name)
			}
		}
		for name, value := range whole {
			c.check(t, map[string]any{name: value})
		}
		c.check(t, whole)
		c.check(t, map[string]any{})
		c.check(t, map[string]any{"metadata": map[string]any{}})
	}
}

type bodyCase struct {
	at   route
	read func(map[string]any) any
	want func(text []byte) (any, error)
}

func (c bodyCase) check(t *testing.T, fields map[string]any) {
	t.Helper()
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	var found faults
	value, ok := readJSON(text, &found)
	if !ok || found.err() != nil {
		t.Fatalf("%s: %+v", text, found.list)
	}
	want, err := c.want(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.read(value.(map[string]any)); !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", text, got, want)
	}
	if reflect.ValueOf(want).IsZero() != (len(fields) == 0) {
		t.Errorf("%s is read as %+v", text, want)
	}
}

func decoded[T any](text []byte) (any, error) {
	var v T
	err := json.Unmarshal(text, &v)
	return v, err
}
