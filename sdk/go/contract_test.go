package latchkey_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

func contract(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestWireTypesAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	schemas := contract(t).Components.Schemas
	for name, ours := range map[string]any{
		"LockRequest":  latchkey.ClaimRequest{},
		"Lock":         latchkey.Claim{},
		"LockList":     latchkey.ClaimList{},
		"LeaseRequest": latchkey.LeaseRequest{},
		"Lease":        latchkey.LeaseInfo{},
		"LeaseStatus":  latchkey.LeaseStatus{},
		"Problem":      latchkey.Problem{},
		"InputFault":   latchkey.InputFault{},
		"LockHolder":   latchkey.LockHolder{},
		"StreamEnd":    latchkey.StreamEnd{},
		"LeaseRenewed": latchkey.LeaseRenewed{},
		"LeaseWarning": latchkey.LeaseWarning{},
	} {
		schema := schemas[name]
		if schema == nil {
			t.Errorf("the contract has no %s", name)
			continue
		}
		fields := map[string]reflect.StructField{}
		for _, field := range reflect.VisibleFields(reflect.TypeOf(ours)) {
			if key, _, _ := strings.Cut(field.Tag.Get("json"), ","); key != "-" {
				fields[key] = field
			}
		}
		if got, want := keys(fields), keys(schema.Value.Properties); !slices.Equal(got, want) {
			t.Errorf("%s has the fields %q, and in the contract %q", name, got, want)
			continue
		}
		for key, property := range schema.Value.Properties {
			field := fields[key]
			if got, want := kindOf(field.Type), property.Value.Type.Slice()[0]; got != want {
				t.Errorf("%s.%s is of type %s, in the contract %s", name, key, got, want)
			}
			_, omitted, _ := strings.Cut(field.Tag.Get("json"), ",")
			if required := slices.Contains(schema.Value.Required, key); required == (omitted == "omitempty") {
				t.Errorf("%s.%s is left out when empty: %v; in the contract it is required: %v", name, key, !required, required)
			}
		}
	}
}

// TestListedClaimsAreClaims: what others see of a claim has no other fields, and may have no ids.
func TestListedClaimsAreClaims(t *testing.T) {
	t.Parallel()
	schemas := contract(t).Components.Schemas
	listed, own := schemas["ListedLock"].Value, schemas["Lock"].Value
	if got, want := keys(listed.Properties), keys(own.Properties); !slices.Equal(got, want) {
		t.Errorf("what is listed has the fields %q, a claim %q", got, want)
	}
	for _, field := range own.Required {
		if required := slices.Contains(listed.Required, field); required == strings.HasSuffix(field, "id") {
			t.Errorf("what is listed has %s always: %v", field, required)
		}
	}
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// kindOf is a type in the contract's words.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	case reflect.Pointer:
		return kindOf(t.Elem())
	}
	return t.String()
}

func TestCodesAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	doc := contract(t)
	var want []string
	for _, example := range doc.Components.Examples {
		if problem, ok := example.Value.Value.(map[string]any); ok && problem["code"] != nil {
			want = append(want, problem["code"].(string))
		}
	}
	text := doc.Components.Schemas["Problem"].Value.Description
	_, reserved, _ := strings.Cut(text, "Reserved: ")
	want = append(want, words(reserved)...)
	slices.Sort(want)
	var table []string
	for line := range strings.Lines(text) {
		if rest, row := strings.CutPrefix(line, "| `"); row {
			code, _, _ := strings.Cut(rest, "`")
			table = append(table, code)
		}
	}
	if got := slices.Sorted(slices.Values(append(table, words(reserved)...))); !slices.Equal(got, want) {
		t.Errorf("the contract's table has the codes %q, its examples %q", got, want)
	}
	if got := codes(t); !slices.Equal(got, want) {
		t.Errorf("the client has the codes %q, the contract %q", got, want)
	}
}

func words(text string) (all []string) {
	for _, found := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	return all
}

// codes are the constants of type Code in errors.go.
func codes(t *testing.T) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
				all = append(all, strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`))
			}
		}
		return true
	})
	slices.Sort(all)
	return all
}

// TestOperationsAreThoseOfTheContract names what the client has for each operation, and what it has not.
func TestOperationsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	have := map[string]any{
		"createLock": (*latchkey.Client).Claim, "listLocks": (*latchkey.Client).List, "getLock": (*latchkey.Client).Get,
		"deleteLock": (*latchkey.Client).Release, "lockEvents": (*latchkey.Client).LockEvents,
		"createLease": (*latchkey.Client).CreateLease, "getLease": (*latchkey.Client).LeaseStatus,
		"renewLease": (*latchkey.Client).Renew, "deleteLease": (*latchkey.Client).EndLease,
		"keepLeaseAlive": (*latchkey.Client).KeepAlive,
		"healthz":        nil, "readyz": nil, "metrics": nil, "openapi": nil, // for probes and people
	}
	for path, item := range contract(t).Paths.Map() {
		for method, operation := range item.Operations() {
			if _, known := have[operation.OperationID]; !known {
				t.Errorf("the client has nothing for %s %s", method, path)
			}
			delete(have, operation.OperationID)
		}
	}
	if len(have) != 0 {
		t.Errorf("the contract has no %q", keys(have))
	}
}
