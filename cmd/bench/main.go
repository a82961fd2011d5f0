// Command bench measures latchkey beside etcd's own locks, each service a process of its own on this machine:
//
//	go run ./cmd/bench
//
// See bench -help.
package main

import (
	"context"
	"errors"
	"flag"
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
	if role := os.Getenv(roleEnv); role != "" {
		fmt.Fprintln(os.Stderr, "bench:", playRole(role))
		os.Exit(exitBadEnd)
	}
	cfg, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitBadStart)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, cfg, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitBadEnd)
	}
}
