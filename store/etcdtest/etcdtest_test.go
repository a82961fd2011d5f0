package etcdtest_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m) }

// bound is for whatever must happen; brief is for what must not be waited for.
const (
	bound = 10 * time.Second
	brief = 300 * time.Millisecond
)

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, c *clientv3.Client, key, value string) {
	t.Helper()
	if _, err := c.Put(within(t, bound), key, value); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

// wantValue asks for key's value, "" for no such key.
func wantValue(t *testing.T, c *clientv3.Client, key, want string) {
	t.Helper()
	got, err := c.Get(within(t, bound), key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	value := ""
	if len(got.Kvs) > 0 {
		value = string(got.Kvs[0].Value)
	}
	if value != want {
		t.Fatalf("%s is %q, want %q", key, value, want)
	}
}
