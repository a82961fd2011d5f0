package store

import (
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.uber.org/zap"

	"github.com/latchkey/latchkey/store/etcdtest"
)

const (
	// shortToken is the shortest life that etcd gives a token: it is over soon after the last use.
	shortToken       = 1 // s
	cheapPassword    = 4 // of bcrypt
	lockUser, locked = "latchkey", "/latchkey/"
	password         = "correct-horse"
)

// guarded is an etcd that lets nobody in without a password.
type guarded struct {
	t        testing.TB
	endpoint string
	root     *clientv3.Client
}

// newGuarded starts one whose lockUser may read and write under the prefix locked, and nothing else.
func newGuarded(t testing.TB) *guarded {
	t.Helper()
	etcdtest.Shared(t) // which makes all etcd of this process small
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{t: t, endpoint: listener.Addr().String()}
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(t.TempDir(), "etcd")
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{{Scheme: "http", Host: "127.0.0.1:1"}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = nil, []url.URL{{Scheme: "http", Host: g.endpoint}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 10, 50
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.AuthTokenTTL, cfg.BcryptCost = shortToken, cheapPassword
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	select {
	case <-etcd.Server.ReadyNotify():
	case <-time.After(within):
		t.Fatal("etcd is not ready")
	}
	serving := v3rpc.Server(etcd.Server, nil, nil)
	served := make(chan error, 1)
	go func() { served <- serving.Serve(listener) }()
	t.Cleanup(func() { serving.Stop(); <-served })

	open := g.client("", "")
	ctx := ctxFor(t)
	for _, err := range []error{
		errOf(open.RoleAdd(ctx, "root")), errOf(open.RoleAdd(ctx, "locks")),
		errOf(open.RoleGrantPermission(ctx, "locks", locked, clientv3.GetPrefixRangeEnd(locked), clientv3.PermissionType(clientv3.PermReadWrite))),
		errOf(open.UserAdd(ctx, "root", password)), errOf(open.UserGrantRole(ctx, "root", "root")),
		errOf(open.UserAdd(ctx, lockUser, password)), errOf(open.UserGrantRole(ctx, lockUser, "locks")),
		errOf(open.AuthEnable(ctx)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	g.root = g.client("root", password)
	return g
}

func (g *guarded) client(user, password string) *clientv3.Client {
	g.t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{g.endpoint}, Username: user, Password: password, DialTimeout: within, Logger: zap.NewNop(),
	})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (g *guarded) open() *Store {
	g.t.Helper()
	return open(g.t, g.client(lockUser, password), func(c *Config) { c.Prefix, c.WaitingTTL = locked, 15*time.Second })
}

// Whatever is asked of the store, the user of the manual may do in etcd; and that user may nothing else.
func TestUserOfThePrefixAloneServesEveryCall(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	a, b := g.open(), g.open()
	const key = "0123456789abcdef"
	ctx := ctxFor(t)
	held := mustHold(t, a, Claim{Name: "x", Key: key, Metadata: map[string]string{"k": "v"}})
	if again := mustHold(t, b, Claim{Name: "x", Key: key, Metadata: map[string]string{"k": "v"}}); !again.Replayed {
		t.Errorf("the key again: got %+v", again)
	}
	_, err := b.Claim(ctx, Claim{Name: "x", TTL: 30 * time.Second})
	wantBusy(t, "a try", err)
	mine := enqueue(t, a, Claim{Name: "x"})
	wait := askInBackground(t, b, mine, within) // adopts it
	behind := enqueue(t, b, Claim{Name: "x"})
	followed := inBackground(func() (Lock, error) {
		var last Lock
		err := a.Follow(ctx, behind.ID, time.Now(), func(l Lock) error { last = l; return nil })
		return last, err
	})
	queuedUp(t, a, "x", 3)
	lease := mustLease(t, a, 30*time.Second)
	mustHold(t, b, Claim{Name: "y", LeaseID: lease.ID})
	onLease := claimInBackground(t, b, Claim{Name: "x", LeaseID: lease.ID, Wait: within})
	queuedUp(t, a, "x", 4)
	stopped := errors.New("one renewal is enough")
	for what, err := range map[string]error{
		"renew":            errOf(b.Renew(ctx, held.ID, time.Now())),
		"renew a lease":    errOf(b.Renew(ctx, lease.ID, time.Now())),
		"look":             errOf(b.Look(ctx, mine.ID)),
		"list":             errOf(b.List(ctx, Filter{Limit: 2})),
		"list by a prefix": errOf(b.List(ctx, Filter{Prefix: "x", Limit: 2})),
		"ready":            b.Ready(),
		"show the epoch":   errOf(ShowEpoch(ctx, g.client(lockUser, password), locked)),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := b.Keep(ctx, held.ID, func(k Kept) error { return errors.Join(stopped, k.Err) }); !errors.Is(err, stopped) {
		t.Errorf("keep: %v", err)
	}
	if got, err := a.GetLease(ctx, lease.ID); err != nil || len(got.Locks) != 1 {
		t.Errorf("get a lease: got %+v, %v", got, err)
	}
	for _, next := range []<-chan result{wait, followed, onLease} {
		mustRelease(t, a, held)
		held = getHeld(t, next)
	}
	if err := b.EndLease(ctx, lease.ID); err != nil {
		t.Errorf("end a lease: %v", err)
	}
	if _, _, err := BumpEpoch(ctx, g.client(lockUser, password), locked); err != nil {
		t.Errorf("bump the epoch: %v", err)
	}
	mustHold(t, a, Claim{Name: "x"})
	mustRelease(t, a, mustHold(t, b, Claim{Name: "z"}))
	if _, err := a.etcd.Get(ctx, "/elsewhere"); err == nil {
		t.Error("the user may read elsewhere: this proves nothing")
	}
}

// Tokens of etcd's that ran out, or that a change of its users made void, are got anew unseen: no wait is deaf, and no
// request fails of it.
func TestAuthenticationThatRunsOutIsRenewedUnseen(t *testing.T) {
	t.Parallel()
	const soon = 5 * time.Second
	g := newGuarded(t)
	a, b := g.open(), g.open()
	ctx := ctxFor(t)
	for _, c := range []struct {
		name  string
		upset func() error
	}{
		{"nothing is asked for longer than tokens last", func() error { sleep(ctx, 3*shortToken*time.Second); return nil }},
		{"a user is added", func() error { return errOf(g.root.UserAdd(ctx, "somebody", password)) }},
		{"a right is granted", func() error {
			return errOf(g.root.RoleGrantPermission(ctx, "locks", "/other/", "/other0", clientv3.PermissionType(clientv3.PermRead)))
		}},
		{"authentication is begun anew", func() error {
			return errors.Join(errOf(g.root.AuthDisable(ctx)), errOf(g.client("", "").AuthEnable(ctx)))
		}},
	} {
		held := mustHold(t, a, Claim{Name: "x"})
		wait := claimInBackground(t, b, Claim{Name: "x", Wait: within})
		queuedUp(t, a, "x", 2)
		if err := c.upset(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, s := range []*Store{a, b} {
			if _, err := s.Renew(ctx, held.ID, time.Now()); err != nil {
				t.Errorf("%s: renew: %v", c.name, err)
			}
			if _, err := s.List(ctx, Filter{Limit: 10}); err != nil {
				t.Errorf("%s: list: %v", c.name, err)
			}
		}
		first := mustHold(t, b, Claim{Name: "new"})
		next := claimInBackground(t, a, Claim{Name: "new", Wait: within}) // opens a watch
		queuedUp(t, b, "new", 2)
		begun := time.Now()
		mustRelease(t, b, first)
		mustRelease(t, a, held)
		mustRelease(t, a, getHeld(t, next))
		mustRelease(t, b, getHeld(t, wait))
		if took := time.Since(begun); took > soon {
			t.Errorf("%s: the hand-offs took %v", c.name, took)
		}
	}
}
