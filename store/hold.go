package store

import (
	"errors"
	"time"
)

// ErrMaxHold: it was held for as long as it may be. It runs out one TTL after its last renewal.
var ErrMaxHold = errors.New("held for as long as it may be")

// holdEnd is until when a held claim, or a client's lease, may be renewed. It is a time of day, the one that is compared
// between replicas: a clock that is wrong makes a hold shorter or longer by as much, and nothing else.
type holdEnd struct {
	// Ends is in milliseconds since 1970; 0 if there is no such time.
	Ends int64 `json:"ends,omitempty"`
}

// ends is the zero time if there is no end.
func (h holdEnd) ends() time.Time {
	if h.Ends == 0 {
		return time.Time{}
	}
	return time.UnixMilli(h.Ends)
}

func (h holdEnd) over() bool { return h.Ends != 0 && time.Now().UnixMilli() >= h.Ends }

// newHold begins now.
func (c Config) newHold() holdEnd {
	if c.MaxHold == 0 {
		return holdEnd{}
	}
	return holdEnd{time.Now().Add(c.MaxHold).UnixMilli()}
}

func (w witness) hold() holdEnd {
	if w.lock != nil {
		return w.lock.holdEnd
	}
	return w.record.holdEnd
}
