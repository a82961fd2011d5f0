package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/latchkey/latchkey/store/etcdtest"
)

// TestAnOpenDoorIsMeant: what can be reached from elsewhere starts only with authentication, or when it is said that none is
// wanted; then that is told wherever an operator looks. OWASP API2, API8.
func TestAnOpenDoorIsMeant(t *testing.T) {
	t.Parallel()
	r := newRealm(t, "a", lockEverything)
	r.write()
	store := []string{"--etcd-endpoints=" + etcdtest.Shared(t).Endpoint(), ownPrefix(t)}
	for name, args := range map[string][]string{
		"all addresses": {"--listen=0.0.0.0:0"}, "all of IPv6": {"--listen=[::]:0"}, "no host": {"--listen=:0"},
		"another address": {"--listen=192.0.2.1:0"}, "a name": {"--listen=latchkey.example:0"}, "an empty auth file": {"--listen=:0", "--auth-file="},
		"TLS alone": append([]string{"--listen=:0"}, newAuthority(t).secured(t)...), "clients with certificates alone": append([]string{"--listen=:0", "--tls-client-required"}, newAuthority(t).secured(t)...),
	} {
		t.Run(name, func(t *testing.T) {
			err := launch(t, append(store, args...)...).wait()
			if !isStartError(err) || !strings.Contains(err.Error(), "--auth-file") || !strings.Contains(err.Error(), "--insecure-no-auth") {
				t.Errorf("it ends with %v, want a refusal that names both ways out", err)
			}
		})
	}
	t.Run("both", func(t *testing.T) {
		if err := launch(t, append(store, "--listen=:0", "--insecure-no-auth", "--auth-file="+r.file)...).wait(); !isStartError(err) || !strings.Contains(err.Error(), "insecure-no-auth") {
			t.Errorf("it ends with %v", err)
		}
	})
	for name, tt := range map[string]struct {
		args         []string
		asked, warns string
	}{
		"open, and it is meant":        {[]string{"--listen=0.0.0.0:0", "--insecure-no-auth"}, "none", "yes"},
		"on loopback":                  {nil, "none", ""},
		"on loopback, and it is meant": {[]string{"--insecure-no-auth"}, "none", ""},
		"with authentication":          {[]string{"--listen=0.0.0.0:0", "--auth-file=" + r.file}, "required", ""},
	} {
		t.Run(name, func(t *testing.T) {
			up := launch(t, append(store, tt.args...)...)
			port := up.log.await(t, `listens on http://[^,]+:(\d+), store: `)
			ready := hear(t, http.MethodGet, "http://127.0.0.1:"+port+"/readyz", "")
			if !strings.Contains(ready.body, `"authentication":"`+tt.asked+`"`) || ready.status != 200 {
				t.Errorf("readyz says %d %s, want that authentication is %s", ready.status, ready.body, tt.asked)
			}
			if warned := strings.Contains(up.log.String(), `level=WARN msg="there is no authentication`); warned != (tt.warns != "") {
				t.Errorf("it warns: %t, in\n%s", warned, up.log)
			}
			if got := hear(t, http.MethodPost, "http://127.0.0.1:"+port+"/locks", `{"name":"`+up.url+name+`"}`); (got.status == 401) != (tt.asked == "required") {
				t.Errorf("a claim by nobody answers %d %s", got.status, got.body)
			}
		})
	}
}

// TestAdministrationIsAtItsOwnListener, and there alone: metrics, and profiles when they are asked for. What no contract lists is
// at none. OWASP API5, API8, API9.
func TestAdministrationIsAtItsOwnListener(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	r := newRealm(t, "admin", lockEverything+", "+adminEverything)
	r.write()
	cert, key := ours.issue(t)
	store := []string{
		"--etcd-endpoints=" + etcdtest.Shared(t).Endpoint(), ownPrefix(t), "--auth-file=" + r.file, "--admin-listen=127.0.0.1:0",
		"--tls-cert=" + cert, "--tls-key=" + key,
	}
	const profiles = "/debug/pprof/"
	for name, tt := range map[string]struct {
		args     []string
		profiles int
	}{"as it is": {nil, 404}, "with profiles": {[]string{"--pprof"}, 200}} {
		t.Run(name, func(t *testing.T) {
			up := serveSome(t, append(store, tt.args...)...)
			administration := up.log.await(t, `administration listens on (http://[^"]+)"`)
			admin, nobody := newCaller(t, r.tokens["admin"], ours.client()), newCaller(t, "", ours.client())
			for path, want := range map[string][3]int{ // of an administrator and of nobody at the one, and of nobody at the other
				"/healthz": {200, 200, 200}, "/readyz": {200, 200, 200}, "/metrics": {404, 401, 200},
				"/locks": {200, 401, 404}, "/openapi.yaml": {200, 200, 404},
				profiles: {404, 404, tt.profiles}, profiles + "heap": {404, 404, tt.profiles}, profiles + "cmdline": {404, 404, 404},
				"/debug/vars": {404, 404, 404}, "/debug": {404, 404, 404}, "/v1/locks": {404, 404, 404}, "/v2/keys": {404, 404, 404}, "/v3/kv/range": {404, 404, 404},
				"/admin": {404, 404, 404}, "/": {404, 404, 404}, "/swagger.json": {404, 404, 404}, "/.git/config": {404, 404, 404}, "/locks/": {404, 404, 404}, "/METRICS": {404, 404, 404},
			} {
				for i, got := range []heard{
					admin.do(http.MethodGet, up.url+path, ""), nobody.do(http.MethodGet, up.url+path, ""), nobody.do(http.MethodGet, administration+path, ""),
				} {
					if got.status != want[i] {
						t.Errorf("%s, asked %d: got %d %.200s, want %d", path, i, got.status, got.body, want[i])
					}
					if got.header.Get("Access-Control-Allow-Origin") != "" || got.status == 404 && got.header.Get("Content-Type") != "application/problem+json" {
						t.Errorf("%s, asked %d: the header is %v", path, i, got.header)
					}
				}
			}
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
				if got := nobody.do(method, administration+"/locks", `{"name":"a"}`); got.status != 404 {
					t.Errorf("%s of locks at the listener for administration: got %d", method, got.status)
				}
			}

			listen := strings.TrimPrefix(up.url, "https://")
			other, _ := ours.issue(t)
			for how, check := range map[string]struct {
				args []string
				err  string
			}{
				"over TLS":                  {[]string{"--listen=" + listen, "--tls-cert=" + cert}, ""},
				"over TLS, alive":           {[]string{"--listen=" + listen, "--tls-cert=" + cert, "--live"}, ""},
				"at administration":         {[]string{"--admin-listen=" + strings.TrimPrefix(administration, "http://"), "--tls-cert=" + cert}, ""},
				"another certificate":       {[]string{"--listen=" + listen, "--tls-cert=" + other}, "another certificate"},
				"not over TLS":              {[]string{"--listen=" + listen}, "400"},
				"a key for the certificate": {[]string{"--listen=" + listen, "--tls-cert=" + r.file}, "holds no certificate"},
			} {
				out, err := call(append([]string{"healthcheck"}, check.args...)...)
				if check.err == "" && (err != nil || !strings.Contains(out, `"status"`)) || check.err != "" && (err == nil || !strings.Contains(err.Error(), check.err)) {
					t.Errorf("healthcheck %s says %q, %v", how, out, err)
				}
			}
		})
	}
}

// TestOtherSitesAreNotLetIn: a browser on another's page gets no leave to read. OWASP API8.
func TestOtherSitesAreNotLetIn(t *testing.T) {
	t.Parallel()
	r := newRealm(t, "a", lockEverything)
	up, _ := r.replicas()
	evil := []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization"}
	for _, c := range []*caller{r.as("a"), newCaller(t, "", nil)} {
		for _, method := range []string{http.MethodOptions, http.MethodGet, http.MethodPost} {
			for _, path := range []string{"/locks", "/healthz", "/nothing"} {
				got := c.do(method, up.url+path, "", evil...)
				for name := range got.header {
					if strings.HasPrefix(name, "Access-Control-") {
						t.Errorf("%s %s answers %d with %s", method, path, got.status, name)
					}
				}
				if method == http.MethodOptions && got.status < 400 {
					t.Errorf("%s %s answers %d", method, path, got.status)
				}
			}
		}
	}
}
