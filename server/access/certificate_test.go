package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// certificateOf signs a certificate with the names of the template, by parent or by itself.
func certificateOf(t testing.TB, template x509.Certificate, parent *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	signer, by := &template, any(key)
	if parent != nil {
		signer, by = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, signer, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func uriOf(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

const certificateFile = `
principals:
  - name: cn
    certificates: ["CN=ci.example"]
    grants: []
  - name: dns
    certificates: ["DNS:CI.example", "DNS:*.wild.example"]
    grants: []
  - name: uri
    certificates: ["URI:spiffe://example/ci", "URI:spiffe://example/cd"]
    grants: []
  - name: email
    certificates: ["EMAIL:Ci@example.com"]
    grants: []
`

func TestCertificatesNameTheirPrincipal(t *testing.T) {
	g := open(t, certificateFile)
	cn := func(name string) x509.Certificate { return x509.Certificate{Subject: pkix.Name{CommonName: name}} }
	for name, tt := range map[string]struct {
		template x509.Certificate
		want     string // "" for nobody
	}{
		"common name":           {cn("ci.example"), "cn"},
		"its case":              {cn("CI.example"), ""},
		"longer":                {cn("ci.example.evil"), ""},
		"with NUL":              {cn("ci.example\x00.evil"), ""},
		"DNS":                   {x509.Certificate{DNSNames: []string{"other", "ci.EXAMPLE"}}, "dns"},
		"DNS as common name":    {cn("*.wild.example"), ""},
		"no pattern":            {x509.Certificate{DNSNames: []string{"x.wild.example"}}, ""},
		"the pattern itself":    {x509.Certificate{DNSNames: []string{"*.wild.example"}}, "dns"},
		"common name as DNS":    {x509.Certificate{DNSNames: []string{"CN=ci.example"}}, ""},
		"URI":                   {x509.Certificate{URIs: []*url.URL{uriOf(t, "spiffe://example/cd")}}, "uri"},
		"URI below":             {x509.Certificate{URIs: []*url.URL{uriOf(t, "spiffe://example/ci/x")}}, ""},
		"two URIs of one":       {x509.Certificate{URIs: []*url.URL{uriOf(t, "spiffe://example/ci"), uriOf(t, "spiffe://example/cd")}}, "uri"},
		"e-mail":                {x509.Certificate{EmailAddresses: []string{"Ci@example.com"}}, "email"},
		"e-mail of another":     {x509.Certificate{EmailAddresses: []string{"ci@example.com"}}, ""},
		"names of two":          {x509.Certificate{Subject: pkix.Name{CommonName: "ci.example"}, DNSNames: []string{"ci.example"}}, ""},
		"no name":               {x509.Certificate{}, ""},
		"expired while in use":  {x509.Certificate{Subject: pkix.Name{CommonName: "ci.example"}, NotAfter: time.Now().Add(-time.Minute)}, ""},
		"the organization only": {x509.Certificate{Subject: pkix.Name{Organization: []string{"ci.example"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := g.Who(t.Context(), http.Header{}, certificateOf(t, tt.template, nil).Leaf)
			if tt.want == "" {
				wantError(t, name, p, err, ErrBadCredentials)
			} else if err != nil || p.Name != tt.want {
				t.Errorf("got %+v, %v", p, err)
			}
		})
	}
}

func TestAHeaderDecidesBeforeACertificate(t *testing.T) {
	token, kept := NewToken()
	g := open(t, certificateFile+"  - {name: token, tokens: ['"+kept+"'], grants: []}\n")
	leaf := certificateOf(t, x509.Certificate{DNSNames: []string{"ci.example"}}, nil).Leaf
	with := func(values ...string) (*Principal, error) {
		return g.Who(t.Context(), http.Header{"Authorization": values}, leaf)
	}
	if p, err := with("Bearer " + token); err != nil || p.Name != "token" {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, bad := range [][]string{{"Bearer x"}, {""}, {"Bearer " + token, "Bearer " + token}} {
		p, err := with(bad...)
		wantError(t, strings.Join(bad, "|"), p, err, ErrBadCredentials)
	}
	if p, err := with(); err != nil || p.Name != "dns" {
		t.Errorf("without a header: %+v, %v", p, err)
	}
}

// TestMutualTLS takes the certificate from where a server has it: only a verified chain is asked about.
func TestMutualTLS(t *testing.T) {
	g := open(t, certificateFile)
	ca := certificateOf(t, x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	said := make(chan string, 1)
	ts := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p, err := g.Who(r.Context(), r.Header, r.TLS.VerifiedChains[0][0])
		if err != nil {
			p = &Principal{Name: err.Error()}
		}
		said <- p.Name
	}))
	ts.Config.ErrorLog = log.New(io.Discard, "", 0)
	ts.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots}
	ts.StartTLS()
	defer ts.Close()
	call := func(with tls.Certificate) error {
		transport := ts.Client().Transport.(*http.Transport).Clone()
		transport.TLSClientConfig.Certificates = []tls.Certificate{with}
		transport.DisableKeepAlives = true
		resp, err := (&http.Client{Transport: transport}).Get(ts.URL)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	mine := x509.Certificate{DNSNames: []string{"ci.example"}}
	if err := call(certificateOf(t, mine, &ca)); err != nil {
		t.Fatal(err)
	}
	if got := <-said; got != "dns" {
		t.Errorf("got %s", got)
	}
	if err := call(certificateOf(t, mine, nil)); err == nil {
		t.Error("a certificate that signed itself was taken for its name")
	}
}

func TestParseCertificateName(t *testing.T) {
	for text, want := range map[string]string{
		"CN=a b": "CN=a b", "DNS:A.example": "DNS:a.example", "URI:spiffe://x/y": "URI:spiffe://x/y", "EMAIL:A@b": "EMAIL:A@b",
	} {
		if got, err := parseCertificateName(text); err != nil || got != want {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	long := commonName + strings.Repeat("x", maxCertificateName+1)
	for _, bad := range []string{"", "a", "CN:", "CN=", "cn=a", "DNS:", "URI:/x", "URI:http://[", "EMAIL:\x00", "CN=a\n", "CN=\xff", long} {
		if got, err := parseCertificateName(bad); err == nil {
			t.Errorf("%q: got %q", bad, got)
		} else if len(bad) > 4 && strings.Contains(err.Error(), bad) {
			t.Errorf("%q is repeated", bad)
		}
	}
	all := certificateNames(&x509.Certificate{Subject: pkix.Name{CommonName: "a"}, DNSNames: []string{"B"}, EmailAddresses: []string{"c@d"}})
	if want := []string{"CN=a", "DNS:b", "EMAIL:c@d"}; !slices.Equal(all, want) {
		t.Errorf("got %q, want %q", all, want)
	}
}
