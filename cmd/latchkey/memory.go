package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// tidyEvery is how often memory is looked at.
	tidyEvery = 5 * time.Second
	// leastWaste is what is worth a collection, and wasteShare the part of what is in use that it must be.
	leastWaste = 8 << 20
	wasteShare = 4
	// busyShare is the part of the waste that is allocated between two looks when the process is busy: then it is needed
	// again at once.
	busyShare = 4
)

// idleHeap is memory that nobody touches, so the system never has to find it. The collector takes it for some of what is
// in use, and lets as much garbage come before it works: else a small program, as a replica with few waiters is, would be
// collecting every few hundred requests, for a twelfth of its processor time.
const idleHeap = 32 << 20

// startTidying gives memory back to the system when there is nothing to do, until what it returns is called. Go alone
// does so only in the course of later work: thousands that have come to wait would go on costing what their coming did,
// twice what they need.
func startTidying() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { tidy(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func tidy(ctx context.Context) {
	looks := time.NewTicker(tidyEvery)
	defer looks.Stop()
	for last := usedMemory(); ; {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		}
		now := usedMemory()
		if now.wastedSince(last) {
			debug.FreeOSMemory()
			now = usedMemory()
		}
		last = now
	}
}

// memory is what the heap has of the system, in bytes.
type memory struct {
	live      uint64 // by the last collection
	garbage   uint64 // at most: what came since then
	free      uint64 // for nothing, and not given back
	allocated uint64 // ever
}

func usedMemory() memory {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(samples)
	live, objects := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	return memory{
		live: live, garbage: max(objects, live) - live, free: samples[2].Value.Uint64(), allocated: samples[3].Value.Uint64(),
	}
}

// wastedSince says whether much is kept for nothing, and little was needed since the last look.
func (m memory) wastedSince(last memory) bool {
	waste := m.garbage + m.free
	return waste >= max(leastWaste, m.live/wasteShare) && m.allocated-last.allocated <= waste/busyShare
}
