//go:build unix

package etcdtest

import (
	"context"
	"os"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	saver "go.etcd.io/etcd/client/v3/snapshot"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

const (
	saveBound = 30 * time.Second
	// defragBound is for one member, which does nothing else meanwhile.
	defragBound = 30 * time.Second
)

// Wipe replaces the store by an empty one with the same cluster id, at the same endpoints, and waits until it can be used.
func (c *Cluster) Wipe() {
	c.t.Helper()
	c.replace(func(m *member) error { return nil })
}

// Snapshot saves the store to a file, as "etcdctl snapshot save" does.
func (c *Cluster) Snapshot(file string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), saveBound)
	defer cancel()
	if _, err := saver.SaveWithVersion(ctx, zap.NewNop(), clientv3.Config{Endpoints: c.Endpoints()[:1]}, file); err != nil {
		c.t.Fatalf("etcdtest: save a snapshot: %v", err)
	}
}

// Restored is how a snapshot is restored, as etcdutl's flags say it.
type Restored struct {
	BumpRevision  uint64
	MarkCompacted bool
}

// Restore replaces the store by the one that was saved, as "etcdutl snapshot restore" on every member does, and waits
// until it can be used.
func (c *Cluster) Restore(file string, how Restored) {
	c.t.Helper()
	c.replace(func(m *member) error {
		return snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
			SnapshotPath:        file,
			Name:                m.spec.Name,
			OutputDataDir:       m.spec.Dir,
			PeerURLs:            []string{m.spec.PeerURL},
			InitialCluster:      m.spec.Cluster,
			InitialClusterToken: m.spec.Token,
			RevisionBump:        how.BumpRevision,
			MarkCompacted:       how.MarkCompacted,
		})
	})
}

// replace stops all members, lets each have other data, and starts them again.
func (c *Cluster) replace(lay func(*member) error) {
	c.t.Helper()
	lowerSegmentSize()
	for i, m := range c.members {
		if m.run != nil {
			c.Kill(i)
		}
		if err := os.RemoveAll(m.spec.Dir); err != nil {
			c.t.Fatalf("etcdtest: %v", err)
		}
		if err := lay(m); err != nil {
			c.t.Fatalf("etcdtest: data of member %d: %v", i, err)
		}
	}
	for i := range c.members {
		c.Restart(i)
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterReady)
	defer cancel()
	if err := c.WaitHealthy(ctx); err != nil {
		c.t.Fatalf("etcdtest: after the data was replaced: %v", err)
	}
}

// Defragment makes member i write its file anew. It serves nothing meanwhile.
func (c *Cluster) Defragment(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, defragBound)
	defer cancel()
	_, err := c.members[i].client.Defragment(ctx, c.Endpoint(i))
	return err
}

// Disarm ends every alarm that stands.
func (c *Cluster) Disarm(ctx context.Context) error {
	_, err := c.members[0].client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	return err
}

// Alarmed says whether an alarm about the lack of space stands.
func (c *Cluster) Alarmed(ctx context.Context) (bool, error) {
	alarms, err := c.members[0].client.AlarmList(ctx)
	if err != nil {
		return false, err
	}
	for _, a := range alarms.Alarms {
		if a.Alarm == etcdserverpb.AlarmType_NOSPACE {
			return true, nil
		}
	}
	return false, nil
}
