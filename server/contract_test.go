package server

import (
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"

	"github.com/latchkey/latchkey/api"
)

func TestContractIsValid(t *testing.T) {
	if err := contractDoc().Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestServedRoutesAreThoseOfTheContract(t *testing.T) {
	s, err := New(&fakeStore{t: t}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	served := map[route]bool{}
	err = chi.Walk(s.router, func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served[route{method, path}] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for r := range s.contract {
		if !served[r] {
			t.Errorf("%v is in the contract and not served", r)
		}
		delete(served, r)
	}
	if len(served) > 0 {
		t.Errorf("served and not in the contract: %v", slices.Collect(maps.Keys(served)))
	}
}

func TestMethodsAreRefusedWithAllow(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	s, err := New(&fakeStore{t: t}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]string{
		"/locks": "GET, POST", "/locks/{id}": "DELETE, GET", "/locks/{id}/events": "GET",
		"/leases": "POST", "/leases/{id}": "DELETE, GET, PUT", "/leases/{id}/keepalive": "GET",
		"/healthz": "GET", "/readyz": "GET", "/metrics": "GET", "/openapi.yaml": "GET",
	}
	for path, allow := range allowed {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
			if s.contract[route{method, path}] != nil {
				continue
			}
			got := do(t, ts, method, path, "")
			if got.status != 405 || !slices.Equal(got.header.Values("Allow"), []string{allow}) {
				t.Errorf("%s %s: got %d, Allow %q, want 405 and %q", method, path, got.status, got.header.Values("Allow"), allow)
			}
			if method != "HEAD" && got.problem(t).Code != "method_not_allowed" {
				t.Errorf("%s %s: got %s", method, path, got.body)
			}
		}
	}
}

func TestUnknownPathsAreNotFoundAndNeverRedirected(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	ts.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, method := range []string{"GET", "POST", "DELETE", "BREW"} {
		for _, path := range []string{
			"/", "/nothing", "//locks", "/locks/", "/./locks", "/LOCKS", "/%6Cocks", "/locks//x", "/locks/../locks/x",
			"/locks/x/", "/locks/x/nothing", "/leases/x/events", "/v1/locks", "/openapi.json", "/debug/pprof/",
		} {
			if got := do(t, ts, method, path, ""); got.problem(t).Code != "not_found" {
				t.Errorf("%s %s: got %d: %s", method, path, got.status, got.body)
			}
		}
	}
}

func TestDefaultsAreThoseOfTheContract(t *testing.T) {
	doc := contractDoc()
	for _, request := range []string{"LockRequest", "LeaseRequest"} {
		ttl := doc.Components.Schemas[request].Value.Properties["ttl_seconds"].Value.Default
		if got := time.Duration(ttl.(float64)) * time.Second; got != defaultTTL {
			t.Errorf("%s: the contract says %v, the server %v", request, got, defaultTTL)
		}
	}
	limit := doc.Paths.Find("/locks").Get.Parameters.GetByInAndName("query", "limit").Schema.Value.Default
	if limit != float64(defaultLimit) {
		t.Errorf("the contract says limit %v, the server %v", limit, defaultLimit)
	}
}

// What the server checks in bytes, the contract bounds in characters: neither may be the stricter by mistake.
func TestBoundsAreThoseOfTheContract(t *testing.T) {
	schemas := contractDoc().Components.Schemas
	for name, got := range map[string][2]uint64{
		"Name":     {*schemas["Name"].Value.MaxLength, maxName},
		"Holder":   {*schemas["Holder"].Value.MaxLength, maxHolder},
		"Metadata": {*schemas["Metadata"].Value.MaxProps, maxMetadataPairs},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: the contract says %d, the server %d", name, got[0], got[1])
		}
	}
	key := contractDoc().Components.Parameters["IdempotencyKey"].Value.Schema.Value
	if key.MinLength != minKey || *key.MaxLength != maxKey {
		t.Errorf("the key: the contract says %d to %d", key.MinLength, *key.MaxLength)
	}
}

var contractDoc = sync.OnceValue(func() *openapi3.T {
	doc, err := openapi3.NewLoader().LoadFromData(api.Contract)
	if err != nil {
		panic(err)
	}
	return doc
})

var contractRouter = sync.OnceValue(func() chi.Router {
	router := chi.NewRouter()
	api.HandlerWithOptions(nil, api.ChiServerOptions{BaseRouter: router})
	return router
})

// checkAnswer compares an answer with what the contract says of its operation: every answer to a test is.
func checkAnswer(t *testing.T, method, path string, got answer) {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	found := chi.NewRouteContext()
	if !contractRouter().Match(found, method, path) {
		return
	}
	response := contractDoc().Paths.Find(found.RoutePattern()).GetOperation(method).Responses.Status(got.status)
	if response == nil {
		t.Errorf("%s %s: the contract has no status %d", method, found.RoutePattern(), got.status)
		return
	}
	for name := range got.header {
		switch name {
		case "Content-Type", "Content-Length", "Date", "Connection":
		case "Cache-Control": // said of all GETs
		default:
			spelled := func(inContract string) bool { return strings.EqualFold(inContract, name) }
			if !slices.ContainsFunc(slices.Collect(maps.Keys(response.Value.Headers)), spelled) && name != "Allow" {
				t.Errorf("%s %s %d: the contract has no header %s", method, found.RoutePattern(), got.status, name)
			}
		}
	}
	mediaType, _, _ := mime.ParseMediaType(got.header.Get("Content-Type"))
	if got.status == http.StatusNoContent {
		return
	}
	content := response.Value.Content[mediaType]
	if content == nil {
		t.Errorf("%s %s %d: the contract has no %s", method, found.RoutePattern(), got.status, mediaType)
		return
	}
	if !strings.HasSuffix(mediaType, "json") {
		return
	}
	var body any
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		t.Error(err)
	}
	if err := content.Schema.Value.VisitJSON(body, openapi3.MultiErrors()); err != nil {
		t.Errorf("%s %s %d: %v", method, found.RoutePattern(), got.status, err)
	}
}
