package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

const about = `Distributed locks over plain HTTP: leases, waiting in line, and fencing tokens, on etcd.

Every flag can also be set by the environment variable shown beside it; the flag wins.
Durations are written like 500ms, 15s, 5m or 24h.`

// commands are the program's. Every flag's environment variable is LATCHKEY_ and the flag's name.
type commands struct {
	Help helpFlag `short:"h" help:"Show this help, or that of the command given."`

	Serve       serveCommand       `cmd:"" help:"Serve locks over HTTP, on an etcd of its own or on a cluster."`
	Healthcheck healthcheckCommand `cmd:"" help:"Ask a running latchkey whether it is ready. Exits with 0 if it is, else with 1."`
	Epoch       epochCommands      `cmd:"" help:"Show or raise the number that fencing tokens start from."`
	Version     versionCommand     `cmd:"" help:"Show the version."`
}

// command is one of them, its flags read.
type command interface {
	// check collects all that is wrong with the flags.
	check(*faults)
	run(surroundings) error
}

// surroundings are what a command has from outside.
type surroundings struct {
	stop, cut      context.Context // end when it is to stop softly, and at once
	stdout, stderr io.Writer
}

// startError is why a command could not begin.
type startError struct{ cause error }

func (e *startError) Error() string { return e.cause.Error() }
func (e *startError) Unwrap() error { return e.cause }

// run is the program. It stops softly when stop ends and at once when cut does.
func run(stop, cut context.Context, args []string, stdout, stderr io.Writer) error {
	if err := checkText(args); err != nil {
		return &startError{err}
	}
	chosen, err := parse(args, stdout, stderr)
	if errors.Is(err, errHelped) {
		return nil
	}
	if err != nil {
		return &startError{fmt.Errorf("%w; see latchkey --help", err)}
	}
	var bad faults
	chosen.check(&bad)
	if err := bad.join(); err != nil {
		return &startError{err}
	}
	return chosen.run(surroundings{stop, cut, stdout, stderr})
}

// checkText refuses arguments that are not UTF-8: they would be read as others. A value is not shown, as it may be secret.
func checkText(args []string) error {
	for i, arg := range args {
		if utf8.ValidString(arg) {
			continue
		}
		if flag, _, found := strings.Cut(arg, "="); found && utf8.ValidString(flag) {
			return fmt.Errorf("%s must be UTF-8", flag)
		}
		return fmt.Errorf("argument %d must be UTF-8", i+1)
	}
	return nil
}

func parse(args []string, stdout, stderr io.Writer) (command, error) {
	var all commands
	parser, err := kong.New(&all,
		kong.Name("latchkey"),
		kong.Description(about),
		kong.Writers(stdout, stderr),
		kong.NoDefaultHelp(),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: helpWidth, NoExpandSubcommands: true}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "http", Title: "HTTP:"}, {Key: "locks", Title: "Locks and waiting:"},
			{Key: "store", Title: "Where locks are kept:"}, {Key: "log", Title: "Log:"},
		}),
		kong.DefaultEnvars("LATCHKEY"),
		bounds(),
	)
	if err != nil {
		return nil, err
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		return nil, err
	}
	return ctx.Selected().Target.Addr().Interface().(command), nil
}

const helpWidth = 110

var errHelped = errors.New("help was asked for")

type helpFlag bool

// BeforeReset shows the help before anything else is looked at.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	return errors.Join(errHelped, ctx.PrintUsage(false))
}
