package main

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestAnOpenAdministrationIsWarnedOf: whoever reaches it is asked nothing.
func TestAnOpenAdministrationIsWarnedOf(t *testing.T) {
	t.Parallel()
	store := []string{"--etcd-endpoints=" + etcdtest.Shared(t).Endpoint(), ownPrefix(t)}
	for name, tt := range map[string]struct {
		args            []string
		warns, profiles bool
	}{
		"none":                       {nil, false, false},
		"on loopback":                {[]string{"--admin-listen=127.0.0.1:0", "--pprof"}, false, false},
		"on all addresses":           {[]string{"--admin-listen=:0"}, true, false},
		"on all addresses of IPv4":   {[]string{"--admin-listen=0.0.0.0:0"}, true, false},
		"on all addresses, profiles": {[]string{"--admin-listen=:0", "--pprof"}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			up := serveSome(t, append(store, tt.args...)...)
			if warns := strings.Contains(up.log.String(), `level=WARN msg="the listener for administration asks nobody who they are`); warns != tt.warns {
				t.Errorf("it warns: %t, in\n%s", warns, up.log)
			}
			if profiles := strings.Contains(up.log.String(), "--pprof lets them"); profiles != tt.profiles {
				t.Errorf("it warns of profiles: %t, in\n%s", profiles, up.log)
			}
		})
	}
}

// TestLinesOfTLSNameTheirComponentOnce as all others do.
func TestLinesOfTLSNameTheirComponentOnce(t *testing.T) {
	cert, key := newAuthority(t).issue(t)
	var log bytes.Buffer
	opened, err := (&accessFlags{TLSCert: cert, TLSKey: key}).tls(slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	opened.Close() // nobody else looks at the files
	if err := os.WriteFile(cert, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := opened.Reload(); err == nil {
		t.Fatal("no certificate was taken for one")
	}
	if strings.Count(log.String(), "component=") != strings.Count(log.String(), "\n") || !strings.Contains(log.String(), "component=tls") {
		t.Errorf("the log has %s", &log)
	}
}
