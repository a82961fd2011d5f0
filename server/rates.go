package server

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rates bounds how many requests a second each of many may send, with as many at once after a pause. What keeps or frees a
// lock has an allowance of its own, upkeepShare times as large: whoever asks too much else does not lose what it holds.
type rates struct {
	each int

	mu         sync.Mutex
	young, old map[sender]*rate.Limiter
}

// sender is one who sends.
type sender struct {
	name   string
	upkeep bool
}

// upkeepShare is for what one claim asks for while it lives.
const upkeepShare = 5

// maxSenders is how many are known, at the least once there are so many, and half of what they are at the most: whoever
// was not heard of for so long begins anew.
const maxSenders = 16_384

// newRates is nil, which bounds nothing, for 0.
func newRates(each int) *rates {
	if each == 0 {
		return nil
	}
	return &rates{each: each, young: map[sender]*rate.Limiter{}}
}

func (r *rates) allow(by sender, now time.Time) bool {
	return r == nil || r.limiter(by).AllowN(now, 1)
}

func (r *rates) limiter(by sender) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	limiter := r.young[by]
	if limiter != nil {
		return limiter
	}
	if limiter = r.old[by]; limiter == nil {
		each := r.each
		if by.upkeep {
			each *= upkeepShare
		}
		limiter = rate.NewLimiter(rate.Limit(each), each)
	}
	if len(r.young) >= maxSenders {
		r.old, r.young = r.young, map[sender]*rate.Limiter{}
	}
	r.young[by] = limiter
	return limiter
}

// upkeep tells what keeps or frees a lock from what asks for one.
func (o *operation) upkeep() bool {
	switch o.id {
	case "renewLease", "keepLeaseAlive", "deleteLock", "deleteLease":
		return true
	}
	return false
}

// networkOfSender is where a request comes from, or its text if that cannot be read.
func networkOfSender(remote string) string {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	return networkOf(address.Addr()).String()
}
