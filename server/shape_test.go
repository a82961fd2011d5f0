package server

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/latchkey/latchkey/api"
)

// bodies are the operations that have one.
func bodies(t testing.TB) map[string]*operation {
	t.Helper()
	all, err := readContract(api.Contract)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]*operation{}
	for _, op := range all {
		if op.needBody {
			list[op.id] = op
		}
	}
	return list
}

// What a shape allows, the schema allows too.
func FuzzShape(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","ttl_seconds":30,"wait_seconds":0,"queue":true,"holder":"w","metadata":{"a":"b"}}`, `{"ttl_seconds":0}`, `{"ttl_seconds":-1}`,
		`{"name":""}`, `{"name":"\u0000"}`, `{"name":"a","lease_id":""}`, `{"name":1}`, `{"name":"a","Name":"a"}`, `{"name":null}`, `[]`, `"a"`, `1`, `{}`,
		`{"metadata":{"a":1}}`, `{"metadata":[]}`, `{"name":"a","queue":"true"}`, `{"name":"\u007f"}`, `{"holder":"\u0000"}`, `{"name":"a","wait_seconds":9007199254740993}`,
	} {
		f.Add([]byte(seed))
	}
	ops := bodies(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		var found faults
		value, ok := readJSON(text, &found)
		if !ok {
			return
		}
		for id, op := range ops {
			if err := op.body.VisitJSON(value, openapi3.MultiErrors()); err != nil && op.shape.allows(value) {
				t.Errorf("%s: %q is allowed, but: %v", id, text, err)
			}
		}
	})
}

// The shapes of this contract look at all that it says, and allow what clients send.
func TestShapesAreThoseOfTheContract(t *testing.T) {
	ops := bodies(t)
	for _, c := range []struct {
		id, text string
		want     bool
	}{
		{"createLock", `{"name":"orders/42","ttl_seconds":30}`, true},
		{"createLock", `{"name":"Zoë","lease_id":"x","wait_seconds":20,"queue":true,"holder":"w","metadata":{"host":"web-3"}}`, true},
		{"createLock", `{"ttl_seconds":30}`, false},
		{"createLock", `{"name":"a","other":1}`, false},
		{"createLease", `{}`, true},
		{"createLease", `{"ttl_seconds":30,"holder":"w","metadata":{}}`, true},
		{"createLease", `{"name":"a"}`, false},
	} {
		var found faults
		value, _ := readJSON([]byte(c.text), &found)
		if got := ops[c.id].shape.allows(value); got != c.want {
			t.Errorf("%s: %s: got %v, want %v", c.id, c.text, got, c.want)
		}
	}
}

// A schema that says more than a shape looks at has none.
func TestShapeOfMoreThanItKnowsAllowsNothing(t *testing.T) {
	for name, schema := range map[string]*openapi3.Schema{
		"enum":        openapi3.NewStringSchema().WithEnum("a"),
		"format":      openapi3.NewStringSchema().WithFormat("uuid"),
		"multiple of": openapi3.NewIntegerSchema().WithExclusiveMin(true),
		"one of":      openapi3.NewOneOfSchema(openapi3.NewStringSchema()),
		"no type":     openapi3.NewSchema(),
		"pattern":     {Type: &openapi3.Types{openapi3.TypeString}, Pattern: `(?!a)`},
		"nullable":    openapi3.NewStringSchema().WithNullable(),
	} {
		s := shapeOf(schema)
		if s != nil || s.allows("a") || s.allows(int64(1)) {
			t.Errorf("%s: got %+v", name, s)
		}
	}
}
