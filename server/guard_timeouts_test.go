package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store"
)

const (
	// hasty is every bound that a server may have, shortened.
	hasty = 200 * time.Millisecond
	// unhurried is how long a wait is silent here: longer than any of them.
	unhurried = 3 * hasty
)

// serveHasty starts a server that is as impatient as it can be made with headers, bodies and writes.
func serveHasty(t *testing.T, fake *fakeStore, cfg Config) *httptest.Server {
	t.Helper()
	fake.t = t
	cfg.Logger, cfg.BodyTimeout, cfg.WriteTimeout = slog.New(slog.DiscardHandler), hasty, hasty
	s, err := New(fake, cfg)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := Listen(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	ts := &httptest.Server{Listener: listener, Config: NewHTTPServer(s, cfg.Logger)}
	ts.Config.ReadHeaderTimeout = hasty
	ts.Start()
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
	})
	return ts
}

// slowly is a store whose claims are granted after a silence.
func slowly(silence time.Duration) *fakeStore {
	lock := store.Lock{ID: "x", Name: "a", State: store.Held, Token: 7, TTL: time.Minute}
	wait := func(ctx context.Context) (store.Lock, error) {
		granted := time.NewTimer(silence)
		defer granted.Stop()
		select {
		case <-granted.C:
			return lock, nil
		case <-ctx.Done():
			return store.Lock{}, ctx.Err()
		}
	}
	return &fakeStore{
		claim: func(ctx context.Context, _ store.Claim) (store.Lock, error) { return wait(ctx) },
		ask: func(ctx context.Context, _ string, _ time.Duration, _ time.Time) (store.Lock, error) {
			return wait(ctx)
		},
		follow: func(ctx context.Context, _ string, _ time.Time, tell func(store.Lock) error) error {
			if err := tell(store.Lock{ID: "x", Name: "a", Position: 1}); err != nil {
				return err
			}
			lock, err := wait(ctx)
			return errors.Join(err, tell(lock))
		},
	}
}

// What bounds a body, a write or a header bounds no wait: not the first of a connection, nor one after another answer.
func TestNoTimeoutCutsAWait(t *testing.T) {
	t.Parallel()
	ts := serveHasty(t, slowly(unhurried), Config{})
	conn := dial(t, ts)
	reader := bufio.NewReader(conn)
	for _, c := range []struct {
		request string
		status  int
	}{
		{waitingClaim, 201},
		{"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 200},
		{"GET /locks/x?wait_seconds=50 HTTP/1.1\r\nHost: x\r\n\r\n", 200},
		{waitingClaim, 201},
	} {
		say(t, conn, c.request)
		expectAnswer(t, reader, c.status)
	}
	// the time for the last answer is over when the next request asks whether to send its body
	over := time.NewTimer(2 * hasty)
	<-over.C
	head, body, _ := strings.Cut(waitingClaim, "\r\n\r\n")
	say(t, conn, head+"\r\nExpect: 100-continue\r\n\r\n")
	if line, err := reader.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("a client that asks whether to send is told %q, %v", line, err)
	}
	if _, err := reader.ReadString('\n'); err != nil { // the empty line after it
		t.Fatal(err)
	}
	say(t, conn, body)
	expectAnswer(t, reader, 201)
	_, lines := open(t, ts, "/locks/x/events")
	await(t, lines, "event: queued")
	await(t, lines, "event: held")
	await(t, lines, "data: ")
}

// A balancer that cuts what is silent for a while lets a stream be that has its heartbeat, and carries each at once.
func TestStreamsOutliveABalancerThatCutsSilentLines(t *testing.T) {
	t.Parallel()
	const silence = 600 * time.Millisecond
	ts := serve(t, slowly(3*silence), Config{Heartbeat: silence / 4})
	front := cutSilent(t, ts.Listener.Addr().String(), silence)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", front)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	say(t, conn, "GET /locks/x/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	text, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(text), "event: held") {
		t.Errorf("the stream was cut: %v\n%s", err, text)
	}
	// the same line without a heartbeat is cut: else this proves nothing
	mute := serve(t, slowly(3*silence), Config{Heartbeat: time.Hour})
	front = cutSilent(t, mute.Listener.Addr().String(), silence)
	cut, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", front)
	if err != nil {
		t.Fatal(err)
	}
	defer cut.Close()
	say(t, cut, "GET /locks/x/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if text, _ := io.ReadAll(cut); strings.Contains(string(text), "event: held") {
		t.Error("the balancer does not cut silent lines")
	}

	const balancers = 60 * time.Second // after which common ones cut
	if cfg := (Config{}).withDefaults(); cfg.Heartbeat > balancers/4 || cfg.MaxWait >= balancers {
		t.Errorf("by default a stream is silent for %v, a wait for %v", cfg.Heartbeat, cfg.MaxWait)
	}
}

// cutSilent is a balancer before one server. It cuts a line on which the server has said nothing for so long.
func cutSilent(t *testing.T, server string, silence time.Duration) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var lines sync.WaitGroup
	t.Cleanup(func() { listener.Close(); lines.Wait() })
	lines.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			lines.Go(func() {
				defer back.Close()
				io.Copy(back, client)
			})
			lines.Go(func() {
				defer client.Close()
				defer back.Close()
				for chunk := make([]byte, 4096); ; {
					back.SetReadDeadline(time.Now().Add(silence))
					n, err := back.Read(chunk)
					if _, werr := client.Write(chunk[:n]); err != nil || werr != nil {
						return
					}
				}
			})
		}
	})
	return listener.Addr().String()
}

// Clients that never finish a header are cut off, whatever trickle they keep up, and are in nobody's way.
func TestSlowHeadersAreCutOff(t *testing.T) {
	t.Parallel()
	const clients = 100
	ts := serveHasty(t, slowly(0), Config{})
	var slow sync.WaitGroup
	for i := range clients {
		conn := dial(t, ts)
		reader := bufio.NewReader(conn)
		if i%2 == 1 { // the second request of its connection
			say(t, conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
			expectAnswer(t, reader, 200)
		}
		say(t, conn, "POST /locks HTTP/1.1\r\nHost: x\r\nX: ")
		slow.Go(func() {
			tick := time.NewTicker(hasty / 10)
			defer tick.Stop()
			for {
				if _, err := io.WriteString(conn, "x"); err != nil {
					return
				}
				<-tick.C
			}
		})
		slow.Go(func() {
			defer conn.Close()
			if _, err := io.Copy(io.Discard, reader); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("a client that trickles a header is not cut off")
			}
		})
	}
	if got := do(t, ts, "POST", "/locks", `{"name":"a"}`); got.status != 201 {
		t.Errorf("beside them a claim answers %d: %s", got.status, got.body)
	}
	slow.Wait()
	if headerTimeout > 10*time.Second || maxHeaderBytes > 64<<10 {
		t.Errorf("a header may take %v and %d bytes", headerTimeout, maxHeaderBytes)
	}
}
