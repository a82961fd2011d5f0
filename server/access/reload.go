package access

import (
	"context"
	"sync"
	"time"
)

// lookEvery is how often the files are looked at, and how often it is asked whether an issuer's keys are old.
const lookEvery = 5 * time.Second

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

// Reload reads the files anew. If they are faulty it returns all faults, and what was in force of a faulty file stays so.
// Requests under way are not disturbed.
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
	if policy != nil {
		g.policy.Store(policy)
	}
	if err != nil {
		g.metrics.stale.Set(1)
		g.log.Error("the auth file is faulty; what it said before stays in force", "file", g.file, "cause", err)
		return err
	}
	g.metrics.stale.Set(0)
	g.log.Info("the auth file was read anew", policy.told(g.file)...)
	return nil
}

// told is what the log says of a policy that was read from a file.
func (p *policy) told(file string) []any {
	return []any{"file", file, "tokens", len(p.bearers), "certificates", len(p.certificates), "jwt", p.jwt != nil}
}
