package main

import (
	"bytes"
	"log/slog"
	"testing"

	etcdversion "go.etcd.io/etcd/api/v3/version"

	"github.com/latchkey/latchkey/store/etcdtest"
)

func TestOlderReleasesOfEtcd(t *testing.T) {
	for one, want := range map[string]bool{
		"3.4.23": true, "3.6.14": true, "2.9.9": true, "3.7.0": false, "3.7.3": false, "3.8.0": false, "4.0.0": false, "": false, "odd": false,
	} {
		if got := earlierRelease(one, "3.7.3"); got != want {
			t.Errorf("%q: got %v, want %v", one, got, want)
		}
	}
}

// TestTheEtcdThatIsTestedWithIsNotOld: nobody is warned of what is up to date.
func TestTheEtcdThatIsTestedWithIsNotOld(t *testing.T) {
	var log bytes.Buffer
	client := etcdtest.Shared(t).Client(t)
	tellOld(t.Context(), client, slog.New(slog.NewTextHandler(&log, nil)))
	if log.Len() > 0 {
		t.Errorf("of %s it says %s", etcdversion.Version, log.String())
	}
}
