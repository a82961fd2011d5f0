package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

// caller is one who sends requests: with a token or a JWT, with a certificate, or as nobody. Many goroutines may use it.
type caller struct {
	t      *testing.T
	bearer string
	lines  *http.Transport
}

func newCaller(t *testing.T, bearer string, secure *tls.Config) *caller {
	t.Helper()
	c := &caller{t, bearer, &http.Transport{TLSClientConfig: secure, MaxIdleConnsPerHost: 64}}
	t.Cleanup(c.lines.CloseIdleConnections)
	return c
}

func (c *caller) request(ctx context.Context, method, url, body string, header ...string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req, nil
}

// try sends a request and reads its answer, whatever it is.
func (c *caller) try(method, url, body string, header ...string) (heard, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 3*bound)
	defer cancel()
	req, err := c.request(ctx, method, url, body, header...)
	if err != nil {
		return heard{}, err
	}
	resp, err := c.lines.RoundTrip(req)
	if err != nil {
		return heard{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return heard{resp.StatusCode, resp.Header, string(text)}, err
}

func (c *caller) do(method, url, body string, header ...string) heard {
	c.t.Helper()
	got, err := c.try(method, url, body, header...)
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	return got
}

// claim claims a name, which is granted or queued.
func (c *caller) claim(replica string, claim api.LockRequest, header ...string) api.Lock {
	c.t.Helper()
	got := c.do(http.MethodPost, replica+"/locks", encoded(c.t, claim), header...)
	if got.status != http.StatusCreated && got.status != http.StatusAccepted {
		c.t.Fatalf("a claim of %q answers %d %s", claim.Name, got.status, got.body)
	}
	return decoded[api.Lock](c.t, got.body)
}

// want sends a request whose answer must have the status, and the code if it is a problem.
func (c *caller) want(status int, code, method, url, body string, header ...string) heard {
	c.t.Helper()
	got := c.do(method, url, body, header...)
	if got.status != status || code != "" && decoded[api.Problem](c.t, got.body).Code != code {
		c.t.Errorf("%s %.60s answers %d %s, want %d %s", method, body, got.status, got.body, status, code)
	}
	return got
}

// wantHeld asks for a look at a lock that is the caller's and held.
func (c *caller) wantHeld(replica string, lock api.Lock) {
	c.t.Helper()
	got := c.do(http.MethodGet, replica+"/locks/"+lock.ID, "")
	if got.status != http.StatusOK {
		c.t.Errorf("%q is to be held, and a look answers %d %s", lock.Name, got.status, got.body)
		return
	}
	if is := decoded[api.Lock](c.t, got.body); is.State != "held" || is.FencingToken == 0 || lock.FencingToken != 0 && is.FencingToken != lock.FencingToken {
		c.t.Errorf("%q is to be held with the token %d, and is %s with %d", lock.Name, lock.FencingToken, is.State, is.FencingToken)
	}
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func decoded[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v, of %q", err, text)
	}
	return value
}

// event is one of a stream.
type event struct{ kind, id, data string }

// events is a stream that is open, read as the standard of server-sent events says.
type events struct {
	t     *testing.T
	body  io.ReadCloser
	lines *bufio.Reader
	stop  context.CancelFunc
	// afterCR says that a line has ended with CR, so that a LF which follows is of the same end.
	afterCR bool
}

// open opens a stream, which must begin.
func (c *caller) open(url string, header ...string) *events {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 6*bound)
	req, err := c.request(ctx, http.MethodGet, url, "", header...)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := c.lines.RoundTrip(req)
	if err != nil {
		c.t.Fatal(err)
	}
	s := &events{t: c.t, body: resp.Body, lines: bufio.NewReader(resp.Body), stop: cancel}
	c.t.Cleanup(s.close)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		c.t.Fatalf("a stream answers %s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	return s
}

func (s *events) close() {
	s.stop()
	s.body.Close()
}

// line ends with CR, LF or both.
func (s *events) line() (string, error) {
	var text []byte
	for {
		b, err := s.lines.ReadByte()
		switch {
		case err != nil:
			return "", err
		case b == '\n' && s.afterCR && len(text) == 0:
			s.afterCR = false
		case b == '\n' || b == '\r':
			s.afterCR = b == '\r'
			return string(text), nil
		default:
			s.afterCR = false
			text = append(text, b)
		}
	}
}

// next is the next event.
func (s *events) next() (e event, err error) {
	var data []string
	for {
		line, err := s.line()
		if err != nil {
			return event{}, err
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && data != nil:
			e.data = strings.Join(data, "\n")
			return e, nil
		case line == "":
			e = event{}
		case field == "event":
			e.kind = value
		case field == "id":
			e.id = value
		case field == "data":
			data = append(data, value)
		case field != "" && field != "retry":
			return event{}, fmt.Errorf("a stream has the line %q", line)
		}
	}
}

// await reads on to an event of the kind.
func (s *events) await(kind string) event {
	s.t.Helper()
	for began := time.Now(); ; {
		e, err := s.next()
		if err != nil {
			s.t.Fatalf("no event %s, but after %v: %v", kind, time.Since(began), err)
		}
		if e.kind == kind {
			return e
		}
	}
}
