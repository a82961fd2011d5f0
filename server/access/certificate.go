package access

import (
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxCertificateName is in bytes.
const maxCertificateName = 1024

// The kinds of names of a certificate, as the auth file and certificateNames spell them.
const (
	commonName = "CN="
	dnsName    = "DNS:"
	uriName    = "URI:"
	emailName  = "EMAIL:"
)

// parseCertificateName returns the one spelling of a name, by which certificates are found.
func parseCertificateName(text string) (string, error) {
	for _, kind := range []string{commonName, dnsName, uriName, emailName} {
		name, is := strings.CutPrefix(text, kind)
		if !is {
			continue
		}
		if name == "" || len(name) > maxCertificateName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
			return "", errors.New("must name something, in printable characters, after " + kind)
		}
		switch kind {
		case dnsName:
			name = strings.ToLower(name)
		case uriName:
			uri, err := url.Parse(name)
			if err != nil || uri.Scheme == "" {
				return "", errors.New("must have a whole URI, such as spiffe://example/ci, after " + kind)
			}
			name = uri.String()
		}
		return kind + name, nil
	}
	return "", errors.New("must be CN=…, DNS:…, URI:… or EMAIL:…")
}

// certificateNames are all names of a certificate.
func certificateNames(c *x509.Certificate) []string {
	var names []string
	if c.Subject.CommonName != "" {
		names = append(names, commonName+c.Subject.CommonName)
	}
	for _, name := range c.DNSNames {
		names = append(names, dnsName+strings.ToLower(name))
	}
	for _, uri := range c.URIs {
		names = append(names, uriName+uri.String())
	}
	for _, name := range c.EmailAddresses {
		names = append(names, emailName+name)
	}
	return names
}

const (
	errNobodysCertificate refusal = "the certificate has no name of a principal"
	errSeveralPrincipals  refusal = "the certificate has names of several principals"
	errCertificateExpired refusal = "the certificate has expired since its connection began"
)

// certificates are the principals by the names of their certificates.
type certificates map[string]*Principal

// who refuses a certificate with names of two principals: nothing says which of them it is.
func (c certificates) who(peer *x509.Certificate, now time.Time) (*Principal, error) {
	if now.After(peer.NotAfter) {
		return nil, errCertificateExpired
	}
	var found *Principal
	for _, name := range certificateNames(peer) {
		switch p := c[name]; {
		case p == nil || p == found:
		case found != nil:
			return nil, errSeveralPrincipals
		default:
			found = p
		}
	}
	if found == nil {
		return nil, errNobodysCertificate
	}
	return found, nil
}
