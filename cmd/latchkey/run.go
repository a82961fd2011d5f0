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

	Serve serveCommand `cmd:"" help:"Serve locks over HTTP, on an etcd of its own or on a cluster."`

	Run        runCommand         `cmd:"" help:"Take a lock, run a command, release the lock."`
	Acquire    acquireCommand     `cmd:"" help:"Take a lock, or wait in line for it, and leave it to its TTL."`
	Renew      renewCommand       `cmd:"" help:"Let the TTL of a lock start again."`
	Release    releaseCommand     `cmd:"" help:"Release a lock, or leave the queue."`
	Get        getCommand         `cmd:"" help:"Look at a claim."`
	List       listCommand        `cmd:"" help:"List who holds and who waits."`
	Watch      watchCommand       `cmd:"" help:"Tell each change of who holds a name and who waits for it."`
	Completion completionCommands `cmd:"" help:"Print a script that lets a shell complete latchkey's command line."`
	Guard      guardCommand       `cmd:"" hidden:"" help:"What \"latchkey run\" starts beside the command, and nobody else."`

	Healthcheck healthcheckCommand `cmd:"" help:"Ask a running latchkey whether it is ready. Exits with 0 if it is, else with 1."`
	Epoch       epochCommands      `cmd:"" help:"Show or raise the number that fencing tokens start from."`
	Token       tokenCommands      `cmd:"" help:"Make tokens for the principals of the server's auth file."`
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
	chosen, err := parse(args, stdout, stderr)
	if errors.Is(err, errHelped) {
		return nil
	}
	if err := checkText(args); err != nil {
		return badStart(chosen, err)
	}
	if err != nil {
		return badStart(chosen, fmt.Errorf("%w; see latchkey --help", err))
	}
	var bad faults
	chosen.check(&bad)
	if err := bad.join(); err != nil {
		return badStart(chosen, err)
	}
	return chosen.run(surroundings{stop, cut, stdout, stderr})
}

// checkText refuses arguments that are not UTF-8: they would be read as others. A value is not shown, as it may be secret.
// What follows -- is a command's own affair.
func checkText(args []string) error {
	for i, arg := range args {
		if arg == "--" {
			return nil
		}
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

// parse returns the command chosen, if that is known, with an error too.
func parse(args []string, stdout, stderr io.Writer) (command, error) {
	parser, err := grammar(stdout, stderr)
	if err != nil {
		return nil, err
	}
	ctx, err := parser.Parse(dashedIDLast(args))
	if failed := (*kong.ParseError)(nil); errors.As(err, &failed) {
		ctx = failed.Context
	}
	if ctx == nil || ctx.Selected() == nil || !ctx.Selected().Leaf() {
		return nil, err
	}
	chosen := ctx.Selected().Target.Addr().Interface().(command)
	if last, is := chosen.(interface{ commandLine() *[]string }); is { // byte for byte, which kong does not leave it
		line := last.commandLine()
		*line = args[len(args)-len(*line):]
	}
	return chosen, err
}

// grammar is the program's command line.
func grammar(stdout, stderr io.Writer) (*kong.Kong, error) {
	return kong.New(&commands{},
		kong.Name("latchkey"),
		kong.Description(about),
		kong.Writers(stdout, stderr),
		kong.NoDefaultHelp(),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: helpWidth, NoExpandSubcommands: true}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "service", Title: "The service:"}, {Key: "claim", Title: "The claim:"},
			{Key: "http", Title: "HTTP:"}, {Key: "locks", Title: "Locks and waiting:"},
			{Key: "access", Title: "Who may do what:"}, {Key: "limits", Title: "Limits:"},
			{Key: "store", Title: "Where locks are kept:"}, {Key: "log", Title: "Log:"},
		}),
		kong.DefaultEnvars("LATCHKEY"),
		bounds(),
	)
}

const helpWidth = 110

var errHelped = errors.New("help was asked for")

type helpFlag bool

// BeforeReset shows the help before anything else is looked at.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	return errors.Join(errHelped, ctx.PrintUsage(false))
}
