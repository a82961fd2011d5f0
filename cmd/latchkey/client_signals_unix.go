//go:build unix

package main

import (
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"
)

var (
	// stopping are the signals that end a wait in line, and go to the command once it runs.
	stopping = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}
	// forwarded are those that go to the command besides.
	forwarded = []os.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGCONT}

	// ignored are those that were ignored when the program began, as nohup does. It must be asked before anything else.
	ignored = slices.DeleteFunc(slices.Concat(stopping, forwarded), func(s os.Signal) bool { return !signal.Ignored(s) })
)

// caught are the signals that come, without those that are to be ignored.
type caught struct{ told chan os.Signal }

func catchSignals() *caught {
	s := &caught{make(chan os.Signal, 16)}
	s.catch(stopping)
	return s
}

// all lets those come too that only the command is for.
func (s *caught) all() { s.catch(forwarded) }

func (s *caught) catch(which []os.Signal) {
	for _, sig := range which {
		if !slices.Contains(ignored, sig) {
			signal.Notify(s.told, sig)
		}
	}
}

func (s *caught) stop() { signal.Stop(s.told) }

// inherit makes what is started from now on ignore what this program was started to ignore.
func inherit() {
	if len(ignored) > 0 {
		signal.Ignore(ignored...)
	}
}
