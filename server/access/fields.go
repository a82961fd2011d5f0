package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFaults is how many faults of a file are told together.
const maxFaults = 50

// reader reads a document of YAML, or of JSON, and collects all that is wrong with it. What it says repeats no value.
type reader struct {
	file   string
	faults []error
	more   int
}

// place is where something stands in a file.
type place struct {
	line int
	path string // such as principals[0].name
}

func (r *reader) fault(at place, format string, args ...any) {
	if len(r.faults) == maxFaults {
		r.more++
		return
	}
	where := r.file
	if at.line > 0 {
		where += fmt.Sprintf(":%d", at.line)
	}
	if at.path != "" {
		where += ": " + at.path
	}
	r.faults = append(r.faults, fmt.Errorf("%s: %w", where, fmt.Errorf(format, args...)))
}

// err is nil if there was no fault.
func (r *reader) err() error {
	if r.more > 0 {
		return errors.Join(append(r.faults, fmt.Errorf("%s: and %d faults more", r.file, r.more))...)
	}
	return errors.Join(r.faults...)
}

// document returns the one value of the text, or nil after a fault.
func (r *reader) document(text []byte) *yaml.Node {
	if json.Valid(text) {
		text = bytes.ReplaceAll(text, []byte("\t"), []byte(" ")) // in JSON a tab can only be space, but not all of YAML likes it
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root, rest yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		r.fault(place{}, "is empty")
		return nil
	case err != nil:
		r.fault(place{}, "%s", sayYAML(err))
		return nil
	}
	if err := decoder.Decode(&rest); !errors.Is(err, io.EOF) {
		r.fault(place{line: rest.Line}, "has more than one document")
		return nil
	}
	return root.Content[0]
}

// sayYAML says what the parser says, but for the one thing in which it repeats the text.
func sayYAML(err error) string {
	said := strings.TrimPrefix(err.Error(), "yaml: ")
	switch {
	case strings.Contains(said, "anchor"):
		return "is not YAML: an alias without its anchor (a text that begins with * must be in quotes)"
	case strings.Contains(said, "alphabetic or numeric"):
		return "is not YAML: " + said + " (a text that begins with * or & must be in quotes)"
	}
	return "is not YAML: " + said
}

// field reads one value.
type field func(value *yaml.Node, at place)

// object reads a mapping, whose fields are those known and no others, each once. It says which were there.
func (r *reader) object(n *yaml.Node, at place, known map[string]field) (there map[string]bool) {
	if n.Kind != yaml.MappingNode {
		r.other(n, at, "a mapping of fields")
		return nil
	}
	there = map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := known[key.Value]
		in := place{key.Line, strings.TrimPrefix(at.path+"."+key.Value, ".")}
		switch {
		case key.Kind != yaml.ScalarNode || read == nil:
			r.fault(place{key.Line, at.path}, "has a field that is not known%s", shown(key))
		case there[key.Value]:
			r.fault(in, "is given twice")
		default:
			there[key.Value] = true
			read(value, in)
		}
	}
	return there
}

var plainName = regexp.MustCompile(`^[a-zA-Z_-]{1,24}$`)

// shown is the name of a field that is not known, if it cannot be a secret that was put in the wrong place.
func shown(key *yaml.Node) string {
	if key.Kind == yaml.ScalarNode && plainName.MatchString(key.Value) {
		return ": " + key.Value
	}
	return ""
}

// list reads a sequence of at most so many items.
func (r *reader) list(n *yaml.Node, at place, most int, item field) {
	switch {
	case n.Kind != yaml.SequenceNode:
		r.other(n, at, "a list")
	case len(n.Content) > most:
		r.fault(at, "must have at most %d items, and has %d", most, len(n.Content))
	default:
		for i, value := range n.Content {
			item(value, place{value.Line, fmt.Sprintf("%s[%d]", at.path, i)})
		}
	}
}

// text reads a scalar that is text and not empty; it returns "" after a fault.
func (r *reader) text(n *yaml.Node, at place) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		r.other(n, at, "text")
	case n.ShortTag() != "!!str":
		r.fault(at, "must be text: put it in quotes")
	case n.Value == "":
		r.fault(at, "must not be empty")
	default:
		return n.Value
	}
	return ""
}

// other tells that a value is of another kind than it must be.
func (r *reader) other(n *yaml.Node, at place, kind string) {
	if n.Kind == yaml.AliasNode {
		r.fault(at, "is an alias, and those are not followed: a text that begins with * must be in quotes")
		return
	}
	r.fault(at, "must be %s", kind)
}

// texts reads a list of texts, or one text for a list of one.
func (r *reader) texts(n *yaml.Node, at place, most int) []string {
	if n.Kind == yaml.ScalarNode {
		return []string{r.text(n, at)}
	}
	var all []string
	r.list(n, at, most, func(n *yaml.Node, at place) { all = append(all, r.text(n, at)) })
	return all
}
