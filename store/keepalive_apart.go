package store

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// askAtOnce is how many questions of one silent stream are under way together.
const askAtOnce = 16

// tellApart asks again what was behind the head of a silent stream, of leases of which this replica did not know whether
// they stand. That is asked first, which nothing blocks: those that stand must not wait for one after the other of those
// that have run out, and these come last. What is not told within a bound is asked again as it was.
func (k *keepers) tellApart(calls []*keepCall) {
	ctx, cancel := context.WithTimeout(k.life, laneSilence)
	defer cancel()
	ranOut := make([]bool, len(calls))
	gate := make(chan struct{}, askAtOnce)
	var asking sync.WaitGroup
	for i, c := range calls {
		if ranOut[i] = c.runOut; ranOut[i] {
			continue
		}
		gate <- struct{}{}
		asking.Go(func() {
			defer func() { <-gate }()
			until, gone := k.left(ctx, c)
			c.until, c.runOut, ranOut[i] = until, gone, gone
			if !gone {
				k.askAgain(c)
			}
		})
	}
	asking.Wait()
	for i, c := range calls {
		if ranOut[i] {
			k.askAgain(c)
		}
	}
}

// left asks etcd until when the lease of c lasts at least, and whether it has run out and is still to be revoked. If
// there is no answer, neither is known.
func (k *keepers) left(ctx context.Context, c *keepCall) (until time.Time, runOut bool) {
	if ctx.Err() != nil {
		return time.Time{}, false
	}
	sent := time.Now()
	resp, err := k.s.leases().LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: int64(c.id)})
	if err != nil {
		return time.Time{}, false
	}
	return sent.Add(time.Duration(resp.TTL) * time.Second), resp.TTL <= 0 && resp.GrantedTTL > 0
}

func (k *keepers) askAgain(c *keepCall) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.putAgain(c)
}

// putAgain hands a message over that its stream did not see answered, if somebody still waits for it.
func (k *keepers) putAgain(c *keepCall) {
	switch {
	case c.waiting == 0:
	case k.life.Err() != nil:
		c.finish(kept{}, context.Cause(k.life))
	default:
		k.put(c)
	}
}
