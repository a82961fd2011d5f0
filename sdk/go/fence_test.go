package latchkey_test

import (
	"sync"
	"testing"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

func TestFenceGuardRefusesLowerTokens(t *testing.T) {
	t.Parallel()
	var guard latchkey.FenceGuard
	for _, step := range []struct {
		name    string
		token   int64
		highest int64 // for which it is refused; 0 if it is not
	}{
		{"a", 5, 0}, {"a", 5, 0}, {"a", 4, 5}, {"b", 4, 0}, {"a", 1<<53 - 1, 0}, {"a", 5, 1<<53 - 1}, {"b", 4, 0},
	} {
		err := guard.Accept(step.name, step.token)
		if step.highest == 0 {
			if err != nil {
				t.Errorf("%d for %s: %v", step.token, step.name, err)
			}
			continue
		}
		if stale := as[*latchkey.StaleTokenError](t, err); stale.Highest != step.highest || stale.Token != step.token {
			t.Errorf("%d for %s: %v, want it refused for %d", step.token, step.name, err, step.highest)
		}
	}
	for _, token := range []int64{0, -1, 1 << 53} {
		if guard.Accept("c", token) == nil {
			t.Errorf("%d is accepted and can be no token", token)
		}
	}
}

func TestFenceGuardAcceptsInOneOrder(t *testing.T) {
	t.Parallel()
	var guard latchkey.FenceGuard
	var all sync.WaitGroup
	const tokens = 1000
	for token := int64(1); token <= tokens; token++ {
		all.Go(func() { guard.Accept("a", token) }) // refused or not, as it comes
	}
	all.Wait()
	if stale := as[*latchkey.StaleTokenError](t, guard.Accept("a", tokens-1)); stale.Highest != tokens {
		t.Errorf("the highest accepted of %d is %d", tokens, stale.Highest)
	}
}
