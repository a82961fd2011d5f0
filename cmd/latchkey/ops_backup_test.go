package main

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/store/etcdtest"
)

// backupTTL is that of the locks that are in a backup.
const backupTTL = 5

// restoredAsTheReadmeSays: before the first replica starts, and with revisions that only grow.
func restoredAsTheReadmeSays(t *testing.T, s *service) {
	restoredWithReplicasStopped(t, s, readmeRestore(t))
}

// restoredWithoutABump: the new epoch alone keeps tokens from going back.
func restoredWithoutABump(t *testing.T, s *service) {
	restoredWithReplicasStopped(t, s, etcdtest.Restored{})
}

func restoredWithReplicasStopped(t *testing.T, s *service, how etcdtest.Restored) {
	t.Helper()
	b := newBackup(t, s, t.Name())
	for _, r := range s.replicas {
		r.stop()
	}
	s.etcd.Restore(b.file, how)
	if said, err := call("epoch", "bump", "--etcd-endpoints="+strings.Join(s.etcd.Endpoints(), ",")); err != nil {
		t.Fatalf("the README's epoch bump after a restore says %q: %v", said, err)
	}
	for _, r := range s.replicas {
		r.start()
	}
	b.judge()
}

// wipedUnderRunningReplicas: what was held is gone, and that is all.
func wipedUnderRunningReplicas(t *testing.T, s *service) {
	for range shortOrLong(1, 5) {
		s.healthy(t)
		y := newCyclers(t, s, "wiped")
		y.moving(bound, "clients take locks")
		held := y.c.claim(s.any(), "", api.LockRequest{Name: "wiped away", TTLSeconds: longestTTL})
		if !held.held() {
			t.Fatalf("a free lock: %v", held)
		}
		s.etcd.Wipe()
		s.healthy(t)
		y.moving(bound, "clients take locks of a store that was wiped")
		y.end()
		wantGone(t, s, y.c, held)
		again := y.c.claim(s.any(), "", api.LockRequest{Name: "wiped away", TTLSeconds: backupTTL})
		if !again.held() || again.lock.FencingToken <= held.lock.FencingToken {
			t.Errorf("a lock of a store that was wiped is free, with a token above %d, but a claim answers %v", held.lock.FencingToken, again)
		}
		if err := y.c.releaseSurely(s, again.lock.ID); err != nil {
			t.Error(err)
		}
	}
}

// backup is a snapshot, and what was done before and after it.
type backup struct {
	t    *testing.T
	s    *service
	c    *client
	load *cyclers
	file string
	// kept is held then and to the end; freed was released after it, and its name taken again by latest; later was
	// claimed after it.
	kept, freed, latest, later answer
	// waiter stood behind freed then.
	waiter  answer
	highest int64 // of all tokens
}

func newBackup(t *testing.T, s *service, name string) *backup {
	t.Helper()
	s.healthy(t)
	b := &backup{t: t, s: s, c: newClient(t), file: filepath.Join(t.TempDir(), "backup.db"), load: newCyclers(t, s, name)}
	b.load.moving(bound, "clients take locks")
	b.kept, b.freed = b.claim(name+" kept", longestTTL), b.claim(name+" freed", longestTTL)
	if b.waiter = b.c.claim(s.any(), "", api.LockRequest{Name: name + " freed", TTLSeconds: backupTTL, Queue: true}); !b.waiter.queued() {
		t.Fatalf("a claim with queue on a held lock: %v", b.waiter)
	}
	s.etcd.Snapshot(b.file)
	for _, done := range []answer{b.waiter, b.freed} {
		if err := b.c.releaseSurely(s, done.lock.ID); err != nil {
			t.Fatal(err)
		}
	}
	b.later, b.latest = b.claim(name+" later", longestTTL), b.claim(name+" freed", longestTTL)
	b.load.moving(bound, "clients take locks after the backup")
	b.highest = max(b.latest.lock.FencingToken, b.later.lock.FencingToken)
	return b
}

func (b *backup) claim(name string, ttl int64) answer {
	b.t.Helper()
	a := b.c.claim(b.s.any(), "", api.LockRequest{Name: name, TTLSeconds: ttl})
	if !a.held() {
		b.t.Fatalf("a free lock: %v", a)
	}
	return a
}

// judge asks for what is promised once the snapshot is the store.
func (b *backup) judge() {
	b.t.Helper()
	b.s.healthy(b.t)
	b.load.moving(2*bound, "clients take locks of a restored store")
	b.load.end()
	b.nothingTwice()

	if a := b.c.renew(b.s.any(), b.kept.lock.ID); a.status != http.StatusOK || a.lock.FencingToken != b.kept.lock.FencingToken {
		b.t.Errorf("a lock that was held at the backup and ever since is held, with its token, but its renewal answers %v", a)
	}
	wantGone(b.t, b.s, b.c, b.later)
	wantGone(b.t, b.s, b.c, b.latest)

	// What was released since the backup may be held again; it has its old token, and gives way.
	if a := b.c.look(b.s.any(), b.freed.lock.ID); a.held() {
		if a.lock.FencingToken != b.freed.lock.FencingToken {
			b.t.Errorf("a lock of the backup has the token %d, but a look finds %v", b.freed.lock.FencingToken, a)
		}
		if err := b.c.releaseSurely(b.s, b.freed.lock.ID); err != nil {
			b.t.Error(err)
		}
	} else if a.status != http.StatusNotFound {
		b.t.Errorf("a lock of the backup is held or gone, but a look finds %v", a)
	}
	if a := b.c.release(b.s.any(), b.waiter.lock.ID); a.status != http.StatusNoContent && a.status != http.StatusNotFound {
		b.t.Errorf("a place of the backup can be left, or has lapsed, but its release answers %v", a)
	}
	for _, before := range []answer{b.later, b.latest} {
		a := b.c.claim(b.s.any(), "", api.LockRequest{Name: before.lock.Name, TTLSeconds: backupTTL, WaitSeconds: takerWait})
		if !a.held() || a.lock.FencingToken <= b.highest {
			b.t.Errorf("%q is granted with a token above %d after a restore, but a claim answers %v", before.lock.Name, b.highest, a)
			continue
		}
		if err := b.c.releaseSurely(b.s, a.lock.ID); err != nil {
			b.t.Error(err)
		}
	}
	if err := b.c.releaseSurely(b.s, b.kept.lock.ID); err != nil {
		b.t.Error(err)
	}
}

// nothingTwice: of each name one claim is held at the most, and no replica lists what another does not.
func (b *backup) nothingTwice() {
	b.t.Helper()
	for _, before := range []answer{b.kept, b.freed, b.later} {
		for _, r := range b.s.replicas {
			locks, err := b.c.list(r.url(), before.lock.Name)
			if err != nil {
				b.t.Errorf("a list after a restore: %v", err)
				continue
			}
			held := 0
			for _, l := range locks {
				if l.State == "held" {
					held++
				}
				if l.ID == b.later.lock.ID || l.ID == b.latest.lock.ID {
					b.t.Errorf("what was claimed after the backup is gone, but %q is listed with the token %d", l.Name, l.FencingToken)
				}
			}
			if held > 1 {
				b.t.Errorf("%q is held %d times after a restore", before.lock.Name, held)
			}
		}
	}
}

// wantGone: every replica knows that a claim does not stand any more.
func wantGone(t *testing.T, s *service, c *client, claim answer) {
	t.Helper()
	for _, r := range s.replicas {
		for what, a := range map[string]answer{
			"look": c.look(r.url(), claim.lock.ID), "renewal": c.renew(r.url(), claim.lock.ID), "release": c.release(r.url(), claim.lock.ID),
		} {
			if a.status != http.StatusNotFound {
				t.Errorf("%q went with the store it was in, but its %s answers %v", claim.lock.Name, what, a)
			}
		}
	}
}

// readmeRestore is how the README tells to restore a snapshot.
func readmeRestore(t *testing.T) etcdtest.Restored {
	t.Helper()
	text, _ := readme(t)
	command := regexp.MustCompile(`(?m)^etcdutl snapshot restore .*$`).FindString(text)
	bump := regexp.MustCompile(` --bump-revision (\d+) `).FindStringSubmatch(command)
	if bump == nil {
		t.Fatalf("the README restores a snapshot with bumped revisions, but has %q", command)
	}
	by, err := strconv.ParseUint(bump[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return etcdtest.Restored{BumpRevision: by, MarkCompacted: strings.Contains(command, " --mark-compacted ")}
}

// restoredUnderRunningReplicas: an operator who forgets all that the README says loses what was done since the backup,
// and no more: the replicas notice that revisions went back.
func restoredUnderRunningReplicas(t *testing.T, s *service) {
	for name, how := range map[string]etcdtest.Restored{"revisions go back": {}, "revisions are bumped": readmeRestore(t)} {
		t.Run(name, func(t *testing.T) {
			b := newBackup(t, s, name)
			s.etcd.Restore(b.file, how)
			b.judge()
		})
	}
}
