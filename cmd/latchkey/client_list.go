package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// listCommand is GET /locks, all its pages.
type listCommand struct {
	Name string `arg:"" optional:"" help:"Only the claims on this name."`

	Prefix       string `placeholder:"TEXT" help:"Only the claims on names that begin with this. Not together with NAME."`
	State        string `placeholder:"held|queued" help:"Only the claims in this state."`
	JSON         bool   `name:"json" help:"Print {\"locks\": [...]} on one line, with ids, in place of a table. Whoever knows an id can release the lock."`
	Watch        bool   `short:"w" help:"Print it again when it has changed, until stopped."`
	Every        period `default:"1s" placeholder:"DURATION" help:"How often --watch looks: ${every} (default: ${default})."`
	serviceFlags `embed:""`
}

func (*listCommand) Help() string {
	return "The table has a row for each claim: by name, and by place in line within a name. POSITION counts the claims ahead. " +
		"PRINCIPAL, where the service asks who calls, is what it knows; HOLDER is what the claim says of itself. " +
		"A look keeps no place and renews nothing.\n\n" + durationHelp + clientExitHelp
}

func (c *listCommand) check(bad *faults) {
	if c.Name != "" {
		checkName(bad, c.Name)
	}
	if c.Prefix != "" && c.Name != "" {
		bad.add("prefix", "cannot be used together with NAME")
	} else if len(c.Prefix) > maxNameBytes || strings.ContainsFunc(c.Prefix, unicode.IsControl) {
		bad.add("prefix", "must have up to %d bytes and no control characters, not %q", maxNameBytes, c.Prefix)
	}
	if c.State != "" && c.State != string(latchkey.Held) && c.State != string(latchkey.Queued) {
		bad.add("state", "must be held or queued, not %q", c.State)
	}
	c.Every.within(bad, "every", leastEvery, mostEvery)
	c.serviceFlags.check(bad)
}

func (c *listCommand) run(s surroundings) error {
	client, err := c.client(quiet())
	if err != nil {
		return err
	}
	filter := latchkey.Filter{Name: c.Name, Prefix: c.Prefix, State: latchkey.State(c.State), Limit: listPage}
	before := ""
	for {
		claims, err := listAll(s.stop, client, filter)
		if err != nil {
			return clientEnd(s.stop, err)
		}
		var text strings.Builder
		if c.JSON {
			err = printJSON(&text, latchkey.ClaimList{Locks: claims})
		} else {
			err = printTable(&text, claims)
		}
		if err != nil {
			return err
		}
		if now := text.String(); now != before {
			if before != "" && !c.JSON {
				now = between(s.stdout) + now
			}
			if _, err := io.WriteString(s.stdout, now); err != nil {
				return notTold(err)
			}
			before = text.String()
		}
		if !c.Watch {
			return nil
		}
		if err := pause(s.stop, c.Every.Duration); err != nil {
			return clientEnd(s.stop, err)
		}
	}
}

// listPage is the most that the service puts into one page.
const listPage = 1000

func listAll(ctx context.Context, client *latchkey.Client, filter latchkey.Filter) ([]latchkey.Claim, error) {
	claims := []latchkey.Claim{}
	for claim, err := range client.All(ctx, filter) {
		if err != nil {
			return nil, err
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// between stands between two tables: on a terminal the second takes the place of the first.
func between(to io.Writer) string {
	if file, is := to.(*os.File); is {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return "\x1b[H\x1b[2J\x1b[3J"
		}
	}
	return "\n"
}

// printTable prints claims for people. It leaves the ids out, as whoever knows one can release the lock.
func printTable(to io.Writer, claims []latchkey.Claim) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	principals := slices.ContainsFunc(claims, func(c latchkey.Claim) bool { return c.Principal != "" })
	who := func(principal, holder string) string {
		if principals {
			return principal + "\t" + holder
		}
		return holder
	}
	fmt.Fprintf(table, "NAME\tSTATE\tPOSITION\tTOKEN\tTTL\t%s\n", who("PRINCIPAL", "HOLDER"))
	for _, c := range claims {
		token := "-"
		if c.FencingToken != 0 {
			token = strconv.FormatInt(c.FencingToken, 10)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\n", shown(c.Name), c.State, c.Position, token, short(time.Duration(c.TTLSeconds)*time.Second), who(shown(c.Principal), shown(c.Holder)))
	}
	return table.Flush()
}

// shown is somebody else's text as a terminal may see it: what is not printed plainly is quoted.
func shown(text string) string {
	if text == "" {
		return "-"
	}
	for _, r := range text {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return strconv.Quote(text)
		}
	}
	return text
}
