package access

import (
	"context"
	"strings"
)

// MaxAuthorization is how long an Authorization header may be, in bytes.
const MaxAuthorization = 8 << 10

// policy is what the files say at one time.
type policy struct {
	bearers      bearers
	certificates certificates
	jwt          *issuer // nil: none are taken
}

const (
	errScheme       refusal = "the scheme of the credentials is not Bearer"
	errTooLong      refusal = "the credentials are too long"
	errNobodysToken refusal = "no principal has the token"
	errNoIssuer     refusal = "the credentials are none of our tokens, and no JWTs are taken"
)

// section is that of the JWTs that are taken, or nil.
func (p *policy) section() *jwtSection {
	if p.jwt == nil {
		return nil
	}
	return p.jwt.section
}

// authorized is who sent an Authorization header with this value.
func (p *policy) authorized(ctx context.Context, value string) (*Principal, error) {
	if len(value) > MaxAuthorization {
		return nil, errTooLong
	}
	scheme, credentials, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, errScheme
	}
	credentials = strings.TrimLeft(credentials, " ")
	switch {
	case isToken(credentials):
		if found := p.bearers.who(credentials); found != nil {
			return found, nil
		}
		return nil, errNobodysToken
	case p.jwt == nil:
		return nil, errNoIssuer
	}
	return p.jwt.who(ctx, credentials)
}
