//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// guardCommand is the process that "latchkey run" starts beside the command: it is the command's parent, hears until when
// the lock surely stands, and ends the command's group when it hears nothing more in time.
type guardCommand struct {
	Link    int      `arg:"" help:"The descriptor of the line to latchkey run."`
	Command []string `arg:"" passthrough:"partial" help:"The file to run, and its arguments from the 0th on."`
}

func (*guardCommand) ofClient() {}

func (c *guardCommand) commandLine() *[]string { return &c.Command }

const leastGuarded = 3 // --, the file, and the name it is called by

func (c *guardCommand) check(bad *faults) {
	if len(c.Command) < leastGuarded || c.Link <= 2 {
		bad.arg("COMMAND", "is for latchkey run to start")
	}
}

func (c *guardCommand) run(s surroundings) error {
	runtime.LockOSThread() // the command dies with the thread that starts it
	syscall.CloseOnExec(c.Link)
	link := linkOf(c.Link)
	defer link.Close()
	orders := make(chan order)
	go hearOrders(link, orders)
	first, ok := <-orders
	if !ok {
		return nil // latchkey run is gone before the command was there
	}
	g := &guard{reports: json.NewEncoder(link), until: first.Until, grace: first.Grace, spare: first.Spare}
	becomeReaper()
	inherit()
	if g.late() {
		return g.tell(notice{Ended: &commandEnd{Code: exitSignal + int(unix.SIGKILL)}})
	}
	if err := g.start(c.Command[1], c.Command[2:]); err != nil {
		return g.tell(notice{Ended: &commandEnd{Code: failureToRun(err), Failure: "could not be run: " + err.Error(), InTime: true}})
	}
	g.tell(notice{Started: g.group})
	g.watch(orders, s.stop.Done())
	return g.tell(notice{Ended: &g.end})
}

func hearOrders(link *os.File, orders chan<- order) {
	defer close(orders)
	from := json.NewDecoder(link)
	for {
		var o order
		if from.Decode(&o) != nil {
			return
		}
		orders <- o
	}
}

func failureToRun(err error) int {
	if errors.Is(err, os.ErrNotExist) {
		return exitNoCommand
	}
	return exitCannotRun
}

// start runs a file, through the shell if it is a script that does not say by what to run it.
func (g *guard) start(path string, args []string) error {
	cmd := guarded(path, args)
	err := cmd.Start()
	if errors.Is(err, unix.ENOEXEC) {
		cmd = guarded("/bin/sh", append([]string{"sh", path}, args[1:]...))
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	g.group = cmd.Process.Pid
	return cmd.Process.Release() // children are waited for all together
}

func guarded(path string, args []string) *exec.Cmd {
	return &exec.Cmd{Path: path, Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: commandAttributes()}
}
