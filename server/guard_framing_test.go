package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Of a request whose end two readers would see in two places nothing is done, and nothing after it is read.
func TestRequestsOfDoubtfulLengthAreRefused(t *testing.T) {
	const (
		hidden = "DELETE /locks/x HTTP/1.1\r\nHost: x\r\n\r\n"
		claim  = `{"name":"a"}`
		chunks = "c\r\n" + claim + "\r\n0\r\n\r\n"
	)
	ts := serve(t, &fakeStore{}, Config{}) // which fails the test when it is asked for anything
	for name, c := range map[string]struct{ header, body string }{
		"two lengths":            {"Content-Length: 12\r\nContent-Length: 50\r\n", claim},
		"two lengths, the other": {"Content-Length: 50\r\nContent-Length: 12\r\n", claim},
		"a list of lengths":      {"Content-Length: 12, 50\r\n", claim},
		"a signed length":        {"Content-Length: +12\r\n", claim},
		"a negative length":      {"Content-Length: -12\r\n", claim},
		"a length in hex":        {"Content-Length: 0x0c\r\n", claim},
		"a length of two words":  {"Content-Length: 12 12\r\n", claim},
		"an empty length":        {"Content-Length:\r\n", claim},
		"another coding":         {"Transfer-Encoding: xchunked\r\n", chunks},
		"two codings":            {"Transfer-Encoding: gzip, chunked\r\n", chunks},
		"chunks twice":           {"Transfer-Encoding: chunked, chunked\r\n", chunks},
		"chunks in two headers":  {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunks},
		"chunks and identity":    {"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", chunks},
		"a blank before colon":   {"Transfer-Encoding : chunked\r\n", chunks},
		"a control in the value": {"Transfer-Encoding: \x0bchunked\r\n", chunks},
		"a control in the name":  {"Transfer-Encoding\x00: chunked\r\n", chunks},
		"a bare CR":              {"X: a\rTransfer-Encoding: chunked\r\n", chunks},
		"a chunk size of two":    {"Transfer-Encoding: chunked\r\n", "c c\r\n" + claim + "\r\n0\r\n\r\n"},
		"a signed chunk size":    {"Transfer-Encoding: chunked\r\n", "+c\r\n" + claim + "\r\n0\r\n\r\n"},
		"a chunk size in 0x":     {"Transfer-Encoding: chunked\r\n", "0xc\r\n" + claim + "\r\n0\r\n\r\n"},
		"a chunk that runs on":   {"Transfer-Encoding: chunked\r\n", "b\r\n" + claim + "\r\n0\r\n\r\n"},
		"a bare LF chunk":        {"Transfer-Encoding: chunked\r\n", "c\n" + claim + "\n0\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, ts)
			say(t, conn, "POST /locks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+c.header+"\r\n"+c.body+hidden)
			said, err := io.ReadAll(conn)
			if err != nil && !strings.Contains(err.Error(), "reset") {
				t.Fatalf("the connection goes on: %v", err)
			}
			answers := strings.Count(string(said), "HTTP/1.1 ")
			if answers > 1 || answers == 1 && !strings.HasPrefix(string(said), "HTTP/1.1 4") && !strings.HasPrefix(string(said), "HTTP/1.1 501") {
				t.Errorf("it is served:\n%s", said)
			}
		})
	}
}

// HTTP/1.0 has no chunks: without a length there is no body, and so no claim.
func TestHTTP10WithoutALengthIsAnEmptyBody(t *testing.T) {
	ts := serve(t, &fakeStore{}, Config{})
	res, body, closed := raw(t, ts, "POST /locks HTTP/1.0\r\nContent-Type: application/json\r\n\r\n"+`{"name":"a"}`)
	got := answer{res.StatusCode, res.Header, body}.problem(t)
	if res.StatusCode != http.StatusBadRequest || got.Code != "invalid_request" || !closed {
		t.Errorf("got %d, closed %v: %s", res.StatusCode, closed, body)
	}
}
