package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestHealthcheckOfServersWithCertificates: however the server's files are kept, and whatever it asks of its clients.
func TestHealthcheckOfServersWithCertificates(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	cert, key := ours.issue(t)
	other, _ := ours.issue(t)
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	together := filepath.Join(t.TempDir(), "all.pem")
	saveText(t, together, read(key)+read(cert)+read(other)) // a key, then a chain
	store := []string{"--etcd-endpoints=" + etcdtest.Shared(t).Endpoint(), ownPrefix(t), "--tls-cert=" + together, "--tls-key=" + together}
	for name, tt := range map[string]struct {
		serve   []string
		atAdmin bool
		err     []string
	}{
		"key and certificates in one file":       {nil, false, nil},
		"clients may show one":                   {[]string{"--tls-client-ca=" + ours.file}, false, nil},
		"clients must show one":                  {[]string{"--tls-client-ca=" + ours.file, "--tls-client-required"}, false, []string{"--tls-client-required", "--admin-listen"}},
		"clients must show one, and it is apart": {[]string{"--tls-client-ca=" + ours.file, "--tls-client-required", "--admin-listen=127.0.0.1:0"}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			up := serveSome(t, append(store, tt.serve...)...)
			args := []string{"healthcheck", "--tls-cert=" + together, "--listen=" + strings.TrimPrefix(up.url, "https://")}
			if tt.atAdmin {
				args = append(args, "--admin-listen="+up.log.await(t, `administration listens on http://([^"]+)"`))
			}
			out, err := call(args...)
			if len(tt.err) == 0 && (err != nil || !strings.Contains(out, `"status"`)) {
				t.Errorf("says %q, %v", out, err)
			}
			for _, want := range tt.err {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("ends with %v, want %s in it", err, want)
				}
			}
		})
	}
	t.Run("another certificate after ours", func(t *testing.T) {
		up := serveSome(t, store...)
		wrong := filepath.Join(t.TempDir(), "wrong.pem")
		saveText(t, wrong, read(other)+read(cert))
		if _, err := call("healthcheck", "--tls-cert="+wrong, "--listen="+strings.TrimPrefix(up.url, "https://")); err == nil ||
			!strings.Contains(err.Error(), "another certificate") || strings.Contains(err.Error(), "--admin-listen") {
			t.Errorf("ends with %v", err)
		}
		if _, err := call("healthcheck", "--tls-cert="+key, "--listen="+strings.TrimPrefix(up.url, "https://")); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
			t.Errorf("ends with %v", err)
		}
	})
	if help, err := call("healthcheck", "--help"); err != nil || !strings.Contains(help, "--tls-client-required") {
		t.Errorf("the help does not tell what to do: %v, %s", err, help)
	}
}
