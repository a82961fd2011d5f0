package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
)

// contract is openapi.yaml, as far as requests are judged by it: the operations by method and path template.
type contract map[route]*operation

type route struct{ method, path string }

type operation struct {
	id   string
	path string
	// query and header are the schemas of the parameters.
	query  map[string]*openapi3.Schema
	header map[string]*openapi3.Schema
	// body is the schema of the request's body; of an operation without one, that of an empty object.
	body     *openapi3.Schema
	shape    *shape
	needBody bool
}

// unmatched stands for the operation of a request that has none.
var unmatched = &operation{id: "unmatched", path: "unmatched"}

func readContract(text []byte) (contract, error) {
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	c := contract{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			c[route{method, path}] = readOperation(path, op, append(item.Parameters, op.Parameters...))
		}
	}
	return c, nil
}

func readOperation(path string, op *openapi3.Operation, parameters openapi3.Parameters) *operation {
	o := &operation{
		id: op.OperationID, path: path,
		query:  map[string]*openapi3.Schema{},
		header: map[string]*openapi3.Schema{},
		body:   openapi3.NewObjectSchema().WithoutAdditionalProperties(),
	}
	for _, ref := range parameters {
		switch p := ref.Value; p.In {
		case openapi3.ParameterInQuery:
			o.query[p.Name] = p.Schema.Value
		case openapi3.ParameterInHeader:
			o.header[p.Name] = p.Schema.Value
		}
	}
	if op.RequestBody != nil {
		o.needBody = true
		o.body = op.RequestBody.Value.Content["application/json"].Schema.Value
	}
	o.shape = shapeOf(o.body)
	return o
}

// of returns the operation that the router found.
func (c contract) of(r *http.Request) *operation {
	if op, ok := c[route{r.Method, r.Pattern}]; ok {
		return op
	}
	return unmatched
}

// allowed lists the methods that the path of r has, or is empty if there is no such path.
func (c contract) allowed(router chi.Router, r *http.Request) string {
	path := r.URL.Path
	if r.URL.RawPath != "" {
		path = r.URL.RawPath
	}
	var methods []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPost, http.MethodPut} {
		if router.Match(chi.NewRouteContext(), method, path) {
			methods = append(methods, method)
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
