package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/latchkey/latchkey/server/access"
)

type tokenCommands struct {
	New newToken `cmd:"" help:"Print a new token, and on standard error what the auth file is to have of it. The token is kept nowhere: who loses it makes another."`
}

// newToken has its two outputs apart, so that token=$(latchkey token new NAME) is the token and shows the rest.
type newToken struct {
	Name string `arg:"" optional:"" help:"The principal whose entry of the auth file is to be printed too, such as ci."`
}

func (c *newToken) check(bad *faults) {
	if c.Name == "" {
		return
	}
	if err := access.CheckName(c.Name); err != nil {
		bad.arg("NAME", "%v", err)
	}
}

func (c *newToken) run(s surroundings) error {
	token, kept := access.NewToken()
	if _, err := fmt.Fprintln(s.stdout, token); err != nil {
		return err // whoever did not get the token has no use for the rest
	}
	const told = "# Tell the token to its bearer only: it is shown this once. Requests carry it as\n#   Authorization: Bearer TOKEN\n"
	if c.Name == "" {
		_, err := fmt.Fprintf(s.stderr, told+"# The auth file keeps this, among the tokens of its principal:\n      - %s\n", kept)
		return err
	}
	name, err := json.Marshal(c.Name) // is YAML too
	if err != nil {
		return err
	}
	prefix, err := json.Marshal(strings.ReplaceAll(c.Name, "*", "-")) // a star would make it wider than the name
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.stderr, told+`# The auth file keeps this, under principals:
  - name: %s
    tokens:
      - %s
    grants:
      # the names of locks it is for: this one, and those that begin with it and a slash; "*" would be every name, others' too
      - prefix: %s
        rights: [lock, read]
`, name, kept, prefix)
	return err
}
