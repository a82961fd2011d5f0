//go:build unix

package main

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// console is the terminal from which latchkey runs, if there is one. The command is in a group of its own, to which the
// terminal belongs only once it asks for it: so whoever shares latchkey's group, as the pager behind a pipe does, keeps it.
type console struct {
	file *os.File // nil: there is none
	lent bool     // to the command
	woke chan os.Signal
}

func openConsole() *console {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return &console{}
	}
	return &console{file: file, woke: make(chan os.Signal, 1)}
}

func (c *console) foreground() int {
	group, err := unix.IoctlGetInt(int(c.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// give makes a group the one that the terminal belongs to. From the background that is allowed only to those who ignore
// SIGTTOU. Whatever is started from then on would ignore it too, but the guard has been started.
func (c *console) give(group int) {
	signal.Ignore(unix.SIGTTOU)
	c.lent = unix.IoctlSetPointerInt(int(c.file.Fd()), unix.TIOCSPGRP, group) == nil && group != unix.Getpgrp()
}

// stopped does what is right when the command was stopped by sig, and says whether it is to go on.
func (c *console) stopped(group int, sig unix.Signal) bool {
	if c.file == nil {
		return false // somebody stopped it, and will let it go on
	}
	own, at := unix.Getpgrp(), c.foreground()
	asks := sig == unix.SIGTTIN || sig == unix.SIGTTOU
	switch {
	case asks && at == own:
		c.give(group)
	case asks || at == own || at == group:
		lent := c.lent
		if at == group {
			c.give(own)
		}
		c.stopSelf()
		if (lent || asks) && c.foreground() == own {
			c.give(group)
		}
	default:
		return false
	}
	return true
}

// ownStop is how long it may take to be stopped by a signal to oneself. Where nobody could wake it the system does not stop it.
const ownStop = 100 * time.Millisecond

// stopSelf stops the whole job that latchkey is a part of, as the shell expects, until the shell lets it go on. It does so by
// SIGTTIN: once SIGTSTP was caught, Go does not give it its meaning back.
func (c *console) stopSelf() {
	signal.Notify(c.woke, unix.SIGCONT)
	defer signal.Stop(c.woke)
	unix.Kill(0, unix.SIGTTIN)
	select {
	case <-c.woke:
	case <-time.After(ownStop):
	}
}

// close takes the terminal back.
func (c *console) close() {
	if c.file == nil {
		return
	}
	if c.lent {
		c.give(unix.Getpgrp())
	}
	c.file.Close()
}
