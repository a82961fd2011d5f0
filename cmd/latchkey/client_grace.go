package main

import "time"

// grace is a duration that may follow from the TTL.
type grace struct{ period }

const (
	autoGrace      = "auto"
	leastAutoGrace = 200 * time.Millisecond
	mostAutoGrace  = 5 * time.Second

	// The command is to be dead this long before the TTL is over.
	leastSpare = 200 * time.Millisecond
	mostSpare  = time.Second
)

func (g *grace) UnmarshalText(text []byte) error {
	if string(text) == autoGrace {
		*g = grace{period{duration{text: autoGrace}}}
		return nil
	}
	return g.period.UnmarshalText(text)
}

func (g *grace) check(bad *faults, ttl time.Duration) {
	if g.text == autoGrace {
		return
	}
	g.within(bad, "grace", leastGrace, mostGrace)
	if g.err == nil && g.Duration > ttl/3 && ttl >= leastTTL {
		bad.add("grace", "must be at most a third of the TTL, not %q", g.text)
	}
}

func (g *grace) of(ttl time.Duration) time.Duration {
	if g.text == autoGrace {
		return min(max(ttl/10, leastAutoGrace), mostAutoGrace)
	}
	return g.Duration
}

// spareOf is how long before the end of the TTL the last process of the command is to be dead.
func spareOf(ttl time.Duration) time.Duration { return min(max(ttl/20, leastSpare), mostSpare) }
