//go:build unix

package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store"
)

const benchID = "k7Qm2vXc9TtZ0aYdW3uN5hAAAAAAAAAqYmlsbGluZy9pbnZvaWNlcw"

// benchRequests are the exchanges of a lock's life: the request as it is on the line, and the status of its answer.
var benchRequests = []struct {
	name, text string
	status     int
}{
	{"claim", rawRequest("POST", "/locks", `{"name":"orders/42","ttl_seconds":30}`), http.StatusCreated},
	{"release", rawRequest("DELETE", "/locks/"+benchID, ""), http.StatusNoContent},
	{"renew", rawRequest("PUT", "/leases/"+benchID, ""), http.StatusOK},
}

func rawRequest(method, path, body string) string {
	head := method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: Go-http-client/1.1\r\nAccept-Encoding: gzip\r\n"
	if body == "" {
		return head + "\r\n"
	}
	return fmt.Sprintf("%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
}

func readRequest(tb testing.TB, text string) *http.Request {
	tb.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// readyStore answers at once.
func readyStore() *fakeStore {
	lock := store.Lock{
		ID: benchID, Name: "orders/42", State: store.Held, Token: 1834402758656042, LeaseID: benchID, TTL: 30 * time.Second,
	}
	return &fakeStore{
		claim:   func(context.Context, store.Claim) (store.Lock, error) { return lock, nil },
		release: func(context.Context, string) error { return nil },
		renew: func(context.Context, string, time.Time) (store.Lease, error) {
			return store.Lease{ID: benchID, Token: lock.Token, TTL: lock.TTL}, nil
		},
	}
}

// benchServer logs as the program does by default, to where it costs only the system call.
func benchServer(b *testing.B) (http.Handler, *slog.Logger) {
	b.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { null.Close() })
	logger := slog.New(slog.NewTextHandler(null, nil))
	s, err := New(readyStore(), Config{Logger: logger})
	if err != nil {
		b.Fatal(err)
	}
	return s, logger
}

// BenchmarkHandler is what the server itself costs an exchange.
func BenchmarkHandler(b *testing.B) {
	handler, _ := benchServer(b)
	for _, r := range benchRequests {
		b.Run(r.name, func(b *testing.B) {
			read := readRequest(b, r.text)
			body, err := io.ReadAll(read.Body)
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				again := *read
				if len(body) > 0 {
					again.Body = io.NopCloser(bytes.NewReader(body))
				}
				w := &sink{header: http.Header{}}
				handler.ServeHTTP(w, again.WithContext(ctx))
				if w.status != r.status {
					b.Fatalf("got %d, want %d", w.status, r.status)
				}
			}
		})
	}
}

// sink takes an answer as a connection would.
type sink struct {
	header http.Header
	status int
}

func (w *sink) Header() http.Header              { return w.header }
func (w *sink) WriteHeader(status int)           { w.status = status }
func (w *sink) Write(p []byte) (int, error)      { return len(p), nil }
func (w *sink) FlushError() error                { return nil }
func (w *sink) SetReadDeadline(time.Time) error  { return nil }
func (w *sink) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkExchange is a whole exchange on one connection, its client's share too: by the server as the program has it,
// and by a handler that does nothing but read the body and write an answer of the same size.
func BenchmarkExchange(b *testing.B) {
	for _, r := range benchRequests {
		b.Run(r.name, func(b *testing.B) {
			b.Run("server", func(b *testing.B) {
				handler, logger := benchServer(b)
				listener, err := Listen(b.Context(), "127.0.0.1:0", 0)
				if err != nil {
					b.Fatal(err)
				}
				exchanges(b, listener, NewHTTPServer(handler, logger), r.text)
			})
			b.Run("bare", func(b *testing.B) {
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				handler, _ := benchServer(b)
				exchanges(b, listener, &http.Server{Handler: echo(b, handler, r.text)}, r.text)
			})
		})
	}
}

// echo answers as handler answers text, without a look at the request.
func echo(b *testing.B, handler http.Handler, text string) http.Handler {
	b.Helper()
	recorded := httptest.NewRecorder()
	handler.ServeHTTP(&recording{recorded}, readRequest(b, text))
	body := recorded.Body.Bytes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for name, values := range recorded.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(body)
	})
}

// recording is a connection for all the server asks of one.
type recording struct{ *httptest.ResponseRecorder }

func (recording) FlushError() error                { return nil }
func (recording) SetReadDeadline(time.Time) error  { return nil }
func (recording) SetWriteDeadline(time.Time) error { return nil }

func exchanges(b *testing.B, listener net.Listener, srv *http.Server, text string) {
	b.Helper()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	defer func() { srv.Close(); <-served }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	in, request := bufio.NewReader(conn), []byte(text)
	length := exchangeOnce(b, conn, in, request)

	answer := make([]byte, length)
	before := processorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(in, answer); err != nil {
			b.Fatal(err)
		}
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 2")) {
			b.Fatalf("got %s", answer)
		}
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// exchangeOnce returns the length of an answer, which is that of all that follow.
func exchangeOnce(b *testing.B, conn net.Conn, in *bufio.Reader, request []byte) int {
	b.Helper()
	if _, err := conn.Write(request); err != nil {
		b.Fatal(err)
	}
	var seen bytes.Buffer
	res, err := http.ReadResponse(bufio.NewReaderSize(io.TeeReader(in, &seen), 16), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		b.Fatal(err)
	}
	return seen.Len()
}

// processorTime is what this process has used of its processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
