package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"path/filepath"
	"sync"
	"time"
)

// lookEvery is how often the files are looked at, and how often it is asked whether an issuer's keys are old.
const lookEvery = 5 * time.Second

// content is what the files were when they were read, an unreadable one being its error.
type content struct {
	auth, keys [sha256.Size]byte
	keysFile   string
}

func sumOf(text []byte, err error) [sha256.Size]byte {
	if err != nil {
		text = []byte(err.Error())
	}
	return sha256.Sum256(text)
}

// Run looks at the files every lookEvery, and keeps the issuer's keys fresh, until ctx ends. It goes by what is in the files and
// not by their times, so a symbolic link that comes to point elsewhere is a change like any other.
func (g *Gate) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { every(ctx, lookEvery, g.look) })
	both.Go(func() {
		every(ctx, lookEvery, func() {
			if remote, is := g.remote(); is {
				remote.refresh(ctx)
			}
		})
	})
	both.Wait()
}

// every does it at once and then every so often, until ctx ends.
func every(ctx context.Context, pause time.Duration, do func()) {
	ticks := time.NewTicker(pause)
	defer ticks.Stop()
	for {
		do()
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// remote are the keys in force that are fetched, if they are.
func (g *Gate) remote() (*remoteKeys, bool) {
	current := g.policy.Load()
	if current == nil || current.jwt == nil {
		return nil, false
	}
	remote, is := current.jwt.keys.(*remoteKeys)
	return remote, is
}

// Reload reads the files anew. If they are faulty it returns all faults, and what was in force stays so. Requests under way are
// not disturbed.
func (g *Gate) Reload() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reload()
}

// look reloads if something has changed since it was read last.
func (g *Gate) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := content{auth: sumOf(readFile(g.file)), keysFile: g.seen.keysFile}
	if now.keysFile != "" {
		now.keys = sumOf(readFile(now.keysFile))
	}
	if now != g.seen {
		g.reload() // which logs what it finds
	}
}

func (g *Gate) reload() error {
	policy, seen, err := g.load()
	g.seen = seen
	g.metrics.reloads.count(err)
	if err != nil {
		g.metrics.stale.Set(1)
		g.log.Error("the auth file is faulty; what it said before stays in force", "file", g.file, "cause", err)
		return err
	}
	g.policy.Store(policy)
	g.metrics.stale.Set(0)
	g.log.Info("the auth file was read anew", "file", g.file, "tokens", len(policy.bearers),
		"certificates", len(policy.certificates), "jwt", policy.jwt != nil)
	return nil
}

// load makes a policy of the files, or says all that is wrong with them.
func (g *Gate) load() (*policy, content, error) {
	text, err := readFile(g.file)
	seen := content{auth: sumOf(text, err)}
	if err != nil {
		return nil, seen, err
	}
	f := readAuthFile(g.file, text)
	if f.jwt == nil {
		return f.policy, seen, f.err()
	}
	f.policy.jwt = &issuer{section: f.jwt, now: g.now}
	switch {
	case f.jwt.keysFile != "":
		if seen.keysFile = f.jwt.keysFile; !filepath.IsAbs(seen.keysFile) {
			seen.keysFile = filepath.Join(filepath.Dir(g.file), seen.keysFile)
		}
		text, err := readFile(seen.keysFile)
		seen.keys = sumOf(text, err)
		keys := reader{file: seen.keysFile}
		f.policy.jwt.keys = keys.fixedKeys(text, err)
		return f.policy, seen, errors.Join(f.err(), keys.err())
	default:
		f.policy.jwt.keys = g.keysAt(f.jwt.keysURL)
	}
	return f.policy, seen, f.err()
}

// keysAt returns those in force if they are of the same URL: they are known already, and how often they may be fetched.
func (g *Gate) keysAt(url string) *remoteKeys {
	if remote, is := g.remote(); is && remote.url == url {
		return remote
	}
	return newRemoteKeys(url, g.now, g.log, g.metrics.fetches)
}
