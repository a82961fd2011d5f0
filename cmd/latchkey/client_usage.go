package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// misuse says what is wrong with a command line that is not understood, and where to read on.
func misuse(failed *kong.ParseError) error {
	node := failed.Context.Selected()
	if node == nil {
		node = failed.Context.Model.Node
	}
	path := failed.Context.Path
	return fmt.Errorf("%w; see %s --help", wrongWith(failed, node, path[len(path)-1].Remainder()), node.FullPath())
}

// wrongWith is told of a command, and of what of its command line was not read any more.
func wrongWith(failed error, node *kong.Node, rest []string) error {
	flag := valueless(node, rest)
	switch {
	case flag != nil && flag.PlaceHolder == "DURATION":
		return fmt.Errorf("--%s needs a value, such as 5m", flag.Name)
	case flag != nil:
		return fmt.Errorf("--%s needs a value: --%s=%s", flag.Name, flag.Name, flag.FormatPlaceHolder())
	case node.Leaf():
		return failed
	case len(rest) == 0:
		return fmt.Errorf("a command is missing: %s", commandNames(node))
	case !strings.HasPrefix(rest[0], "-"):
		return fmt.Errorf("there is no command %q, but %s", rest[0], commandNames(node))
	}
	given, _, _ := strings.Cut(rest[0], "=")
	if owner := firstWith(node, given); owner != nil {
		return fmt.Errorf("unknown flag %s: the flags of a command come after it, as in %s %s", given, owner.FullPath(), given)
	}
	return failed
}

// firstWith is the first command below node that has a flag, given as - and a letter or -- and its name.
func firstWith(node *kong.Node, given string) *kong.Node {
	for _, child := range node.Leaves(true) {
		for _, f := range child.Flags {
			if given == "--"+f.Name || f.Short != 0 && given == "-"+string(f.Short) {
				return child
			}
		}
	}
	return nil
}

// valueless is the flag that stands first in rest, if it takes a value and nothing follows that may be one.
func valueless(node *kong.Node, rest []string) *kong.Flag {
	if len(rest) == 0 || len(rest) > 1 && !strings.HasPrefix(rest[1], "-") {
		return nil
	}
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if !f.IsBool() && (rest[0] == "--"+f.Name || f.Short != 0 && rest[0] == "-"+string(f.Short)) {
				return f
			}
		}
	}
	return nil
}

func commandNames(node *kong.Node) string {
	var names []string
	for _, child := range node.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return strings.Join(names, ", ")
}

// badStart is why the command chosen cannot begin; it is nil if none was chosen. Commands of the service end with another code
// than all others.
func badStart(chosen command, cause error) error {
	if failed := (*kong.ParseError)(nil); errors.As(cause, &failed) {
		cause = misuse(failed)
	}
	if _, is := chosen.(clientCommand); is || chosen == nil {
		return &exitError{exitUsage, cause}
	}
	return &startError{cause}
}
