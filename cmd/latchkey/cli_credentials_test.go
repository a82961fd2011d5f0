package main

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const cliToken = "lk_hush-hush"

func cliTokenFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCLISendsTheToken(t *testing.T) {
	t.Parallel()
	file := cliTokenFile(t, " "+cliToken+"\r\n")
	service := cliPlay(t, cliHolding(30, nil))
	server := cliServer(service.URL)
	var all []*cliProgram
	for _, args := range [][]string{
		{"run", "job", "--token-file=" + file, "--", "true"}, {"acquire", "job", "--token-file", file}, {"renew", cliPlayedID}, {"get", cliPlayedID},
		{"list"}, {"release", cliPlayedID},
	} {
		variables := []string{"LATCHKEY_TOKEN=" + cliToken}
		if strings.Contains(strings.Join(args, " "), "--token-file") {
			variables = []string{"LATCHKEY_TOKEN=lk_another"} // the file wins
		}
		all = append(all, cliStart(t, append(server, variables...), args...))
	}
	all = append(all, cliStart(t, append(server, "LATCHKEY_TOKEN_FILE="+file), "list", "job"))
	for _, p := range all {
		p.want(0)
	}
	if sent := service.tokens(); len(sent) != 1 || !sent["Bearer "+cliToken] {
		t.Errorf("sent were %v, want one token", sent)
	}
}

func TestCLIReadsTheTokenFileAgainWhenItIsRefused(t *testing.T) {
	t.Parallel()
	file := cliTokenFile(t, "lk_old\n")
	var rotate sync.Once
	service := cliPlay(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") == "Bearer lk_new" {
			cliHolding(30, nil)(w, req)
			return
		}
		rotate.Do(func() {
			if err := os.WriteFile(file, []byte("lk_new\n"), 0o600); err != nil {
				t.Error(err)
			}
		})
		cliRefusing(http.StatusUnauthorized, "unauthorized", nil)(w, req)
	})
	p := cliStart(t, cliServer(service.URL), cliRun("job", []string{"--token-file=" + file, "-v"}, "true")...)
	p.want(0)
	if said := p.stdout.String() + p.stderr.String(); strings.Contains(said, "lk_") {
		t.Errorf("it tells a token: %s", said)
	}
}

func TestCLIThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{"unauthorized": http.StatusUnauthorized, "forbidden": http.StatusForbidden} {
		service := cliPlay(t, cliRefusing(status, code, nil))
		for _, args := range [][]string{{"run", "job", "-v", "--", "echo", "ran"}, {"acquire", "job", "--no-wait"}, {"list"}, {"release", cliPlayedID}} {
			p := cliStart(t, append(cliServer(service.URL), "LATCHKEY_TOKEN="+cliToken), args...)
			p.want(exitNotAllowed)
			if said := p.stdout.String() + p.stderr.String(); strings.Contains(said, cliToken) || strings.Contains(said, "ran\n") || !strings.Contains(said, code) {
				t.Errorf("%q says %q", args, said)
			}
		}
	}
}

func TestCLISendsTheTokenToNobodyElse(t *testing.T) {
	t.Parallel()
	elsewhere := cliPlay(t, cliHolding(30, nil))
	service := cliPlay(t, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, elsewhere.URL+req.URL.Path, http.StatusTemporaryRedirect)
	})
	p := cliStart(t, append(cliServer(service.URL), "LATCHKEY_TOKEN="+cliToken), "list", "--timeout=1s")
	p.want(exitUnreachable)
	if sent := elsewhere.tokens(); len(sent) != 0 {
		t.Errorf("a redirect took %v elsewhere", sent)
	}
}

func TestCLIRunHandsDownOnlyWhatItWasGiven(t *testing.T) {
	t.Parallel()
	service := cliPlay(t, cliHolding(30, nil))
	file := cliTokenFile(t, cliToken)
	for name, tt := range map[string]struct {
		variables []string
		want      string
	}{
		"a token of a file":         {[]string{"LATCHKEY_TOKEN_FILE=" + file}, ""},
		"a token of a variable":     {[]string{"LATCHKEY_TOKEN=lk_given"}, "LATCHKEY_TOKEN=lk_given\n"},
		"one of each, and both are": {[]string{"LATCHKEY_TOKEN_FILE=" + file, "LATCHKEY_TOKEN=lk_given"}, "LATCHKEY_TOKEN=lk_given\n"},
	} {
		p := cliStart(t, append(cliServer(service.URL), tt.variables...), cliRun("job", nil, "sh", "-c", "env | grep ^LATCHKEY_TOKEN= || true")...)
		p.want(0)
		if got := p.stdout.String(); got != tt.want {
			t.Errorf("%s: the command has %q, want %q", name, got, tt.want)
		}
	}
}

func TestCLISpeaksTLS(t *testing.T) {
	t.Parallel()
	ours, others := newAuthority(t), newAuthority(t)
	pair, err := tls.LoadX509KeyPair(ours.issue(t))
	if err != nil {
		t.Fatal(err)
	}
	service := cliHearing(cliHolding(30, nil))
	service.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: ours.pool, ClientAuth: tls.RequireAndVerifyClientCert}
	service.Config.ErrorLog = log.New(io.Discard, "", 0) // it tells of each that is turned away
	service.StartTLS()
	t.Cleanup(service.Close)
	cert, key := ours.issue(t)
	strangeCert, strangeKey := others.issue(t)
	for name, tt := range map[string]struct {
		variables []string
		code      int
	}{
		"by flags' variables":          {[]string{"LATCHKEY_CACERT=" + ours.file, "LATCHKEY_CERT=" + cert, "LATCHKEY_CERT_KEY=" + key}, 0},
		"without a certificate":        {[]string{"LATCHKEY_CACERT=" + ours.file}, exitUnreachable},
		"with another's":               {[]string{"LATCHKEY_CACERT=" + ours.file, "LATCHKEY_CERT=" + strangeCert, "LATCHKEY_CERT_KEY=" + strangeKey}, exitUnreachable},
		"to a server nobody trusts":    {[]string{"LATCHKEY_CERT=" + cert, "LATCHKEY_CERT_KEY=" + key}, exitUnreachable},
		"to one whom others vouch for": {[]string{"LATCHKEY_CACERT=" + others.file, "LATCHKEY_CERT=" + cert, "LATCHKEY_CERT_KEY=" + key}, exitUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			cliStart(t, append(cliServer(service.URL), tt.variables...), "list", "--timeout=1s").want(tt.code)
		})
	}
	cliStart(t, cliServer(service.URL), cliRun("job", []string{"--cacert", ours.file, "--cert", cert, "--cert-key", key}, "true")...).want(0)
}

func TestCLIShowsTheCertificateThatIsThereNow(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	pair, err := tls.LoadX509KeyPair(ours.issue(t))
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan string, 1)
	service := cliHearing(func(w http.ResponseWriter, req *http.Request) {
		shown <- string(req.TLS.PeerCertificates[0].Raw)
		cliHolding(30, nil)(w, req)
	})
	service.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: ours.pool, ClientAuth: tls.RequireAndVerifyClientCert}
	service.StartTLS()
	t.Cleanup(service.Close)
	cert, key := ours.issue(t)
	flags := serviceFlags{Server: []string{service.URL}, credentialFlags: credentialFlags{CACert: ours.file, Cert: cert, CertKey: key}}
	client, err := flags.client(quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	look := func() string {
		t.Helper()
		if _, err := client.Get(t.Context(), cliPlayedID); err != nil {
			t.Fatal(err)
		}
		return <-shown
	}
	before := look()
	newCert, newKey := ours.issue(t)
	for from, to := range map[string]string{newCert: cert, newKey: key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	service.CloseClientConnections()
	if look() == before {
		t.Error("after its file was replaced the old certificate is shown")
	}
}

func TestCLIBadCredentialsAreToldTogether(t *testing.T) {
	empty := cliTokenFile(t, "\n")
	two := cliTokenFile(t, "lk_hush lk_hush")
	for name, tt := range map[string]struct{ args, want []string }{
		"files that are missing":    {[]string{"--token-file=/nowhere", "--cacert=/nowhere", "--cert=/nowhere", "--cert-key=/nowhere"}, []string{"--token-file", "--cacert", "--cert"}},
		"files that hold nothing":   {[]string{"--token-file=" + empty, "--cacert=" + empty, "--cert=" + empty, "--cert-key=" + empty}, []string{"--token-file", "--cacert", "--cert"}},
		"two tokens":                {[]string{"--token-file=" + two}, []string{"--token-file"}},
		"a certificate alone":       {[]string{"--cert=" + empty}, []string{"--cert"}},
		"a key alone":               {[]string{"--cert-key=" + empty}, []string{"--cert"}},
		"a header beside a token":   {[]string{"--token-file=" + cliTokenFile(t, "lk_hush"), "--header=authorization: Basic hush"}, []string{"--header"}},
		"a reason that is too long": {[]string{"--reason=" + strings.Repeat("r", 256)}, []string{"--reason"}},
		"a reason that is none":     {[]string{"--reason="}, []string{"--reason"}},
		"a reason of two lines":     {[]string{"--reason=a\nb"}, []string{"--reason"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := call(append([]string{"release", cliPlayedID}, tt.args...)...)
			if exitCode(err) != exitUsage {
				t.Fatalf("ended with %v, want bad usage", err)
			}
			lines := strings.Split(err.Error(), "\n")[1:]
			if len(lines) != len(tt.want) || strings.Contains(err.Error(), "hush") {
				t.Fatalf("told %v, want faults of %q", err, tt.want)
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(strings.TrimSpace(lines[i]), want+" (LATCHKEY_") {
					t.Errorf("told %q, want %s", lines[i], want)
				}
			}
		})
	}
	t.Run("a variable of two lines", func(t *testing.T) {
		t.Setenv("LATCHKEY_TOKEN", "lk_hush\n")
		if _, err := call("list"); exitCode(err) != exitUsage || strings.Contains(err.Error(), "hush") {
			t.Errorf("ended with %v, want bad usage", err)
		}
	})
}

func TestCLIReleaseWithAReasonBreaks(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	service := cliPlay(t, cliHolding(30, map[string]http.HandlerFunc{http.MethodDelete: func(w http.ResponseWriter, req *http.Request) {
		asked <- req.URL.RawQuery
		w.WriteHeader(http.StatusNoContent)
	}}))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"release", cliPlayedID}, ""},
		{[]string{"release", cliPlayedID, "--reason", "host web-3 & co."}, "reason=host+web-3+%26+co."},
	} {
		cliStart(t, cliServer(service.URL), tt.args...).want(0)
		if got := <-asked; got != tt.want {
			t.Errorf("%q: the query is %q, want %q", tt.args, got, tt.want)
		}
	}
}
