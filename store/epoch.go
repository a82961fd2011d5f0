package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Epoch is what tokens start from: a token is its base plus the revision at which etcd committed the claim.
// A wiped or restored etcd counts revisions anew, so a new epoch begins above all that was before.
type Epoch struct {
	Base int64 `json:"base"`
	// Mark tells two epochs apart, even those of two wiped stores that agree in all else.
	Mark string `json:"mark"`
	// Revision is the store's when this was read: tokens so far are at most Base plus Revision.
	Revision int64 `json:"-"`
	// value is how it stands in etcd; every grant compares it. "" if there is none yet.
	value    string
	modified int64
}

// ErrNoEpoch reports a store that has never been used.
var ErrNoEpoch = errors.New("the store has no epoch yet: nothing has used it")

const (
	// maxToken is the first integer that a JSON number no longer tells from its neighbour.
	maxToken = int64(1) << 53
	// revisionsPerMillisecond is more than any etcd commits, so the clock outruns every token.
	revisionsPerMillisecond = 1 << 10
)

// notBefore is when this source was written: a clock that says less is wrong, and would make tokens go back.
var notBefore = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func built() time.Time {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if t, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil && t.After(notBefore) {
				return t
			}
		}
	}
	return notBefore
}

// next is an epoch whose tokens are above ceiling and above all that the clock can have seen.
func (e Epoch) next(now time.Time, ceiling int64) (Epoch, error) {
	if now.Before(built()) {
		return Epoch{}, fmt.Errorf("the clock says %s, which is before this program was built: tokens would go back",
			now.UTC().Format(time.RFC3339))
	}
	base := max(now.UnixMilli()*revisionsPerMillisecond-e.Revision, ceiling)
	if e.value != "" {
		base = max(base, e.Base+e.Revision)
	}
	if base > maxToken-math.MaxUint32-e.Revision {
		return Epoch{}, fmt.Errorf("an epoch at %d leaves no room for tokens below 2^53", base)
	}
	n := Epoch{Base: base, Mark: newNonce().text(), Revision: e.Revision}
	n.value = encodeValue(n)
	return n, nil
}

func parseEpoch(kvs []*mvccpb.KeyValue, revision int64) (Epoch, error) {
	e := Epoch{Revision: revision}
	if len(kvs) == 0 {
		return e, nil
	}
	if err := decodeValue(kvs[0].Value, &e); err != nil {
		return Epoch{}, err
	}
	e.value, e.modified = string(kvs[0].Value), kvs[0].ModRevision
	return e, nil
}

// ShowEpoch reads the epoch of the store under prefix.
func ShowEpoch(ctx context.Context, etcd *clientv3.Client, prefix string) (Epoch, error) {
	resp, err := etcd.Get(ctx, keys{prefix: prefix}.epoch())
	if err != nil {
		return Epoch{}, unavailable(err)
	}
	e, err := parseEpoch(resp.Kvs, resp.Header.Revision)
	if err == nil && e.value == "" {
		return Epoch{}, ErrNoEpoch
	}
	return e, err
}

// BumpEpoch begins a new epoch: to be done after every restore of etcd. Running replicas notice at their next grant.
func BumpEpoch(ctx context.Context, etcd *clientv3.Client, prefix string) (before, after Epoch, err error) {
	for {
		if before, err = ShowEpoch(ctx, etcd, prefix); err != nil && !errors.Is(err, ErrNoEpoch) {
			return before, after, err
		}
		if after, err = before.next(time.Now(), 0); err != nil {
			return before, after, err
		}
		won, err := putEpoch(ctx, etcd, prefix, before, after)
		if err != nil || won {
			return before, after, err
		}
	}
}

// putEpoch writes after in the place of before. It reports false if somebody else was faster.
func putEpoch(ctx context.Context, etcd clientv3.KV, prefix string, before, after Epoch) (bool, error) {
	key := keys{prefix: prefix}.epoch()
	resp, err := etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", before.modified)).
		Then(clientv3.OpPut(key, after.value)).
		Commit()
	if err != nil {
		return false, unknown(err)
	}
	return resp.Succeeded, nil
}
