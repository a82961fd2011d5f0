package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

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
		"same way.\n\n" + clientExitHelp
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
		return printJSON(s.stdout, lease)
	}
	return nil
}

// releaseCommand is DELETE /locks/{id}.
type releaseCommand struct {
	claimID      `embed:""`
	serviceFlags `embed:""`
}

func (*releaseCommand) Help() string {
	return "When an answer was lost and the request is sent again, 76 can also mean that the first try released it.\n\n" + clientExitHelp
}

func (c *releaseCommand) check(bad *faults) {
	c.claimID.check(bad)
	c.serviceFlags.check(bad)
}

func (c *releaseCommand) run(s surroundings) error {
	client, err := c.client(quiet())
	if err != nil {
		return err
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
	return "A look keeps no place and renews nothing. The exit code tells the state: 0 held, 75 queued, 76 gone.\n\n" + clientExitHelp
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
	return err
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
