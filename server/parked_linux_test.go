package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store"
)

const (
	// parkedKind tells the process that BenchmarkParked starts how its clients wait.
	parkedKind  = "LATCHKEY_TEST_PARKED"
	parkedCount = 5000
)

var parkedClaim = rawRequest("POST", "/locks", `{"name":"orders/42","ttl_seconds":30,"wait_seconds":50,"queue":true}`)

// BenchmarkParked tells what each of thousands that wait costs the server's process, by part: as they have come, and
// ("rest-") when all that can be was collected and given back. "bare" is a handler that does nothing but read the body.
func BenchmarkParked(b *testing.B) {
	for _, kind := range []struct{ name, text string }{
		{"bare", parkedClaim},
		{"claim", parkedClaim},
		{"ask", rawRequest("GET", "/locks/"+benchID+"?wait_seconds=50", "")},
		{"events", rawRequest("GET", "/locks/"+benchID+"/events", "")},
	} {
		b.Run(kind.name, func(b *testing.B) {
			for b.Loop() {
				park(b, kind.name, kind.text)
			}
		})
	}
}

func park(b *testing.B, kind, text string) {
	b.Helper()
	server := startParked(b, kind)
	defer server.stop()
	before := server.ask(b, "/rest")
	for range parkedCount {
		conn, err := net.Dial("tcp", server.address)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			b.Fatal(err)
		}
	}
	for deadline := time.Now().Add(patience); server.ask(b, "/now").Parked < parkedCount; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("not all are parked")
		}
	}
	report(b, "", before, server.ask(b, "/now"))
	report(b, "rest-", before, server.ask(b, "/rest"))
}

// cost is what the process of the server has, in bytes, for how many.
type cost struct{ Parked, Resident, Stacks, Objects, Unused, Other int }

func report(b *testing.B, prefix string, from, to cost) {
	each := func(part string, from, to int) {
		b.ReportMetric(float64(to-from)/parkedCount/1024, prefix+part+"-KiB")
	}
	each("resident", from.Resident, to.Resident)
	each("stacks", from.Stacks, to.Stacks)
	each("objects", from.Objects, to.Objects)
	each("unused", from.Unused, to.Unused)
	each("other", from.Other, to.Other)
}

type parkedServer struct {
	address, control string
	stop             func()
}

func startParked(b *testing.B, kind string) parkedServer {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestParkedServer$")
	cmd.Env = append(os.Environ(), parkedKind+"="+kind)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	s := parkedServer{stop: func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	}}
	if _, err := fmt.Fscan(bufio.NewReader(out), &s.address, &s.control); err != nil {
		b.Fatal(err)
	}
	return s
}

func (s parkedServer) ask(b *testing.B, path string) cost {
	b.Helper()
	res, err := http.Get("http://" + s.control + path)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	var c cost
	if err := json.NewDecoder(res.Body).Decode(&c); err != nil {
		b.Fatal(err)
	}
	return c
}

// TestParkedServer is the process of the server, until its input ends.
func TestParkedServer(t *testing.T) {
	kind := os.Getenv(parkedKind)
	if kind == "" {
		t.Skip("it is no test, but what BenchmarkParked starts")
	}
	var parked atomic.Int64
	served := serveParked(t, kind, &parked)
	control := http.NewServeMux()
	control.HandleFunc("/now", func(w http.ResponseWriter, _ *http.Request) { tellCost(t, w, &parked) })
	control.HandleFunc("/rest", func(w http.ResponseWriter, _ *http.Request) {
		for range 4 { // a stack shrinks by half at a time
			runtime.GC()
		}
		debug.FreeOSMemory()
		tellCost(t, w, &parked)
	})
	ears, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(ears, control)
	fmt.Println(served, ears.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0) // with all that is parked
}

func serveParked(t *testing.T, kind string, parked *atomic.Int64) net.Addr {
	wait := func(ctx context.Context) error {
		parked.Add(1)
		<-ctx.Done()
		return ctx.Err()
	}
	lock := store.Lock{ID: benchID, Name: "orders/42", Position: 17, LeaseID: benchID, TTL: 30 * time.Second}
	fake := &fakeStore{
		t:     t,
		claim: func(ctx context.Context, _ store.Claim) (store.Lock, error) { return lock, wait(ctx) },
		ask: func(ctx context.Context, _ string, _ time.Duration, _ time.Time) (store.Lock, error) {
			return lock, wait(ctx)
		},
		follow: func(ctx context.Context, _ string, _ time.Time, tell func(store.Lock) error) error {
			if err := tell(lock); err != nil {
				return err
			}
			return wait(ctx)
		},
	}
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := New(fake, Config{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	srv := NewHTTPServer(s, logger)
	listener, err := Listen(t.Context(), "127.0.0.1:0", 0)
	if kind == "bare" {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
		srv = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = wait(r.Context())
		})}
	}
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(listener)
	return listener.Addr()
}

func tellCost(t *testing.T, w io.Writer, parked *atomic.Int64) {
	samples := []runtimemetrics.Sample{
		{Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/total:bytes"},
	}
	runtimemetrics.Read(samples)
	at := func(i int) int { return int(samples[i].Value.Uint64()) }
	c := cost{Parked: int(parked.Load()), Resident: resident(t), Stacks: at(0), Objects: at(1), Unused: at(2) + at(3)}
	c.Other = at(5) - at(4) - c.Stacks - c.Objects - c.Unused
	if err := json.NewEncoder(w).Encode(c); err != nil {
		t.Error(err)
	}
}

func resident(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if field, found := strings.CutPrefix(line, "VmRSS:"); found {
			n, err := strconv.Atoi(strings.Fields(field)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("the system does not say how much memory this process has")
	return 0
}
