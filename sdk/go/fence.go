package latchkey

import (
	"fmt"
	"sync"
)

const mostToken = 1<<53 - 1

// StaleTokenError reports a token that is lower than the highest accepted: the lock has been another's since.
type StaleTokenError struct {
	Name    string
	Token   int64 // what was refused
	Highest int64 // what was accepted before
}

func (e *StaleTokenError) Error() string {
	return fmt.Sprintf("latchkey: token %d for %q is stale: %d was accepted before", e.Token, e.Name, e.Highest)
}

// FenceGuard keeps a resource from a holder whose time has passed: it refuses a token lower than the highest it has accepted for
// a name. It remembers in memory, one entry for each name, so it serves a resource that lives in one process and no longer than
// that; see [SQLFenceGuard] for others. Its zero value is ready, and it is safe for use by several goroutines.
type FenceGuard struct {
	mu      sync.Mutex
	highest map[string]int64
}

// Accept remembers token, or returns a [*StaleTokenError]. An equal token is the same holder again.
func (g *FenceGuard) Accept(name string, token int64) error {
	if err := checkToken(token); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if highest := g.highest[name]; token < highest {
		return &StaleTokenError{Name: name, Token: token, Highest: highest}
	}
	if g.highest == nil {
		g.highest = map[string]int64{}
	}
	g.highest[name] = token
	return nil
}

func checkToken(token int64) error {
	if token < 1 || token > mostToken {
		return fmt.Errorf("latchkey: %d is no fencing token: they are from 1 to %d", token, int64(mostToken))
	}
	return nil
}
