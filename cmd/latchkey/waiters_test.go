package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/latchkey/latchkey/api"
)

const (
	// What a waiter costs in bytes, once memory was given back. The race detector's come on top.
	mostPerWaiter = 48 << 10

	mostAtRest  = 0.25 // of one processor, for all waiters together
	waitersWait = 300
)

// manyWaiters: what thousands that wait cost one replica, and that each name's are granted in order afterwards.
func manyWaiters(t *testing.T, s *service) {
	names, each, rest := 100, shortOrLong(5, 50), shortOrLong(3*time.Second, 4*tidyEvery)
	c := newClient(t)
	args := []string{"--etcd-endpoints=" + strings.Join(s.etcd.Endpoints(), ","), "--etcd-prefix=/waiters/", "--max-wait=10m"}
	program := os.Args[0]
	if *long {
		program = built(t)
	}
	r := startProgram(t, program, args...)
	held := make([]answer, names)
	for n := range held {
		if held[n] = c.claim(r.url(), "", api.LockRequest{Name: crowded(n), TTLSeconds: 600}); !held[n].held() {
			t.Fatalf("a free lock: %v", held[n])
		}
	}
	pid := r.life.Load().cmd.Process.Pid
	before := resident(t, pid)

	began := time.Now()
	resources := make([]register, names)
	var all sync.WaitGroup
	for n := range names {
		for w := range each {
			all.Go(func() {
				visit := &stay{client: w, asked: time.Now()}
				a := c.claim(r.url(), "", api.LockRequest{Name: crowded(n), TTLSeconds: 60, WaitSeconds: waitersWait, Queue: true})
				if !a.held() {
					t.Errorf("a waiter is served in its turn, but one of %d on %d names is told %v", names*each, names, a)
					return
				}
				visit.token, visit.until = a.lock.FencingToken, a.got.Add(seconds(60)*2/3)
				if err := resources[n].enter(visit); err != nil {
					t.Error(err)
				}
				resources[n].leave(visit)
				if a := c.release(r.url(), a.lock.ID); a.status != 204 {
					t.Errorf("a release answers %v, want 204", a)
				}
			})
		}
	}
	etcd := s.etcd.Client(t, nil)
	eventually(t, answerBound+2*bound, "every waiter is in the queue", func() bool {
		return len(keysUnder(t, etcd, "/waiters/locks/")) == names*(each+1)
	})
	queued := time.Since(began)

	busy := processorTime(t, pid)
	at := time.Now()
	over := time.NewTimer(rest)
	<-over.C
	load := (processorTime(t, pid) - busy).Seconds() / time.Since(at).Seconds()
	perWaiter := func() int { return (resident(t, pid) - before) / (names * each) }
	for given := time.Now().Add(4 * tidyEvery); perWaiter() > mostPerWaiter && !raced() && time.Now().Before(given); {
		time.Sleep(tidyEvery / 10)
	}
	cost := perWaiter()
	t.Logf("%d waiters on %d names, queued in %v: %.1f KiB each (%d MiB before), %.1f %% of a processor at rest", names*each, names,
		queued.Round(time.Millisecond), float64(cost)/1024, before>>20, 100*load)
	if !raced() {
		if cost > mostPerWaiter {
			t.Errorf("a waiter costs a replica less than %d KiB, but %d bytes were seen", mostPerWaiter>>10, cost)
		}
		if load > mostAtRest {
			t.Errorf("waiters at rest cost less than %.2f of a processor, but %.2f was seen", mostAtRest, load)
		}
	}

	released := time.Now()
	for _, a := range held {
		if err := c.release(r.url(), a.lock.ID); err.status != 204 {
			t.Errorf("a release answers %v, want 204", err)
		}
	}
	all.Wait()
	t.Logf("all were granted in %v: %.0f a second", time.Since(released).Round(time.Millisecond), float64(names*each)/time.Since(released).Seconds())
	for n := range resources {
		if got := len(resources[n].stays); got != each {
			t.Errorf("every waiter on a name is served, but %d of %d were", got, each)
		}
	}
	if left := keysUnder(t, etcd, "/waiters/locks/"); len(left) > 0 {
		t.Errorf("no claim is left once all have released, but %d are", len(left))
	}
	r.stop()
}

func crowded(n int) string { return fmt.Sprintf("crowded %d", n) }

// built is the real binary: a test binary, and one with the race detector above all, has other figures.
func built(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "latchkey")
	if said, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	return program
}

// raced says whether the replicas that this test binary runs as have the race detector. The long form builds one without.
func raced() bool {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return !*long
		}
	}
	return false
}

// resident is how many bytes of memory a process has.
func resident(t *testing.T, pid int) int {
	t.Helper()
	for line := range strings.Lines(proc(t, pid, "status")) {
		if field, found := strings.CutPrefix(line, "VmRSS:"); found {
			n, err := strconv.Atoi(strings.Fields(field)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("the system does not say how much memory a process has")
	return 0
}

// tick is what Linux counts a process's time in, on every machine that Go knows.
const tick = 10 * time.Millisecond

// processorTime is how long a process has used a processor.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat := proc(t, pid, "stat")
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:]) // a name may have blanks
	var sum time.Duration
	for _, ticks := range fields[11:13] { // in user mode, in the kernel
		n, err := strconv.Atoi(ticks)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(n) * tick
	}
	return sum
}

func proc(t *testing.T, pid int, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file))
	if os.IsNotExist(err) {
		t.Skip("this system does not show what a process costs")
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
