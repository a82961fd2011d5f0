package access

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func (g *gateOf) wantReloads(t *testing.T, applied, refused, stale string) {
	t.Helper()
	want := `
# HELP latchkey_auth_reloads_total Times that the auth file, or the key file that it names, was read anew; refused where the earlier content stays in force.
# TYPE latchkey_auth_reloads_total counter
latchkey_auth_reloads_total{outcome="applied"} ` + applied + `
latchkey_auth_reloads_total{outcome="refused"} ` + refused + `
# HELP latchkey_auth_stale 1 while an earlier content of the auth files is in force, as the present one is faulty; else 0.
# TYPE latchkey_auth_stale gauge
latchkey_auth_stale ` + stale + `
`
	if err := testutil.GatherAndCompare(g.registry, strings.NewReader(want), "latchkey_auth_reloads_total", "latchkey_auth_stale"); err != nil {
		t.Error(err)
	}
}

func TestReload(t *testing.T) {
	first, firstKept := NewToken()
	second, secondKept := NewToken()
	g := open(t, ciFile(firstKept))
	before, err := g.ask("Bearer " + first)
	if err != nil {
		t.Fatal(err)
	}
	g.wantReloads(t, "0", "0", "0")

	g.write(t, authName, ciFile(secondKept))
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	g.wantName(t, "Bearer "+second, "ci")
	p, err := g.ask("Bearer " + first)
	wantError(t, "a token that was taken away", p, err, ErrBadCredentials)
	if !before.May(Lock, "ci/x") {
		t.Error("a request under way has lost what it began with")
	}
	g.wantReloads(t, "1", "0", "0")

	for _, faulty := range []string{"", "principals: [x, y]", ciFile(secondKept, first)} {
		g.write(t, authName, faulty)
		if err := g.Reload(); err == nil {
			t.Errorf("%s was taken", faulty)
		}
		g.wantName(t, "Bearer "+second, "ci")
	}
	g.wantReloads(t, "1", "3", "1")
	for _, want := range []string{"level=ERROR", "principals[0]: must be a mapping", "principals[1]: must be a mapping", "is a token itself"} {
		if !strings.Contains(g.log.String(), want) {
			t.Errorf("not logged: %s", want)
		}
	}
	if strings.Contains(g.log.String(), first) {
		t.Error("the log has a token")
	}

	g.write(t, authName, ciFile(firstKept))
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	g.wantName(t, "Bearer "+first, "ci")
	g.wantReloads(t, "2", "3", "0")
}

// running has the gate run in a bubble of time, and returns what lets it look once more.
func running(t *testing.T, g *gateOf) (look func()) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); g.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	synctest.Wait()
	return func() {
		time.Sleep(lookEvery)
		synctest.Wait()
	}
}

func TestRunNoticesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, firstKept := NewToken()
		second, secondKept := NewToken()
		g := open(t, ciFile(firstKept))
		file := filepath.Join(g.dir, authName)
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		look := running(t, g)
		look()
		g.wantReloads(t, "0", "0", "0")

		g.write(t, authName, ciFile(secondKept)) // as long, and as old
		if err := os.Chtimes(file, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		look()
		g.wantName(t, "Bearer "+second, "ci")

		g.write(t, authName, "principals: [")
		for range 3 {
			look()
		}
		g.wantName(t, "Bearer "+second, "ci")
		g.wantReloads(t, "1", "1", "1") // a fault is told once

		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		look()
		look()
		g.wantReloads(t, "1", "2", "1")

		g.write(t, authName, ciFile(firstKept))
		look()
		g.wantName(t, "Bearer "+first, "ci")
		g.wantReloads(t, "2", "2", "0")
	})
}

// TestRunFollowsLinks changes files as Kubernetes does: all at once, by a link to another folder.
func TestRunFollowsLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newSigner(t, "ec"), newSigner(t, "ec")
		dir := t.TempDir()
		link := func(target, name string) {
			t.Helper()
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		for version, s := range map[string]signer{"v1": first, "v2": second} {
			if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{authName: jwtFile, "keys.json": keySetOf(t, s.jwk())} {
				if err := os.WriteFile(filepath.Join(dir, version, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		link("v1", "..data")
		g := open(t, jwtFile, "keys.json", keySetOf(t, first.jwk()))
		for _, name := range []string{authName, "keys.json"} {
			if err := os.Remove(filepath.Join(g.dir, name)); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(dir, "..data", name), filepath.Join(g.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		look := running(t, g)
		g.wantName(t, "Bearer "+first.sign(t, claimsWith(nil)), "jwt:ann")
		g.wantReloads(t, "0", "0", "0")

		link("v2", "..new")
		if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		look()
		g.wantName(t, "Bearer "+second.sign(t, claimsWith(nil)), "jwt:ann")
		p, err := g.ask("Bearer " + first.sign(t, claimsWith(nil)))
		wantError(t, "by the former key", p, err, ErrBadCredentials)
		g.wantReloads(t, "1", "0", "0")

		g.write(t, "keys.json", "{}") // through the link, and the auth file is as it was
		look()
		g.wantName(t, "Bearer "+second.sign(t, claimsWith(nil)), "jwt:ann")
		g.wantReloads(t, "1", "1", "1")
	})
}

// TestRunKeepsKeysFresh: keys that the issuer has withdrawn are good for keysAge at most, while it can be asked.
func TestRunKeepsKeysFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newSigner(t, "1"), newSigner(t, "2")
		g := open(t, urlFile("https://issuer.example/keys"))
		var serving atomic.Pointer[keyring] // nil: it cannot be reached
		var fetches atomic.Int32
		serving.Store(&keyring{first.jwk()})
		remote, _ := g.remote()
		remote.get = func(context.Context) (keyring, error) {
			fetches.Add(1)
			if ring := serving.Load(); ring != nil {
				return *ring, nil
			}
			return nil, context.DeadlineExceeded
		}
		claims := claimsWith(map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()})
		byFirst, bySecond := "Bearer "+first.sign(t, claims), "Bearer "+second.sign(t, claims)
		running(t, g)
		g.wantName(t, byFirst, "jwt:ann")

		serving.Store(&keyring{second.jwk()})
		time.Sleep(keysAge - lookEvery)
		synctest.Wait()
		g.wantName(t, byFirst, "jwt:ann")
		if got := fetches.Load(); got != 1 {
			t.Errorf("%d fetches", got)
		}
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		g.wantName(t, bySecond, "jwt:ann")
		p, err := g.ask(byFirst)
		wantError(t, "by a key withdrawn", p, err, ErrBadCredentials)

		fetches.Store(0)
		serving.Store(nil)
		time.Sleep(2 * keysAge)
		synctest.Wait()
		g.wantName(t, bySecond, "jwt:ann") // the issuer is away, and its JWTs go on
		if got, most := fetches.Load(), int32(keysAge/fetchPause)+1; got < 2 || got > most {
			t.Errorf("%d fetches, want 2 to %d", got, most)
		}
	})
}

// A reload that does not change where the keys are keeps them, and what was learned of how often they may be fetched.
func TestReloadKeepsFetchedKeys(t *testing.T) {
	ec := newSigner(t, "ec")
	s := newKeyServer(t, keySetOf(t, ec.jwk()))
	g, _ := openRemote(t, s)
	good := "Bearer " + ec.sign(t, claimsWith(nil))
	g.wantName(t, good, "jwt:ann")
	g.write(t, authName, urlFile(s.URL)+"    - {claim: sub, value: ann, prefix: annex, rights: lock}\n")
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	if p, err := g.ask(good); err != nil || !p.May(Lock, "annex") {
		t.Errorf("got %+v, %v", p, err)
	}
	s.wantAsked(t, 1)
	g.write(t, authName, urlFile(s.URL+"/other"))
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	g.wantName(t, good, "jwt:ann")
	s.wantAsked(t, 2)
}

// TestRequestsDuringReloads: whoever is in every content of the file is let in throughout.
func TestRequestsDuringReloads(t *testing.T) {
	always, kept := NewToken()
	_, other := NewToken()
	g := open(t, ciFile(kept))
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					g.wantName(t, "Bearer "+always, "ci")
				}
			}
		})
	}
	for i := range 60 {
		g.write(t, authName, []string{ciFile(kept), ciFile(kept, other), "principals: ["}[i%3])
		if err := g.Reload(); (err != nil) != (i%3 == 2) {
			t.Error(err)
		}
	}
	close(stop)
	asking.Wait()
}
