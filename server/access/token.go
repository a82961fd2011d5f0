package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	tokenMark   = "lk_"
	tokenRandom = 32 // bytes
	digestMark  = "sha256:"
)

// tokenLength is that of every token, in bytes.
var tokenLength = len(tokenMark) + base64.RawURLEncoding.EncodedLen(tokenRandom)

type digest [sha256.Size]byte

// NewToken makes a token, and what the auth file keeps of it. The token is told to its bearer and kept nowhere: with its 256
// random bits a plain SHA-256 of its text is as good as a slow hash.
func NewToken() (token, kept string) {
	var random [tokenRandom]byte
	rand.Read(random[:]) // never fails
	token = tokenMark + base64.RawURLEncoding.EncodeToString(random[:])
	sum := sha256.Sum256([]byte(token))
	return token, digestMark + hex.EncodeToString(sum[:])
}

// isToken tells tokens that we make from all other credentials, so that nobody's password is ever taken for one.
func isToken(text string) bool {
	return len(text) == tokenLength && strings.HasPrefix(text, tokenMark)
}

// parseDigest reads what the auth file keeps of a token. Its error does not repeat the text.
func parseDigest(text string) (d digest, err error) {
	if strings.HasPrefix(text, tokenMark) {
		return d, fmt.Errorf("is a token itself, and whoever has read it has it now: make another with \"latchkey token new\", and put its %s… here", digestMark)
	}
	digits, marked := strings.CutPrefix(text, digestMark)
	if sum, err := hex.DecodeString(digits); marked && err == nil && len(sum) == len(d) {
		return digest(sum), nil
	}
	return d, fmt.Errorf("must be %s and %d hexadecimal digits, as \"latchkey token new\" prints it", digestMark, 2*len(d))
}

// bearer is the principal of a token that we made.
type bearer struct {
	kept      digest
	principal *Principal
}

type bearers map[digest]bearer

// who returns nil if nobody has the token. The map is asked for a hash that nobody can choose; the comparison behind it takes
// the same time for any two.
func (b bearers) who(token string) *Principal {
	sum := digest(sha256.Sum256([]byte(token)))
	found := b[sum]
	if found.principal == nil || subtle.ConstantTimeCompare(found.kept[:], sum[:]) != 1 {
		return nil
	}
	return found.principal
}
