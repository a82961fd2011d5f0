package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store"
)

const waitingClaim = "POST /locks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n" +
	`{"name":"a","wait_seconds":50}`

// dial opens a connection that no client library has its hands on.
func dial(t *testing.T, ts *httptest.Server) *net.TCPConn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", ts.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// receive fails the test when nothing comes.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain: %s", what)
		panic("not reached")
	}
}

// waits makes a store whose claims wait until grant tells them to go on, or their client has left.
func waits(t *testing.T) (fake *fakeStore, waiting chan *line, grant chan struct{}, left chan error) {
	waiting, grant, left = make(chan *line, 1), make(chan struct{}), make(chan error, 1)
	fake = &fakeStore{
		claim: func(ctx context.Context, c store.Claim) (store.Lock, error) {
			waiting <- ctx.Value(lineKey{}).(*line)
			select {
			case <-grant:
				return store.Lock{ID: "x", Name: c.Name, State: store.Held, Token: 1, TTL: time.Minute}, nil
			case <-ctx.Done():
				left <- ctx.Err()
				return store.Lock{}, ctx.Err()
			case <-t.Context().Done():
				return store.Lock{}, t.Context().Err()
			}
		},
	}
	return fake, waiting, grant, left
}

// What a client says too early is no reason to serve it otherwise, however long it then waits.
func TestAClientThatSaysMoreAndStaysIsServed(t *testing.T) {
	const healthz = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, c := range map[string]struct {
		early, later string
		status       int
	}{
		"one byte":       {"\n", healthz, 200},
		"an empty line":  {"\r\n", healthz, 200},
		"pipelined":      {healthz, "", 200},
		"half a request": {healthz[:8], healthz[8:], 200},
		"large":          {"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n" + strings.Repeat(" ", 20000), "", 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake, waiting, grant, left := waits(t)
			ts := serve(t, fake, Config{})
			conn := dial(t, ts)
			say(t, conn, waitingClaim)
			receive(t, "the claim", waiting)
			say(t, conn, c.early)
			select {
			case err := <-left:
				t.Fatalf("the client is taken for gone: %v", err)
			case <-time.After(3 * lookEvery):
			}
			close(grant)
			reader := bufio.NewReader(conn)
			expectAnswer(t, reader, 201)
			say(t, conn, c.later)
			expectAnswer(t, reader, c.status)
		})
	}
}

func expectAnswer(t *testing.T, reader *bufio.Reader, status int) {
	t.Helper()
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status {
		t.Fatalf("got %d, %v, want %d: %s", res.StatusCode, err, status, body)
	}
}

// Several requests in a row on one connection, each said while the one before it waits.
func TestPipelinedClaimsAreAnsweredInOrder(t *testing.T) {
	fake, waiting, grant, _ := waits(t)
	ts := serve(t, fake, Config{})
	conn := dial(t, ts)
	reader := bufio.NewReader(conn)
	say(t, conn, waitingClaim)
	for i := range 5 {
		receive(t, fmt.Sprint("claim ", i), waiting)
		say(t, conn, waitingClaim)
		grant <- struct{}{}
		expectAnswer(t, reader, 201)
	}
	receive(t, "the last claim", waiting)
	grant <- struct{}{}
	expectAnswer(t, reader, 201)
}
