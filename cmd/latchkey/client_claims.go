package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// renewCommand is PUT /leases/{id}.
type renewCommand struct {
	claimID      `embed:""`
	JSON         bool `name:"json" help:"Print the service's answer."`
	serviceFlags `embed:""`
}

func (*renewCommand) Help() string {
	return "The TTL counts from when this was called. Renew every third of it. A lease of one's own is renewed by its id in the " +
		"same way.\n\n" + durationHelp + clientExitHelp
}

func (c *renewCommand) check(bad *faults) {
	c.claimID.check(bad)
	c.serviceFlags.check(bad)
}

func (c *renewCommand) run(s surroundings) error {
	client, err := c.client(quiet())
	if err != nil {
		return err
	}
	lease, err := client.Renew(s.stop, c.ID)
	if err != nil {
		return clientEnd(s.stop, err)
	}
	if c.JSON {
		return notTold(printJSON(s.stdout, lease))
	}
	return nil
}

const mostReasonBytes = 255

// releaseCommand is DELETE /locks/{id}.
type releaseCommand struct {
	claimID      `embed:""`
	Reason       *string `placeholder:"TEXT" help:"Break another's lock, for administrators: 1 to 255 bytes without control characters, which the holder is told. The next in line is granted the lock at once."`
	serviceFlags `embed:""`
}

func (*releaseCommand) Help() string {
	return "Only a lock of one's own is released, unless there is a --reason: with that, and \"admin\" on its name, anybody's is broken. " +
		"\"list --json\" tells administrators the ids.\n\nWhen an answer was lost and the request is sent again, 76 can also mean that the first try released it.\n\n" + durationHelp + clientExitHelp
}

func (c *releaseCommand) check(bad *faults) {
	c.claimID.check(bad)
	if r := c.Reason; r != nil && (*r == "" || len(*r) > mostReasonBytes || !utf8.ValidString(*r) || strings.ContainsFunc(*r, unicode.IsControl)) {
		bad.add("reason", "must have 1 to %d bytes of UTF-8 and no control characters, not %q", mostReasonBytes, *r)
	}
	c.serviceFlags.check(bad)
}

func (c *releaseCommand) run(s surroundings) error {
	client, err := c.client(quiet())
	if err != nil {
		return err
	}
	if c.Reason != nil {
		return clientEnd(s.stop, client.Break(s.stop, c.ID, *c.Reason))
	}
	return clientEnd(s.stop, client.Release(s.stop, c.ID))
}

// getCommand is GET /locks/{id}.
type getCommand struct {
	claimID      `embed:""`
	JSON         bool `name:"json" help:"Print the service's answer."`
	serviceFlags `embed:""`
}

func (*getCommand) Help() string {
	return "A look keeps no place and renews nothing. The exit code tells the state: 0 held, 75 queued, 76 gone.\n\n" + durationHelp + clientExitHelp
}

func (c *getCommand) check(bad *faults) {
	c.claimID.check(bad)
	c.serviceFlags.check(bad)
}

func (c *getCommand) run(s surroundings) error {
	client, err := c.client(quiet())
	if err != nil {
		return err
	}
	claim, err := client.Get(s.stop, c.ID)
	if err != nil {
		return clientEnd(s.stop, err)
	}
	if c.JSON {
		err = printJSON(s.stdout, claim)
	} else {
		err = printTable(s.stdout, []latchkey.Claim{claim})
	}
	if err == nil && claim.State != latchkey.Held {
		return &exitError{exitNotAcquired, nil}
	}
	return notTold(err)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// printJSON prints what a program reads, on one line.
func printJSON(to io.Writer, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to, "%s\n", text)
	return err
}
