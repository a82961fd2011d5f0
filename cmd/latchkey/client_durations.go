package main

import (
	"slices"
	"strconv"
)

// durationHelp is told by every command of a client.
const durationHelp = "Durations are written like 500ms, 30s, 5m or 24h; a number alone counts seconds.\n\n"

// period is a duration of a client's: a number alone counts seconds, as in the API and as sleep and timeout take it.
type period struct{ duration }

func (p *period) UnmarshalText(text []byte) error {
	counted := text
	if _, err := strconv.Atoi(string(text)); err == nil {
		counted = append(slices.Clone(text), 's')
	}
	err := p.duration.UnmarshalText(counted)
	p.text = string(text) // what was typed is what a fault shows
	return err
}
