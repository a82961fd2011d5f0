package main

import (
	"io"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

// completionCommands print scripts for shells. They are made from the grammar, so they know every command and flag.
type completionCommands struct {
	Bash bashCompletion `cmd:"" help:"For bash: source <(latchkey completion bash)"`
	Zsh  zshCompletion  `cmd:"" help:"For zsh: latchkey completion zsh > a directory of $$fpath/_latchkey"`
	Fish fishCompletion `cmd:"" help:"For fish: latchkey completion fish > ~/.config/fish/completions/latchkey.fish"`
}

type (
	bashCompletion struct{ completion }
	zshCompletion  struct{ completion }
	fishCompletion struct{ completion }
)

// completion is what the three have in common.
type completion struct{}

func (completion) ofClient() {}

// ofClient says only that its exit codes are those.
func (*versionCommand) ofClient() {}

func (completion) check(*faults) {}

func (*bashCompletion) run(s surroundings) error { return complete(s.stdout, bashScript) }
func (*zshCompletion) run(s surroundings) error  { return complete(s.stdout, zshScript) }
func (*fishCompletion) run(s surroundings) error { return complete(s.stdout, fishScript) }

func complete(to io.Writer, script string) error {
	parser, err := grammar(io.Discard, io.Discard)
	if err != nil {
		return err
	}
	text, err := template.New("").Funcs(template.FuncMap{"quote": shellQuote}).Parse(script)
	if err != nil {
		return err
	}
	return text.Execute(to, completable(parser.Model.Node, ""))
}

// completed is a command as the scripts want it.
type completed struct {
	Path     string // without the program's name, empty for the program itself
	Parent   string
	Name     string
	Help     string
	Flags    []completedFlag
	Children []completed
	Runs     bool // what follows is another command line
}

type completedFlag struct {
	Name    string
	Short   string // one letter, or empty
	Help    string
	Takes   bool     // a value
	Choices []string // of which the value is one, if there are such
}

func completable(n *kong.Node, parent string) completed {
	c := completed{Parent: parent, Name: n.Name, Help: firstSentence(n.Help)}
	if n.Type == kong.CommandNode {
		c.Path = strings.TrimSpace(parent + " " + n.Name)
	}
	for _, arg := range n.Positional {
		c.Runs = c.Runs || arg.Passthrough
	}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			flag := completedFlag{Name: f.Name, Help: firstSentence(f.Help), Takes: !f.IsBool()}
			if f.Short != 0 {
				flag.Short = string(f.Short)
			}
			if strings.Contains(f.PlaceHolder, "|") {
				flag.Choices = strings.Split(f.PlaceHolder, "|")
			}
			c.Flags = append(c.Flags, flag)
		}
	}
	for _, child := range n.Children {
		if !child.Hidden {
			c.Children = append(c.Children, completable(child, c.Path))
		}
	}
	return c
}

// All are the command and those below it.
func (c completed) All() []completed {
	all := []completed{c}
	for _, child := range c.Children {
		all = append(all, child.All()...)
	}
	return all
}

func firstSentence(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	first, _, _ = strings.Cut(first, ": ")
	return strings.TrimSuffix(first, ".")
}

// shellQuote is for all three shells, as long as the text has no backslash and no quote.
func shellQuote(text string) string {
	return "'" + strings.Map(func(r rune) rune {
		if r == '\'' || r == '\\' {
			return '`'
		}
		return r
	}, text) + "'"
}
