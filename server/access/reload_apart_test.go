package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAFaultOfOneFileDoesNotFreezeTheOther: what was taken away in the one is gone, whatever is wrong with the other.
func TestAFaultOfOneFileDoesNotFreezeTheOther(t *testing.T) {
	old, next := newSigner(t, "old"), newSigner(t, "next")
	token, kept := NewToken()
	with := jwtFile + ciFile(kept)
	for name, spoil := range map[string]func(*testing.T, *gateOf){
		"a slip of the pen": func(t *testing.T, g *gateOf) { g.write(t, authName, with+"\n  typo here") },
		"a fault of the jwt": func(t *testing.T, g *gateOf) {
			g.write(t, authName, strings.Replace(with, "keys.json", "elsewhere.json\n  typo: x", 1))
		},
		"no file": func(t *testing.T, g *gateOf) {
			if err := os.Remove(filepath.Join(g.dir, authName)); err != nil {
				t.Fatal(err)
			}
		},
		"it was faulty already with other keys": func(t *testing.T, g *gateOf) {
			g.write(t, authName, "principals: [")
			g.write(t, "keys.json", "{}")
		},
	} {
		t.Run("the keys change beside "+name, func(t *testing.T) {
			g := open(t, with, "keys.json", keySetOf(t, old.jwk()))
			spoil(t, g)
			g.look()
			g.wantName(t, "Bearer "+old.sign(t, claimsWith(nil)), "jwt:ann")
			g.write(t, "keys.json", keySetOf(t, next.jwk()))
			for range 3 {
				g.look()
			}
			g.wantName(t, "Bearer "+next.sign(t, claimsWith(nil)), "jwt:ann")
			g.wantName(t, "Bearer "+token, "ci")
			p, err := g.ask("Bearer " + old.sign(t, claimsWith(nil)))
			wantError(t, "by a key that was withdrawn", p, err, ErrBadCredentials)
			g.wantReloads(t, "0", "2", "1") // each content is read once, and the auth file is still to be mended

			g.write(t, authName, with)
			g.look()
			g.wantName(t, "Bearer "+next.sign(t, claimsWith(nil)), "jwt:ann")
			g.wantReloads(t, "1", "2", "0")
		})
	}
	t.Run("the auth file changes beside faulty keys", func(t *testing.T) {
		g := open(t, with, "keys.json", keySetOf(t, old.jwk()))
		g.write(t, "keys.json", "{}")
		g.look()
		g.write(t, authName, jwtFile)
		for range 3 {
			g.look()
		}
		p, err := g.ask("Bearer " + token)
		wantError(t, "a token that was taken away", p, err, ErrBadCredentials)
		g.wantName(t, "Bearer "+old.sign(t, claimsWith(nil)), "jwt:ann")
		g.wantReloads(t, "0", "2", "1")
		g.write(t, "keys.json", keySetOf(t, next.jwk()))
		g.look()
		g.wantName(t, "Bearer "+next.sign(t, claimsWith(nil)), "jwt:ann")
		g.wantReloads(t, "1", "2", "0")
	})
	t.Run("other keys are named, and are faulty", func(t *testing.T) {
		g := open(t, with, "keys.json", keySetOf(t, old.jwk()))
		g.write(t, authName, strings.Replace(jwtFile, "keys.json", "elsewhere.json", 1))
		g.look()
		g.wantName(t, "Bearer "+token, "ci") // nothing says whose keys the new issuer has
		g.wantName(t, "Bearer "+old.sign(t, claimsWith(nil)), "jwt:ann")
		g.write(t, "elsewhere.json", keySetOf(t, next.jwk()))
		g.look()
		g.wantName(t, "Bearer "+next.sign(t, claimsWith(nil)), "jwt:ann")
		p, err := g.ask("Bearer " + token)
		wantError(t, "a token that was taken away", p, err, ErrBadCredentials)
		g.wantReloads(t, "1", "1", "0")
	})
}
