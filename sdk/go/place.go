package latchkey

import (
	"context"
	"time"
)

// place is what a request has to respect that is a part of Lock. In a wait in line the place lapses when nobody asks for it within the
// service's waiting TTL, 15 s by default. A slice and twice the silence are less than that, so a second server that is silent
// leaves time for a third.
type place struct {
	waiting context.Context // the wait; nil for a claim that does not wait
	kept    bool            // the claim has been told; else it is in the queue perhaps
	trouble *trouble        // told what comes of each try
}

const (
	mostSlice   = 6 * time.Second // of a wait
	mostSilence = 4 * time.Second // of a server beyond the slice, and of ours when a server asks to be left alone
)

func (p *place) inLine() bool { return p != nil && p.waiting != nil }

// patience is how long beyond its wait a try may take.
func (p *place) patience(d time.Duration) time.Duration {
	if !p.inLine() || !p.kept {
		return d
	}
	return min(d, mostSilence)
}

// heeded is for how long a server is left alone that asked for it.
func (p *place) heeded(asked time.Duration, doubted bool) time.Duration {
	if !p.inLine() {
		return asked
	}
	if end, bounded := p.waiting.Deadline(); bounded {
		asked = min(asked, max(0, time.Until(end)))
	}
	if p.kept || doubted {
		asked = min(asked, mostSilence)
	}
	return asked
}

// heard takes what came of a try. An answer that is definite is the caller's to tell.
func (p *place) heard(server int, err error) {
	if p != nil && !p.over() && (err == nil || outcomeOf(err) != definite) {
		p.trouble.heard(server, err)
	}
}

// over says that there is no time left for another try.
func (p *place) over() bool { return p.inLine() && p.waiting.Err() != nil }
