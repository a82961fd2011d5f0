// Command latchkey serves distributed locks over HTTP. See README.md, and latchkey --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitBadEnd   = 1
	exitBadStart = 2
)

func main() {
	stop, cut := signals()
	if err := run(stop, cut, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "latchkey:", err)
		if start := (*startError)(nil); errors.As(err, &start) {
			os.Exit(exitBadStart)
		}
		os.Exit(exitBadEnd)
	}
}

// signals returns a context that the first signal to stop ends, and one that the second ends.
func signals() (stop, cut context.Context) {
	stop, stopNow := context.WithCancel(context.Background())
	cut, cutNow := context.WithCancel(context.Background())
	told := make(chan os.Signal, 2)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-told
		stopNow()
		<-told
		cutNow()
		signal.Reset(os.Interrupt, syscall.SIGTERM) // a third is the system's affair
	}()
	return stop, cut
}
