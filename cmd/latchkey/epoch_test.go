package main

import (
	"os"
	"strings"
	"testing"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestEpochOfAnEmbeddedStore(t *testing.T) {
	dir := t.TempDir() + "/data"
	at := "--data-dir=" + dir

	if _, err := call("epoch", "show", at); !isStartError(err) || !strings.Contains(err.Error(), "no store in "+dir) {
		t.Errorf("without a store: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("asking for an epoch made a store")
	}

	r := serve(t, at)
	before := acquire(t, r, "a")
	for _, command := range []string{"show", "bump"} {
		if _, err := call("epoch", command, at); !isStartError(err) || !strings.Contains(err.Error(), "stop the server") {
			t.Errorf("%s beside a server: %v", command, err)
		}
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}

	shown, err := call("epoch", "show", at)
	if err != nil {
		t.Fatal(err)
	}
	bumped, err := call("epoch", "bump", at)
	if err != nil {
		t.Fatal(err)
	}
	again, err := call("epoch", "show", at)
	if err != nil {
		t.Fatal(err)
	}
	if mark(shown) == mark(bumped) || mark(bumped) != mark(again) {
		t.Errorf("shown %q, bumped %q, shown %q", shown, bumped, again)
	}
	if after := acquire(t, serve(t, at), "b"); after <= before {
		t.Errorf("token %.0f after %.0f", after, before)
	}
}

func TestEpochOfACluster(t *testing.T) {
	etcd := etcdtest.New(t)
	at := "--etcd-endpoints=" + etcd.Endpoint()
	if _, err := call("epoch", "show", at); err == nil || !strings.Contains(err.Error(), "no epoch") {
		t.Errorf("of a store never used: %v", err)
	}
	r := serve(t, at)
	before := acquire(t, r, "a")
	if _, err := call("epoch", "bump", at); err != nil {
		t.Fatal(err)
	}
	if after := acquire(t, r, "b"); after <= before { // the server goes on
		t.Errorf("token %.0f after %.0f", after, before)
	}
}

// mark is what tells an epoch from others: "epoch MARK: …".
func mark(said string) string {
	mark, _, _ := strings.Cut(strings.TrimPrefix(said, "epoch "), ":")
	return mark
}
