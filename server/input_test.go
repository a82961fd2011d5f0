package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store"
)

// places lists where a problem says that the request is at fault.
func places(p api.Problem) []string {
	var list []string
	for _, fault := range p.Errors {
		if fault.Pointer != nil {
			list = append(list, "body "+*fault.Pointer)
		} else {
			list = append(list, fault.Parameter)
		}
	}
	return list
}

// Each of these is refused, at these places, and never reaches the store.
func TestBodiesThatAreRefused(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	whole := []string{"body "}
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"only spaces":        {"  \n", whole},
		"not JSON":           {"name=a", whole},
		"truncated":          {`{"name":"a"`, whole},
		"trailing text":      {`{"name":"a"}x`, whole},
		"two objects":        {`{"name":"a"}{"name":"b"}`, whole},
		"comment":            {`{"name":"a"/*c*/}`, whole},
		"single quotes":      {`{'name':'a'}`, whole},
		"trailing comma":     {`{"name":"a",}`, whole},
		"byte order mark":    {"\xef\xbb\xbf" + `{"name":"a"}`, whole},
		"NaN":                {`{"name":"a","ttl_seconds":NaN}`, whole},
		"leading zero":       {`{"name":"a","ttl_seconds":010}`, whole},
		"invalid UTF-8":      {"{\"name\":\"a\xff\"}", whole},
		"raw control":        {"{\"name\":\"a\nb\"}", whole},
		"null":               {`null`, whole},
		"array":              {`[]`, whole},
		"string":             {`"a"`, whole},
		"number":             {`1`, whole},
		"nested arrays":      {strings.Repeat("[", 10000), whole},
		"closed nested":      {strings.Repeat("[", 9000) + strings.Repeat("]", 9000), []string{"body /0"}},
		"nested in a field":  {`{"name":"a","metadata":{"a":{"b":{"c":{"d":{}}}}}}`, []string{"body /metadata"}},
		"no name":            {`{}`, []string{"body /name"}},
		"empty name":         {`{"name":""}`, []string{"body /name"}},
		"null name":          {`{"name":null}`, []string{"body /name"}},
		"name is a number":   {`{"name":1}`, []string{"body /name"}},
		"name too long":      {`{"name":"` + strings.Repeat("a", 256) + `"}`, []string{"body /name"}},
		"too many bytes":     {`{"name":"` + strings.Repeat("é", 128) + `"}`, []string{"body /name"}},
		"NUL":                {`{"name":"a\u0000b"}`, []string{"body /name"}},
		"newline":            {`{"name":"a\r\nb"}`, []string{"body /name"}},
		"delete":             {`{"name":"a\u007f"}`, []string{"body /name"}},
		"C1 control":         {`{"name":"a\u0085"}`, []string{"body /name"}},
		"high surrogate":     {`{"name":"\ud800"}`, []string{"body /name"}},
		"low surrogate":      {`{"name":"\udc00"}`, []string{"body /name"}},
		"high then text":     {`{"name":"\ud800\u0041"}`, []string{"body /name"}},
		"surrogate in key":   {`{"name":"a","metadata":{"\ud800":"x"}}`, []string{"body /metadata/\ufffd"}},
		"unknown field":      {`{"name":"a","colour":1}`, []string{"body /colour"}},
		"wrong case":         {`{"Name":"a"}`, []string{"body /Name", "body /name"}},
		"escaped wrong case": {`{"nam\u0045":"a","name":"a"}`, []string{"body /namE"}},
		"long s":             {`{"name":"a","ttl_ſeconds":5}`, []string{"body /ttl_ſeconds"}},
		"repeated":           {`{"name":"a","name":"b"}`, []string{"body /name"}},
		"repeated escaped":   {`{"name":"a","na\u006de":"b"}`, []string{"body /name"}},
		"repeated deeper":    {`{"name":"a","metadata":{"k":"1","k":"2"}}`, []string{"body /metadata/k"}},
		"pointer escapes":    {`{"name":"a","metadata":{"a/b~c":1}}`, []string{"body /metadata/a~1b~0c"}},
		"ttl null":           {`{"name":"a","ttl_seconds":null}`, []string{"body /ttl_seconds"}},
		"ttl text":           {`{"name":"a","ttl_seconds":"10"}`, []string{"body /ttl_seconds"}},
		"ttl zero":           {`{"name":"a","ttl_seconds":0}`, []string{"body /ttl_seconds"}},
		"ttl minus zero":     {`{"name":"a","ttl_seconds":-0}`, []string{"body /ttl_seconds"}},
		"ttl negative":       {`{"name":"a","ttl_seconds":-1}`, []string{"body /ttl_seconds"}},
		"ttl below minimum":  {`{"name":"a","ttl_seconds":1}`, []string{"body /ttl_seconds"}},
		"ttl above maximum":  {`{"name":"a","ttl_seconds":86401}`, []string{"body /ttl_seconds"}},
		"ttl overflows":      {`{"name":"a","ttl_seconds":9223372037}`, []string{"body /ttl_seconds"}},
		"ttl beyond int64":   {`{"name":"a","ttl_seconds":9223372036854775808}`, []string{"body /ttl_seconds"}},
		"ttl huge":           {`{"name":"a","ttl_seconds":1e400}`, []string{"body /ttl_seconds"}},
		"ttl many digits":    {`{"name":"a","ttl_seconds":` + strings.Repeat("9", 60000) + `}`, []string{"body /ttl_seconds"}},
		"ttl fraction":       {`{"name":"a","ttl_seconds":1.5}`, []string{"body /ttl_seconds"}},
		"ttl point zero":     {`{"name":"a","ttl_seconds":30.0}`, []string{"body /ttl_seconds"}},
		"ttl exponent":       {`{"name":"a","ttl_seconds":3e1}`, []string{"body /ttl_seconds"}},
		"wait negative":      {`{"name":"a","wait_seconds":-1}`, []string{"body /wait_seconds"}},
		"wait above maximum": {`{"name":"a","wait_seconds":56}`, []string{"body /wait_seconds"}},
		"wait huge":          {`{"name":"a","wait_seconds":1000000000000}`, []string{"body /wait_seconds"}},
		"queue text":         {`{"name":"a","queue":"true"}`, []string{"body /queue"}},
		"queue number":       {`{"name":"a","queue":1}`, []string{"body /queue"}},
		"lease empty":        {`{"name":"a","lease_id":""}`, []string{"body /lease_id"}},
		"lease and ttl":      {`{"name":"a","lease_id":"x","ttl_seconds":30}`, []string{"body /ttl_seconds"}},
		"holder too long":    {`{"name":"a","holder":"` + strings.Repeat("é", 128) + `"}`, []string{"body /holder"}},
		"holder with NUL":    {`{"name":"a","holder":"\u0000"}`, []string{"body /holder"}},
		"metadata text":      {`{"name":"a","metadata":"x"}`, []string{"body /metadata"}},
		"metadata array":     {`{"name":"a","metadata":[]}`, []string{"body /metadata"}},
		"metadata number":    {`{"name":"a","metadata":{"a":1}}`, []string{"body /metadata/a"}},
		"metadata null":      {`{"name":"a","metadata":{"a":null}}`, []string{"body /metadata/a"}},
		"metadata NUL":       {`{"name":"a","metadata":{"\u0000":"b"}}`, []string{"body /metadata"}},
		"metadata too many":  {`{"name":"a","metadata":{` + pairs(17, "v") + `}}`, []string{"body /metadata"}},
		"metadata too large": {`{"name":"a","metadata":{` + pairs(16, strings.Repeat("é", 63)) + `}}`, []string{"body /metadata"}},
		"metadata 5000":      {`{"name":"a","metadata":{` + pairs(5000, "") + `}}`, []string{"body /metadata"}},
		"all at once": {
			`{"colour":1,"name":"","ttl_seconds":0,"wait_seconds":1.5,"queue":null}`,
			[]string{"body /colour", "body /name", "body /queue", "body /ttl_seconds", "body /wait_seconds"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := do(t, ts, "POST", "/locks", c.body).problem(t)
			if got.Code != "invalid_request" || !slices.Equal(places(got), c.want) {
				t.Errorf("got %s at %q, want %q: %+v", got.Code, places(got), c.want, got.Errors)
			}
		})
	}
}

func pairs(n int, value string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%q:%q", fmt.Sprint("k", i), value)
	}
	return strings.Join(list, ",")
}

func TestRangesAreToldWithTheirBounds(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{MaxWait: 7 * time.Second})
	for body, want := range map[string]string{
		`{"name":"a","ttl_seconds":1}`:   "must be from 2 to 86400 seconds",
		`{"name":"a","wait_seconds":8}`:  "must be from 0 to 7 seconds",
		`{"name":""}`:                    "must be 1 to 255 bytes of UTF-8 without control characters",
		`{"name":"a","Queue":true}`:      "is not a field here: did you mean queue?",
		`{"name":"a","queue":"yes"}`:     "must be true or false",
		`{"name":"a","ttl_seconds":1.5}`: "must be a whole number, written without fraction or exponent",
	} {
		got := do(t, ts, "POST", "/locks", body).problem(t)
		if len(got.Errors) != 1 || got.Errors[0].Detail != want {
			t.Errorf("%s: got %+v, want %q", body, got.Errors, want)
		}
	}
}

// A request with thousands of faults gets an answer of bounded size, and gets it fast.
func TestManyFaultsHaveAShortAnswer(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	for name, body := range map[string]string{
		"unknown fields": `{"name":"a",` + pairs(4500, "") + `}`,
		"repeated":       `{"name":"a"` + strings.Repeat(`,"name":"a"`, 5000) + `}`,
		"long names":     `{"` + strings.Repeat("x", 60000) + `":1}`,
		"bad metadata":   `{"name":"a","metadata":{` + strings.ReplaceAll(pairs(4500, ""), `""`, "1") + `}}`,
	} {
		began := time.Now()
		got := do(t, ts, "POST", "/locks", body)
		if got.problem(t).Code != "invalid_request" || len(got.body) > 8<<10 {
			t.Errorf("%s: got %d bytes: %.200s", name, len(got.body), got.body)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func TestMediaTypes(t *testing.T) {
	claims := 0
	ts := serve(t, &fakeStore{claim: func(context.Context, store.Claim) (store.Lock, error) {
		claims++
		return store.Lock{ID: "x", Name: "a", State: store.Held, Token: 1, TTL: time.Minute}, nil
	}}, Config{})
	for _, mediaType := range []string{
		"application/json", "application/json; charset=utf-8", "APPLICATION/JSON", `application/json ; charset="UTF-8"`,
		"application/json;v=1",
	} {
		if got := do(t, ts, "POST", "/locks", `{"name":"a"}`, "Content-Type", mediaType); got.status != 201 {
			t.Errorf("%s: got %d: %s", mediaType, got.status, got.body)
		}
		got := do(t, ts, "POST", "/locks", `{"name":"a","ttl_seconds":"x"}`, "Content-Type", mediaType)
		if got.problem(t).Code != "invalid_request" {
			t.Errorf("%s is not checked: %s", mediaType, got.body)
		}
	}
	claimed := claims
	for _, header := range [][]string{
		{"Content-Type", ""}, {"Content-Type", "text/plain"}, {"Content-Type", "application/x-www-form-urlencoded"},
		{"Content-Type", "multipart/form-data"}, {"Content-Type", "application/json-patch+json"},
		{"Content-Type", "application/xml"}, {"Content-Type", "garbage;;"}, {"Content-Type", "application/json; charset=latin1"},
		{"Content-Type", "application/json|application/json"},
		{"Content-Encoding", "gzip"}, {"Content-Encoding", "identity, gzip"}, {"Content-Encoding", "br"},
	} {
		got := do(t, ts, "POST", "/locks", `{"name":"a"}`, header...).problem(t)
		if got.Code != "unsupported_media_type" || !strings.Contains(got.Detail, "curl") {
			t.Errorf("%v: got %+v", header, got)
		}
	}
	if claims != claimed {
		t.Errorf("%d claims were made of what is not JSON", claims-claimed)
	}
	if got := do(t, ts, "POST", "/locks", `{"name":"a"}`, "Content-Encoding", "Identity"); got.status != 201 {
		t.Errorf("identity: got %d: %s", got.status, got.body)
	}
}

func TestParametersThatAreRefused(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	for _, c := range []struct {
		path string
		want []string
	}{
		{"/locks?colour=red", []string{"colour"}},
		{"/locks?colour", []string{"colour"}},
		{"/locks?Name=a", []string{"Name"}},
		{"/locks?=a", []string{"query"}},
		{"/locks?name=a&name=b", []string{"name"}},
		{"/locks?name=", []string{"name"}},
		{"/locks?name=%00", []string{"name"}},
		{"/locks?name=%ff", []string{"name"}},
		{"/locks?name=%zz", []string{"name"}},
		{"/locks?name=a;b", []string{"name"}},
		{"/locks?name=" + strings.Repeat("a", 256), []string{"name"}},
		{"/locks?name=a&prefix=b", []string{"prefix"}},
		{"/locks?prefix=%0a", []string{"prefix"}},
		{"/locks?state=broken", []string{"state"}},
		{"/locks?limit=0", []string{"limit"}},
		{"/locks?limit=1001", []string{"limit"}},
		{"/locks?limit=1.0", []string{"limit"}},
		{"/locks?limit=+1", []string{"limit"}},
		{"/locks?limit=01", []string{"limit"}},
		{"/locks?cursor=", []string{"cursor"}},
		{"/locks?limit=x&state=x&colour=x", []string{"colour", "limit", "state"}},
		{"/locks/x?wait_seconds=", []string{"wait_seconds"}},
		{"/locks/x?wait_seconds=-1", []string{"wait_seconds"}},
		{"/locks/x?wait_seconds=-0", []string{"wait_seconds"}},
		{"/locks/x?wait_seconds=56", []string{"wait_seconds"}},
		{"/locks/x?wait_seconds=1e1", []string{"wait_seconds"}},
		{"/locks/x?wait_seconds=9223372036854775808", []string{"wait_seconds"}},
		{"/locks/x?wait=1", []string{"wait"}},
		{"/locks/x/events?wait_seconds=1", []string{"wait_seconds"}},
		{"/leases/x?force=true", []string{"force"}},
		{"/healthz?verbose", []string{"verbose"}},
	} {
		got := do(t, ts, "GET", c.path, "").problem(t)
		if got.Code != "invalid_request" || !slices.Equal(places(got), c.want) {
			t.Errorf("%s: got %s at %q, want %q", c.path, got.Code, places(got), c.want)
		}
	}
	if got := do(t, ts, "POST", "/locks?name=b", `{"name":"a"}`).problem(t); !slices.Equal(places(got), []string{"name"}) {
		t.Errorf("a query beside the body: got %+v", got)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	for _, key := range []string{
		"short", strings.Repeat("k", 15), strings.Repeat("k", 129), "0123456789abcdef\xff", "0123456789abcdefé",
		"0123456789abcdef|0123456789abcdef",
	} {
		got := do(t, ts, "POST", "/locks", `{"name":"a"}`, "Idempotency-Key", key).problem(t)
		if got.Code != "invalid_request" || !slices.Equal(places(got), []string{"Idempotency-Key"}) {
			t.Errorf("%q: got %+v", key, got)
		}
		if strings.Contains(fmt.Sprint(got), key) {
			t.Errorf("the problem repeats the key: %+v", got)
		}
	}
	// faults of the header, the query and the body come in one answer
	got := do(t, ts, "POST", "/locks?x", `{"name":1}`, "Idempotency-Key", "short").problem(t)
	if want := []string{"body /name", "Idempotency-Key", "x"}; !slices.Equal(places(got), want) {
		t.Errorf("got %q, want %q", places(got), want)
	}
}

// Whatever is not an id is not found, in the words of the thing it is not the id of, and one id has one spelling.
func TestIDsThatAreNone(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	for _, id := range []string{"a%2Fb", "%61", "%25zz", "%ff", "a%0d%0ab", "%2e%2e", "a%20b"} {
		for path, code := range map[string]string{"/locks/": "lock_not_found", "/leases/": "lease_not_found"} {
			for _, method := range []string{"GET", "DELETE"} {
				if got := do(t, ts, method, path+id, "").problem(t); got.Code != code {
					t.Errorf("%s %s: got %+v", method, path+id, got)
				}
			}
		}
	}
}

func TestOperationsWithoutABody(t *testing.T) {
	ts := serve(t, &fakeStore{
		renew: func(context.Context, string, time.Time) (store.Lease, error) {
			return store.Lease{ID: "x", TTL: time.Minute}, nil
		},
		release: func(context.Context, string) error { return nil },
	}, Config{})
	for _, body := range []string{"", "{}", " {} ", "\n"} {
		for _, mediaType := range []string{"application/json", "application/x-www-form-urlencoded", ""} {
			if got := do(t, ts, "PUT", "/leases/x", body, "Content-Type", mediaType); got.status != 200 {
				t.Errorf("PUT with %q: got %d: %s", body, got.status, got.body)
			}
			if got := do(t, ts, "DELETE", "/locks/x", body, "Content-Type", mediaType); got.status != 204 {
				t.Errorf("DELETE with %q: got %d: %s", body, got.status, got.body)
			}
		}
	}
	for body, want := range map[string]string{
		`{"ttl_seconds":5}`: "body /ttl_seconds", `[]`: "body ", `null`: "body ", `x`: "body ", `{"ttl_seconds":null}`: "body /ttl_seconds",
	} {
		got := do(t, ts, "PUT", "/leases/x", body).problem(t)
		if got.Code != "invalid_request" || !slices.Equal(places(got), []string{want}) {
			t.Errorf("PUT with %s: got %+v", body, got)
		}
	}
}

func TestEmptyBodyIsToldSo(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	for _, path := range []string{"/locks", "/leases"} {
		got := do(t, ts, "POST", path, "", "Content-Type", "application/json").problem(t)
		if got.Code != "invalid_request" || len(got.Errors) != 1 || got.Errors[0].Detail != "must be a JSON object, and is empty" {
			t.Errorf("%s: got %+v", path, got)
		}
	}
}

func TestLeaseRequestsThatAreRefused(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	for body, want := range map[string]string{
		`{"ttl_seconds":1}`: "body /ttl_seconds", `{"name":"a"}`: "body /name", `{"holder":1}`: "body /holder",
		`{"metadata":{"a":[]}}`: "body /metadata/a", `[]`: "body ",
	} {
		got := do(t, ts, "POST", "/leases", body).problem(t)
		if got.Code != "invalid_request" || !slices.Equal(places(got), []string{want}) {
			t.Errorf("%s: got %+v", body, got)
		}
	}
}

// raw sends bytes as they are and returns the answer, and whether the server then closed the connection.
func raw(t *testing.T, ts *httptest.Server, text string) (*http.Response, string, bool) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", ts.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	if res.Close {
		_, err := reader.ReadByte()
		closed = err != nil
	}
	return res, string(body), closed
}

func TestBodiesThatNeverEndOrAreTooLarge(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{BodyTimeout: 100 * time.Millisecond})
	head := "POST /locks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 40000, strings.Repeat(" ", 40000))
	for name, c := range map[string]struct {
		text   string
		status int
		code   string
	}{
		"length too large":     {head + "Content-Length: 10000000\r\n\r\n", 413, "payload_too_large"},
		"chunks too large":     {head + "Transfer-Encoding: chunked\r\n\r\n" + chunk + chunk, 413, "payload_too_large"},
		"no last chunk":        {head + "Transfer-Encoding: chunked\r\n\r\n1f\r\n" + `{"name":"a","wait_seconds":10} ` + "\r\n", 408, "request_timeout"},
		"half of a body":       {head + "Content-Length: 100\r\n\r\n" + `{"name":"a"}`, 408, "request_timeout"},
		"not JSON, no end":     {"POST /locks HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", 415, "unsupported_media_type"},
		"no route, no end":     {"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", 404, "not_found"},
		"bad chunk":            {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "invalid_request"},
		"bare LF chunk":        {head + "Transfer-Encoding: chunked\r\n\r\nc\n" + `{"name":"a"}` + "\r\n0\r\n\r\n", 400, "invalid_request"},
		"unread body of a GET": {"GET /locks/x?wait_seconds=10 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", 408, "request_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, body, closed := raw(t, ts, c.text)
			got := answer{res.StatusCode, res.Header, body}.problem(t)
			if res.StatusCode != c.status || got.Code != c.code || !closed {
				t.Errorf("got %d %s, closed %v", res.StatusCode, body, closed)
			}
		})
	}
}

// Of what nobody will read to its end the answer comes at once, and then the connection ends.
func TestAStalledBodyHidesNoAnswer(t *testing.T) {
	const tooLong = patience / 2
	ts := serve(t, &fakeStore{}, Config{})
	const (
		half    = "Content-Length: 50\r\n\r\nhalf"
		noRoute = "POST /x HTTP/1.1\r\nHost: x\r\n"
	)
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"no route":          {noRoute + half, 404},
		"no such id":        {"DELETE /locks/%61 HTTP/1.1\r\nHost: x\r\n" + half, 404},
		"wrong method":      {"PUT /locks HTTP/1.1\r\nHost: x\r\n" + half, 405},
		"wrong media type":  {"POST /locks HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n" + half, 415},
		"HTTP/1.0":          {"POST /x HTTP/1.0\r\nConnection: keep-alive\r\n" + half, 404},
		"much of it":        {noRoute + "Content-Length: 60000\r\n\r\n" + strings.Repeat(" ", 50000), 404},
		"asks to close":     {noRoute + "Connection: close\r\n" + half, 404},
		"chunks":            {noRoute + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", 404},
		"asks first":        {noRoute + "Expect: 100-continue\r\nContent-Length: 50\r\n\r\n", 404},
		"asks first, chunk": {noRoute + "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n", 404},
		"asks first, 405":   {"PUT /locks HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 50\r\n\r\n", 405},
		"asks first, 413":   {"PUT /leases/x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 90000\r\n\r\n", 413},
		"asks first, 415":   {"POST /locks HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 50\r\n\r\n", 415},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			res, body, closed := raw(t, ts, c.text)
			answer{res.StatusCode, res.Header, body}.problem(t)
			if took := time.Since(began); res.StatusCode != c.status || !closed || took > tooLong {
				t.Errorf("got %d after %v, closed %v", res.StatusCode, took, closed)
			}
		})
	}
}

// A client that reads only when it has said all gets its answer too, if it is quick about it.
func TestAnAnswerOutlivesABodyThatNobodyReads(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	for _, header := range []string{"", "Connection: close\r\n"} {
		conn := dial(t, ts)
		say(t, conn, "POST /x HTTP/1.1\r\nHost: x\r\n"+header+"Content-Length: 60000\r\n\r\n")
		reader := bufio.NewReader(conn)
		if _, err := reader.Peek(1); err != nil {
			t.Fatal(err)
		}
		for range 60 {
			say(t, conn, strings.Repeat(" ", 1000))
		}
		expectAnswer(t, reader, 404)
		if _, err := reader.ReadByte(); err != io.EOF {
			t.Errorf("got %v, want the end", err)
		}
	}
}

// A proxy that reads the length, and we who read the chunks, would disagree on where the next request begins: there is
// no next request.
func TestNoRequestIsHiddenBehindChunks(t *testing.T) {
	const hidden = "DELETE /locks/x HTTP/1.1\r\nHost: x\r\n\r\n"
	lock := store.Lock{ID: "x", Name: "a", State: store.Held, Token: 1, TTL: time.Minute}
	ts := serve(t, &fakeStore{
		claim: func(context.Context, store.Claim) (store.Lock, error) { return lock, nil },
		look:  func(context.Context, string) (store.Lock, error) { return lock, nil },
		follow: func(_ context.Context, _ string, _ time.Time, tell func(store.Lock) error) error {
			return tell(lock)
		},
	}, Config{MaxBody: 100})
	claim := "c\r\n" + `{"name":"a"}` + "\r\n0\r\n\r\n"
	empty := "0\r\n\r\n"
	const json = "Content-Type: application/json\r\n"
	for name, c := range map[string]struct {
		line, header, body string
		status             int
	}{
		"claim":            {"POST /locks", json, claim, 201},
		"invalid":          {"POST /locks", json, empty, 400},
		"look":             {"GET /locks/x", "", empty, 200},
		"stream":           {"GET /locks/x/events", "", empty, 200},
		"no route":         {"POST /x", "", claim, 404},
		"no such id":       {"GET /locks/%61", "", empty, 404},
		"wrong method":     {"PUT /locks", "", claim, 405},
		"too large":        {"POST /locks", json, "c8\r\n" + strings.Repeat(" ", 200) + "\r\n0\r\n\r\n", 413},
		"wrong media type": {"POST /locks", "", claim, 415},
		"probe":            {"GET /healthz", "", empty, 200},
		"metrics":          {"GET /metrics", "", empty, 200},
	} {
		for _, framing := range []string{
			"Transfer-Encoding: chunked\r\n",
			"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
			"Transfer-Encoding: chunked\r\nContent-Length: 500\r\n",
		} {
			res, body, closed := raw(t, ts, c.line+" HTTP/1.1\r\nHost: x\r\n"+c.header+framing+"\r\n"+c.body+hidden)
			if res.StatusCode != c.status || !closed {
				t.Errorf("%s, %q: got %d, closed %v: %s", name, framing, res.StatusCode, closed, body)
			}
		}
	}
}

// HTTP/1.0 knows no chunks, net/http ignores them there: what they hold would be the next request.
func TestNoRequestIsHiddenBehindHTTP10(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	const hidden = "DELETE /locks/x HTTP/1.1\r\nHost: x\r\n\r\n"
	res, body, closed := raw(t, ts, "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"+hidden)
	if res.StatusCode != 200 || !closed {
		t.Errorf("got %d, closed %v: %s", res.StatusCode, closed, body)
	}
}

// Whatever could be an id or a key is not repeated, wherever a client put it.
func TestNamesThatCouldBeSecretsAreNotRepeated(t *testing.T) {
	const secret = "c2VjcmV0LWxvY2staWQtMTIzNDU2"
	ts := serve(t, &fakeStore{}, Config{})
	for _, c := range []struct {
		method, path, body string
		want               []string
	}{
		{"GET", "/locks?" + secret, "", []string{"query"}},
		{"GET", "/locks?" + secret + "=1&colour=red&" + secret, "", []string{"colour", "query"}},
		{"GET", "/locks?" + secret + "%zz=1", "", []string{"query"}},
		{"GET", "/locks?" + secret + ";b=1", "", []string{"query"}},
		{"GET", "/locks/x?" + secret + "=1", "", []string{"query"}},
		{"POST", "/locks", `{"name":"a","` + secret + `":1}`, []string{"body "}},
		{"POST", "/locks", `{"name":"a","` + secret + `":1,"` + secret + `":1.5,"colour":1}`, []string{"body ", "body /colour"}},
		{"POST", "/locks", `{"name":"a","metadata":{"` + secret + `":1}}`, []string{"body /metadata"}},
		{"POST", "/locks", `{"name":"a","metadata":{"` + secret + `":"","` + secret + `":""}}`, []string{"body /metadata"}},
		{"POST", "/leases", `{"` + secret + `":{}}`, []string{"body "}},
		{"PUT", "/leases/x", `{"` + secret + `":1}`, []string{"body "}},
	} {
		got := do(t, ts, c.method, c.path, c.body)
		if p := got.problem(t); p.Code != "invalid_request" || !slices.Equal(places(p), c.want) {
			t.Errorf("%s %s %s: got %+v, want %q", c.method, c.path, c.body, p, c.want)
		}
		if strings.Contains(got.body, secret[:16]) {
			t.Errorf("%s %s %s repeats the name: %s", c.method, c.path, c.body, got.body)
		}
	}
	// what a person plainly mistyped is
	for path, want := range map[string]string{
		"/locks?wait_seconds_of_this_claim": "wait_seconds_of_this_claim", "/locks?Name=a": "Name", "/locks?color-2": "color-2",
	} {
		if got := do(t, ts, "GET", path, "").problem(t); !slices.Equal(places(got), []string{want}) {
			t.Errorf("%s: got %+v", path, got)
		}
	}
}

func TestHTTP10(t *testing.T) {
	ts := serve(t, &fakeStore{claim: func(context.Context, store.Claim) (store.Lock, error) {
		return store.Lock{ID: "x", Name: "a", State: store.Held, Token: 1, TTL: time.Minute}, nil
	}}, Config{})
	res, body, _ := raw(t, ts, "POST /locks HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n"+`{"name":"a"}`)
	if res.StatusCode != 201 || !strings.Contains(body, `"fencing_token":1`) {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
	res, body, _ = raw(t, ts, "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if got := (answer{res.StatusCode, res.Header, body}).problem(t); got.Code != "not_found" {
		t.Errorf("OPTIONS *: got %+v", got)
	}
}

func TestNothingIsAllowedAcrossOrigins(t *testing.T) {
	ts := serve(t, &fakeStore{list: func(context.Context, store.Filter) (store.Page, error) { return store.Page{}, nil }}, Config{})
	got := do(t, ts, "GET", "/locks", "", "Origin", "https://elsewhere.example")
	if got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("got %d %v", got.status, got.header)
	}
}
