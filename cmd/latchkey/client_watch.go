package main

import (
	"fmt"
	"io"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// watchCommand tells what becomes of one name.
type watchCommand struct {
	Name string `arg:"" help:"The name to watch."`

	JSON         bool   `name:"json" help:"Print each state as one line of JSON: when, holder, fencing_token, waiting."`
	Every        period `default:"1s" placeholder:"DURATION" help:"How often to look: ${every} (default: ${default}). What comes and goes between two looks is not told."`
	serviceFlags `embed:""`
}

func (*watchCommand) Help() string {
	return "A line for the present state and for each change, until stopped. A look keeps no place and renews nothing.\n\n" + durationHelp + clientExitHelp
}

func (c *watchCommand) check(bad *faults) {
	checkName(bad, c.Name)
	c.Every.within(bad, "every", leastEvery, mostEvery)
	c.serviceFlags.check(bad)
}

func (c *watchCommand) run(s surroundings) error {
	client, err := c.client(quiet())
	if err != nil {
		return err
	}
	for before := (*nameState)(nil); ; {
		claims, err := listAll(s.stop, client, latchkey.Filter{Name: c.Name, Limit: listPage})
		if err != nil {
			return clientEnd(s.stop, err)
		}
		if now := stateOf(claims); before == nil || now != *before {
			before = &now
			if err := c.tell(s.stdout, now); err != nil {
				return notTold(err)
			}
		}
		if err := pause(s.stop, c.Every.Duration); err != nil {
			return clientEnd(s.stop, err)
		}
	}
}

func (c *watchCommand) tell(to io.Writer, now nameState) error {
	at := time.Now().UTC().Format(time.RFC3339)
	if c.JSON {
		return printJSON(to, struct {
			When string `json:"when"`
			nameState
		}{at, now})
	}
	_, err := fmt.Fprintf(to, "%s %s\n", at, now)
	return err
}

// nameState is who holds a name, and how many wait for it.
type nameState struct {
	Holder       string `json:"holder,omitempty"`
	FencingToken int64  `json:"fencing_token,omitempty"` // 0: nobody holds it
	Waiting      int    `json:"waiting"`
}

func stateOf(claims []latchkey.Claim) (s nameState) {
	for _, c := range claims {
		if c.State == latchkey.Held {
			s.Holder, s.FencingToken = c.Holder, c.FencingToken
		} else {
			s.Waiting++
		}
	}
	return s
}

func (s nameState) String() string {
	if s.FencingToken == 0 {
		return fmt.Sprintf("free, %d waiting", s.Waiting)
	}
	return fmt.Sprintf("held by %s with token %d, %d waiting", shown(s.Holder), s.FencingToken, s.Waiting)
}
