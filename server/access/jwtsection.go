package access

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of the section jwt.
const (
	maxAudiences = 16
	maxClaimName = 256 // bytes
	maxClaimText = 1024
)

// valueHere is replaced, in the prefix of a grant of jwt, by a value of the claim.
const valueHere = "{value}"

// algorithms are those that a JWT may be signed by. There is none with a shared secret: the issuer's keys are public, and so
// would its secret be.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// jwtSection is that of the auth file.
type jwtSection struct {
	issuer         string
	audiences      []string
	keysURL        string
	keysFile       string
	algorithms     []string
	principalClaim string
	grants         []claimGrant
}

// claimGrant is given to those whose claim has the value, or any value.
type claimGrant struct {
	claim, value string
	prefix       string
	rights       Right
}

func (f *authFile) jwtSection(n *yaml.Node, at place) *jwtSection {
	s := &jwtSection{algorithms: []string{"RS256", "ES256"}, principalClaim: "sub"}
	there := f.object(n, at, map[string]field{
		"issuer":          func(n *yaml.Node, at place) { s.issuer = f.short(n, at, maxClaimText) },
		"audience":        func(n *yaml.Node, at place) { s.audiences = f.atLeastOne(n, at, maxAudiences) },
		"jwks_url":        func(n *yaml.Node, at place) { s.keysURL = f.keysURL(n, at) },
		"jwks_file":       func(n *yaml.Node, at place) { s.keysFile = f.text(n, at) },
		"algorithms":      func(n *yaml.Node, at place) { s.algorithms = f.algorithms(n, at) },
		"principal_claim": func(n *yaml.Node, at place) { s.principalClaim = f.short(n, at, maxClaimName) },
		"grants": func(n *yaml.Node, at place) {
			f.list(n, at, maxGrants, func(n *yaml.Node, at place) { s.grants = append(s.grants, f.claimGrant(n, at)) })
		},
	})
	f.require(there, at, "issuer", "audience", "grants")
	if there != nil && there["jwks_url"] == there["jwks_file"] {
		f.fault(at, "must have one of jwks_url and jwks_file")
	}
	return s
}

// short is text of at most so many bytes.
func (r *reader) short(n *yaml.Node, at place, most int) string {
	text := r.text(n, at)
	if len(text) > most {
		r.fault(at, "must be at most %d bytes", most)
	}
	return text
}

func (r *reader) atLeastOne(n *yaml.Node, at place, most int) []string {
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		r.fault(at, "must not be empty")
	}
	return r.texts(n, at, most)
}

func (f *authFile) algorithms(n *yaml.Node, at place) []string {
	chosen := f.atLeastOne(n, at, len(algorithms))
	for _, name := range chosen {
		if name != "" && !slices.Contains(algorithms, name) {
			f.fault(at, "must be of %s", strings.Join(algorithms, ", "))
			break
		}
	}
	return chosen
}

func (f *authFile) keysURL(n *yaml.Node, at place) string {
	text := f.short(n, at, maxClaimText)
	if text == "" {
		return ""
	}
	if err := checkKeysURL(text); err != nil {
		f.fault(at, "%w", err)
	}
	return text
}

// checkKeysURL wants a line on which nobody can put keys of their own. The error does not repeat the URL, as it may have a
// password.
func checkKeysURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return errors.New("must be a URL with a host, and without a user")
	case u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	}
	return errors.New("must begin with https://, or with http:// on this machine's loopback address")
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (f *authFile) claimGrant(n *yaml.Node, at place) claimGrant {
	var g claimGrant
	there := f.object(n, at, map[string]field{
		"claim":  func(n *yaml.Node, at place) { g.claim = f.short(n, at, maxClaimName) },
		"value":  func(n *yaml.Node, at place) { g.value = f.short(n, at, maxClaimText) },
		"prefix": func(n *yaml.Node, at place) { g.prefix = f.claimPrefix(n, at) },
		"rights": func(n *yaml.Node, at place) { g.rights = f.rights(n, at) },
	})
	f.require(there, at, "claim", "prefix", "rights")
	return g
}

// claimPrefix reads a prefix that may hold {value}, and no other brace: that would be a slip of the pen.
func (f *authFile) claimPrefix(n *yaml.Node, at place) string {
	text := f.text(n, at)
	if text == "" {
		return ""
	}
	if _, err := ParsePrefix(text); err != nil {
		f.fault(at, "%w", err)
	}
	if strings.ContainsAny(strings.ReplaceAll(text, valueHere, ""), "{}") {
		f.fault(at, "must not have braces but %s", valueHere)
	}
	return text
}
