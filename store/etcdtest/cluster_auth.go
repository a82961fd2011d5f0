//go:build unix

package etcdtest

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// root is the user that etcd wants to have before it asks for users.
const root = "root"

// SecureEndpoints are where the members listen by TLS: "https://127.0.0.1:port".
func (c *Cluster) SecureEndpoints() []string {
	all := make([]string, len(c.members))
	for i, m := range c.members {
		all[i] = m.spec.SecureURL
	}
	return all
}

// EnableAuth makes members ask who is there. The user may read and write under the prefix and nothing else.
func (c *Cluster) EnableAuth(ctx context.Context, user, password, prefix string) error {
	admin := c.members[0].client
	readWrite := clientv3.PermissionType(clientv3.PermReadWrite)
	for _, do := range []func() error{
		func() error { _, err := admin.RoleAdd(ctx, root); return err },
		func() error { _, err := admin.UserAdd(ctx, root, password); return err },
		func() error { _, err := admin.UserGrantRole(ctx, root, root); return err },
		func() error { _, err := admin.RoleAdd(ctx, user); return err },
		func() error {
			_, err := admin.RoleGrantPermission(ctx, user, prefix, clientv3.GetPrefixRangeEnd(prefix), readWrite)
			return err
		},
		func() error { _, err := admin.UserAdd(ctx, user, password); return err },
		func() error { _, err := admin.UserGrantRole(ctx, user, user); return err },
		func() error { _, err := admin.AuthEnable(ctx); return err },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	for _, m := range c.members {
		m.client = newUserClient(c.t, []string{m.endpoint()}, root, password)
	}
	return nil
}

// UserClient returns a client of all members as a user. The test's end closes it.
func (c *Cluster) UserClient(t testing.TB, user, password string) *clientv3.Client {
	t.Helper()
	return newUserClient(t, c.Endpoints(), user, password)
}

func newUserClient(t testing.TB, endpoints []string, user, password string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		Username:             user,
		Password:             password,
		DialTimeout:          clusterReady,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		DialOptions:          []grpc.DialOption{grpc.WithConnectParams(reconnect)},
		Logger:               zap.NewNop(),
	})
	if err != nil {
		t.Fatalf("etcdtest: client of %v as %s: %v", endpoints, user, err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
