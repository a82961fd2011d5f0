package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealthcheck(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			w.Write([]byte(`{"status":"alive"}`))
		case "/moved/readyz":
			http.Redirect(w, r, "/healthz", http.StatusFound)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
			w.Write([]byte(`{"code":"draining"}`))
		}
	}))
	defer srv.Close()
	ready := serve(t, "--data-dir="+t.TempDir()+"/data")
	for name, tt := range map[string]struct {
		args []string
		out  string // said when healthy, else
		err  string // said in the error
	}{
		"ready":           {[]string{"--url", ready.url}, "ready", ""},
		"by its address":  {[]string{"--listen", strings.TrimPrefix(ready.url, "http://")}, "ready", ""},
		"alive":           {[]string{"--live", "--url", srv.URL + "/"}, "alive", ""},
		"not ready":       {[]string{"--url", srv.URL}, "", "draining"},
		"moved elsewhere": {[]string{"--url", srv.URL + "/moved"}, "", "302"},
		"nobody there":    {[]string{"--url", "http://127.0.0.1:1"}, "", "refused"},
		"no URL":          {[]string{"--url", "127.0.0.1"}, "", "--url (LATCHKEY_URL)"},
		"no time":         {[]string{"--timeout", "0s"}, "", "--timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := call(append([]string{"healthcheck"}, tt.args...)...)
			if tt.err == "" && (err != nil || !strings.Contains(out, tt.out)) {
				t.Errorf("said %q, %v; want %q", out, err, tt.out)
			}
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("ended with %v, want %q in it", err, tt.err)
			}
		})
	}
}

func TestHealthcheckFindsTheServerOfThisMachine(t *testing.T) {
	for listen, want := range map[string]string{
		":8080":          "http://127.0.0.1:8080/readyz",
		"0.0.0.0:8080":   "http://127.0.0.1:8080/readyz",
		"[::]:8080":      "http://[::1]:8080/readyz",
		"localhost:80":   "http://localhost:80/readyz",
		"192.0.2.7:8080": "http://192.0.2.7:8080/readyz",
	} {
		c := healthcheckCommand{Listen: listen}
		if got, err := c.target(); err != nil || got != want {
			t.Errorf("for %s it asks %s (%v), want %s", listen, got, err, want)
		}
	}
}
