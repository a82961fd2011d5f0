package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// ClockLeeway is how much earlier than its nbf a JWT is taken, for clocks that differ. There is none for its exp.
const ClockLeeway = time.Minute

const (
	errSignature refusal = "the signature of the JWT is by none of the issuer's keys"
	errIssuer    refusal = "the JWT is of another issuer"
	errAudience  refusal = "the JWT is for another audience"
	errTooEarly  refusal = "the JWT is not valid yet"
	errExpired   refusal = "the JWT has expired, or has no exp"
)

var errPrincipal = refusal(fmt.Sprintf("the JWT's principal claim is not 1 to %d bytes of printable text", maxPrincipalClaim))

// keys are those of the issuer.
type keys interface {
	// verify returns the payload, errSignature, or ErrCannotTell if the key may be one that could not be fetched.
	verify(context.Context, *jose.JSONWebSignature) ([]byte, error)
}

// issuer makes JWTs that are taken as credentials.
type issuer struct {
	section *jwtSection
	keys    keys
	now     func() time.Time
}

// who is the principal of a JWT.
func (i *issuer) who(ctx context.Context, jwt string) (*Principal, error) {
	proof := &proof{issuer: i}
	verifier := oidc.NewVerifier(i.section.issuer, proof, &oidc.Config{
		SupportedSigningAlgs: i.section.algorithms,
		SkipClientIDCheck:    true, // there may be several
		Now:                  i.now,
	})
	token, err := verifier.Verify(ctx, jwt)
	var expired *oidc.TokenExpiredError
	switch {
	case proof.err != nil:
		return nil, proof.err // the library keeps only its text
	case errors.As(err, &expired):
		return nil, errExpired
	case err != nil:
		return nil, err
	case !slices.ContainsFunc(token.Audience, func(a string) bool { return slices.Contains(i.section.audiences, a) }):
		return nil, errAudience
	case !proof.claims.validAt(i.now()):
		return nil, errTooEarly
	}
	name, ok := proof.claims.text(i.section.principalClaim)
	if !ok || !isPrincipalClaim(name) {
		return nil, errPrincipal
	}
	return &Principal{jwtMark + name, i.section.grantsOf(proof.claims)}, nil
}

// proof checks a signature when the library asks for that, and keeps what came of it.
type proof struct {
	issuer *issuer
	claims claims
	err    error
}

// VerifySignature returns the payload of a JWT that the issuer has signed.
func (p *proof) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	var payload []byte
	payload, p.err = p.verify(ctx, jwt)
	return payload, p.err
}

func (p *proof) verify(ctx context.Context, jwt string) ([]byte, error) {
	allowed := make([]jose.SignatureAlgorithm, len(p.issuer.section.algorithms))
	for i, name := range p.issuer.section.algorithms {
		allowed[i] = jose.SignatureAlgorithm(name)
	}
	signed, err := jose.ParseSignedCompact(jwt, allowed)
	if err != nil {
		return nil, err
	}
	if p.claims, err = readClaims(signed.UnsafePayloadWithoutVerification()); err != nil {
		return nil, err
	}
	// first, so that nobody waits for the keys of this issuer on account of another's JWT
	if from, _ := p.claims.text("iss"); from != p.issuer.section.issuer {
		return nil, errIssuer
	}
	return p.issuer.keys.verify(ctx, signed)
}

// fixedKeys are those of a file.
type fixedKeys keyring

func (k fixedKeys) verify(_ context.Context, signed *jose.JSONWebSignature) ([]byte, error) {
	payload, verified, _ := keyring(k).verify(signed)
	if !verified {
		return nil, errSignature
	}
	return payload, nil
}

// fixedKeys reads those of a key file: all of it must be good, as somebody has written it for us.
func (r *reader) fixedKeys(text []byte, err error) fixedKeys {
	if err != nil {
		r.fault(place{}, "%w", err)
		return nil
	}
	ring, unusable, err := readKeyring(text)
	switch {
	case err != nil:
		r.fault(place{}, "%w", err)
	case len(ring)+len(unusable) == 0:
		r.fault(place{}, "has no key for signatures")
	}
	for _, err := range unusable {
		r.fault(place{}, "%w", err)
	}
	return fixedKeys(ring)
}
