// Command latchkey serves distributed locks over HTTP, and takes them. See README.md, and latchkey --help.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes of the server's commands.
const (
	exitBadEnd   = 1
	exitBadStart = 2
)

func main() {
	stop, cut := signals()
	if err := run(stop, cut, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if err.Error() != "" {
			fmt.Fprintln(os.Stderr, "latchkey:", err)
		}
		os.Exit(exitCode(err))
	}
}

// signals returns a context that the first signal to stop ends, and one that the second ends.
func signals() (stop, cut context.Context) {
	stop, stopNow := context.WithCancelCause(context.Background())
	cut, cutNow := context.WithCancel(context.Background())
	told := make(chan os.Signal, 2)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	go func() {
		stopNow(signalled{<-told})
		<-told
		cutNow()
		signal.Stop(told) // a third is the system's affair
	}()
	return stop, cut
}
