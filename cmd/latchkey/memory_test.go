package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestMemoryIsGivenBackAtRest(t *testing.T) {
	for name, c := range map[string]struct {
		now  memory
		idle bool
		want bool
	}{
		"little":                   {now: memory{live: 10 << 20, garbage: 3 << 20, free: 3 << 20}, idle: true},
		"free":                     {now: memory{live: 10 << 20, free: 40 << 20}, idle: true, want: true},
		"garbage":                  {now: memory{live: 10 << 20, garbage: 40 << 20}, idle: true, want: true},
		"both together":            {now: memory{live: 10 << 20, garbage: 5 << 20, free: 5 << 20}, idle: true, want: true},
		"little of what is in use": {now: memory{live: 1 << 30, free: 40 << 20}, idle: true},
		"needed again in a moment": {now: memory{live: 10 << 20, free: 40 << 20}},
	} {
		c.now.allocated = 100 << 20
		last := memory{allocated: 80 << 20}
		if c.idle {
			last.allocated = 99 << 20
		}
		if got := c.now.wastedSince(last); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestWhatIsKeptForNothingIsSeen(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	debug.FreeOSMemory()
	before := usedMemory()
	block = make([]byte, 64<<20)
	after := usedMemory()
	if got := after.allocated - before.allocated; got < 64<<20 {
		t.Errorf("64 MiB were allocated, %d bytes are seen", got)
	}
	if got := after.garbage; got < 60<<20 {
		t.Errorf("64 MiB came since the last collection, %d bytes are seen", got)
	}
	block = nil
	runtime.GC()
	if got := usedMemory().free; got < 32<<20 {
		t.Errorf("64 MiB are free now, %d bytes are seen", got)
	}
	debug.FreeOSMemory()
	if got := usedMemory(); got.garbage+got.free > 32<<20 {
		t.Errorf("all was given back, %+v is seen", got)
	}
}

// block keeps the compiler from sparing the test what it makes.
var block []byte
