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
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/store"
)

const (
	parkedKind  = "LATCHKEY_PARKED_TEST"
	parkedCount = 5000
)

// memory is what a process has, in bytes.
type memory struct {
	Resident, Stacks, Live, Garbage, Unused, Released, Other int
	Parked                                                   int
	GCs                                                      int
}

// parkedKinds are ways to wait, and what plain net/http takes for the first of them.
var parkedKinds = []struct{ name, text string }{
	{"bare", rawRequest("POST", "/locks", `{"name":"orders/42","ttl_seconds":30,"wait_seconds":50,"queue":true}`)},
	{"claim", rawRequest("POST", "/locks", `{"name":"orders/42","ttl_seconds":30,"wait_seconds":50,"queue":true}`)},
	{"ask", rawRequest("GET", "/locks/"+benchID+"?wait_seconds=50", "")},
	{"events", rawRequest("GET", "/locks/"+benchID+"/events", "")},
}

// BenchmarkParked tells what thousands that wait cost a process, by part.
func BenchmarkParked(b *testing.B) {
	for _, kind := range parkedKinds {
		b.Run(kind.name, func(b *testing.B) {
			child := startParked(b, kind.name)
			before := child.ask(b, "/gc")
			conns := make([]net.Conn, parkedCount)
			for b.Loop() {
				for i := range conns {
					conn, err := net.Dial("tcp", child.address)
					if err != nil {
						b.Fatal(err)
					}
					defer conn.Close()
					if _, err := io.WriteString(conn, kind.text); err != nil {
						b.Fatal(err)
					}
					conns[i] = conn
				}
				child.await(b, parkedCount)
				child.report(b, "", before, child.ask(b, "/memory"))
				child.report(b, "gc-", before, child.ask(b, "/gc"))
			}
		})
	}
}

type parkedServer struct{ address, control string }

func startParked(b *testing.B, kind string) *parkedServer {
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
	b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(line)
	return &parkedServer{fields[0], "http://" + fields[1]}
}

func (p *parkedServer) ask(b *testing.B, path string) memory {
	b.Helper()
	res, err := http.Get(p.control + path)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	var m memory
	if err := json.NewDecoder(res.Body).Decode(&m); err != nil {
		b.Fatal(err)
	}
	return m
}

func (p *parkedServer) await(b *testing.B, parked int) {
	b.Helper()
	for deadline := time.Now().Add(patience); p.ask(b, "/memory").Parked < parked; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("not all are parked")
		}
	}
}

func (p *parkedServer) report(b *testing.B, prefix string, from, to memory) {
	each := func(unit string, from, to int) {
		b.ReportMetric(float64(to-from)/parkedCount/1024, prefix+unit)
	}
	each("rss-KiB", from.Resident, to.Resident)
	each("stacks-KiB", from.Stacks, to.Stacks)
	each("objects-KiB", from.Live, to.Live)
	each("unused-KiB", from.Unused, to.Unused)
	each("other-KiB", from.Other, to.Other)
	b.ReportMetric(float64(to.GCs-from.GCs), prefix+"gcs")
}

// TestParkedServer is the server's process, not a test.
func TestParkedServer(t *testing.T) {
	kind := os.Getenv(parkedKind)
	if kind == "" {
		t.Skip("only the process that BenchmarkParked starts")
	}
	var (
		mu     sync.Mutex
		parked int
	)
	park := func(ctx context.Context) error {
		mu.Lock()
		parked++
		mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	}
	lock := store.Lock{ID: benchID, Name: "orders/42", Position: 17, LeaseID: benchID, TTL: 30 * time.Second}
	fake := &fakeStore{
		t:     t,
		claim: func(ctx context.Context, _ store.Claim) (store.Lock, error) { return lock, park(ctx) },
		ask: func(ctx context.Context, _ string, _ time.Duration, _ time.Time) (store.Lock, error) {
			return lock, park(ctx)
		},
		follow: func(ctx context.Context, _ string, _ time.Time, tell func(store.Lock) error) error {
			if err := tell(lock); err != nil {
				return err
			}
			return park(ctx)
		},
	}
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := New(fake, Config{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := Listen(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	srv := NewHTTPServer(s, logger)
	if kind == "bare" {
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		srv = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = park(r.Context())
		})}
	}
	go srv.Serve(listener)

	control := http.NewServeMux()
	tell := func(w http.ResponseWriter) {
		m := memoryNow(t)
		mu.Lock()
		m.Parked = parked
		mu.Unlock()
		_ = json.NewEncoder(w).Encode(m)
	}
	control.HandleFunc("/memory", func(w http.ResponseWriter, r *http.Request) { tell(w) })
	control.HandleFunc("/gc", func(w http.ResponseWriter, r *http.Request) {
		for range 4 { // a stack shrinks by half at a time
			runtime.GC()
		}
		debug.FreeOSMemory()
		tell(w)
	})
	ears, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(ears, control)
	fmt.Println(listener.Addr(), ears.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func memoryNow(t *testing.T) memory {
	samples := []runtimemetrics.Sample{
		{Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	runtimemetrics.Read(samples)
	at := func(i int) int { return int(samples[i].Value.Uint64()) }
	m := memory{Stacks: at(0), Live: at(1), Unused: at(2) + at(3), Released: at(4), GCs: at(6)}
	m.Other = at(5) - at(0) - at(1) - at(2) - at(3) - at(4)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if field, found := strings.CutPrefix(line, "VmRSS:"); found {
			n, _ := strconv.Atoi(strings.Fields(field)[0])
			m.Resident = n << 10
		}
	}
	return m
}
