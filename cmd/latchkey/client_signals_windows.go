package main

import (
	"os"
	"os/signal"
)

// caught are the signals that end a wait in line. Once the command runs, the console tells it by itself.
type caught struct{ told chan os.Signal }

func catchSignals() *caught {
	s := &caught{make(chan os.Signal, 16)}
	signal.Notify(s.told, os.Interrupt)
	return s
}

func (s *caught) all() {}

func (s *caught) stop() { signal.Stop(s.told) }
