package store

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// tellApart asks again what was behind the head of a silent stream, of leases of which this replica did not know whether
// they stand. That is asked first, which nothing blocks: those that stand must not wait for one after the other of those
// that have run out. What is not told in time is asked again as it was.
func (k *keepers) tellApart(calls []*keepCall) {
	ctx, cancel := context.WithTimeout(k.life, laneSilence)
	defer cancel()
	for _, c := range calls {
		until := time.Now()
		resp, err := k.s.leases().LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: int64(c.id)})
		if err == nil {
			until = until.Add(time.Duration(resp.TTL) * time.Second)
		}
		k.mu.Lock()
		c.until = until
		k.putAgain(c)
		k.mu.Unlock()
	}
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
