package access

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of the auth file.
const (
	maxPrincipals = 10_000
	maxTokens     = 100 // of a principal, and as many certificates
	maxGrants     = 1000
)

// authFile reads an auth file into a policy.
type authFile struct {
	reader
	policy *policy
	jwt    *jwtSection
	// where each name, token and certificate was first given
	names, tokens, subjects map[string]int
}

// readAuthFile returns what the text says, as far as it could be read, and collects its faults.
func readAuthFile(file string, text []byte) *authFile {
	f := &authFile{
		reader: reader{file: file},
		policy: &policy{bearers: bearers{}, certificates: certificates{}},
		names:  map[string]int{}, tokens: map[string]int{}, subjects: map[string]int{},
	}
	root := f.document(text)
	if root == nil {
		return f
	}
	there := f.object(root, place{line: root.Line}, map[string]field{
		"principals": func(n *yaml.Node, at place) { f.list(n, at, maxPrincipals, f.principal) },
		"jwt":        func(n *yaml.Node, at place) { f.jwt = f.jwtSection(n, at) },
	})
	if there != nil && !there["principals"] && !there["jwt"] {
		f.fault(place{line: root.Line}, "must have principals, jwt or both: as it is, nobody could do anything")
	}
	return f
}

func (f *authFile) principal(n *yaml.Node, at place) {
	p := &Principal{}
	there := f.object(n, at, map[string]field{
		"name":   func(n *yaml.Node, at place) { p.Name = f.name(n, at) },
		"tokens": func(n *yaml.Node, at place) { f.list(n, at, maxTokens, f.token(p)) },
		"certificates": func(n *yaml.Node, at place) {
			f.list(n, at, maxTokens, f.certificate(p))
		},
		"grants": func(n *yaml.Node, at place) {
			f.list(n, at, maxGrants, func(n *yaml.Node, at place) { p.grants = append(p.grants, f.grant(n, at)) })
		},
	})
	f.require(there, at, "name", "grants")
}

func (f *authFile) name(n *yaml.Node, at place) string {
	name := f.text(n, at)
	if name == "" {
		return ""
	}
	if err := CheckName(name); err != nil {
		f.fault(at, "%w", err)
	}
	f.once(f.names, name, at)
	return name
}

func (f *authFile) token(p *Principal) field {
	return func(n *yaml.Node, at place) {
		text := f.text(n, at)
		if text == "" {
			return
		}
		kept, err := parseDigest(text)
		if err != nil {
			f.fault(at, "%w", err)
			return
		}
		f.once(f.tokens, string(kept[:]), at)
		f.policy.bearers[kept] = bearer{kept, p}
	}
}

func (f *authFile) certificate(p *Principal) field {
	return func(n *yaml.Node, at place) {
		text := f.text(n, at)
		if text == "" {
			return
		}
		name, err := parseCertificateName(text)
		if err != nil {
			f.fault(at, "%w", err)
			return
		}
		f.once(f.subjects, name, at)
		f.policy.certificates[name] = p
	}
}

// once tells a fault if the value was given before.
func (f *authFile) once(given map[string]int, value string, at place) {
	if line, before := given[value]; before {
		f.fault(at, "is the same as in line %d", line)
		return
	}
	given[value] = at.line
}

func (f *authFile) grant(n *yaml.Node, at place) grant {
	var g grant
	there := f.object(n, at, map[string]field{
		"prefix": func(n *yaml.Node, at place) { g.prefix = f.prefix(n, at) },
		"rights": func(n *yaml.Node, at place) { g.rights = f.rights(n, at) },
	})
	f.require(there, at, "prefix", "rights")
	return g
}

func (f *authFile) prefix(n *yaml.Node, at place) Prefix {
	text := f.text(n, at)
	if text == "" {
		return ""
	}
	prefix, err := ParsePrefix(text)
	switch {
	case err != nil:
		f.fault(at, "%w", err)
	case strings.Contains(text, valueHere):
		f.fault(at, "may hold %s only in a grant of jwt", valueHere)
	}
	return prefix
}

func (f *authFile) rights(n *yaml.Node, at place) Right {
	var all Right
	for _, text := range f.atLeastOne(n, at, len(rights)) {
		right, known := rights[text]
		if !known && text != "" {
			f.fault(at, "must be of lock, read and admin")
		}
		all |= right.whole()
	}
	return all
}

// require tells which of the fields are missing from an object that was read.
func (r *reader) require(there map[string]bool, at place, fields ...string) {
	for _, name := range fields {
		if there != nil && !there[name] {
			r.fault(at, "has no %s", name)
		}
	}
}
