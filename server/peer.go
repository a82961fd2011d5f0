package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"time"
)

// PeerCertificate returns the certificate that the client of a request showed when it connected, which is nobody's to
// change. It comes from one of the client CAs, is for clients, and was valid when the request arrived. It is nil without
// one, without TLS, and for a context that is of no request.
func PeerCertificate(ctx context.Context) *x509.Certificate {
	l, ok := ctx.Value(lineKey{}).(*line)
	if !ok {
		return nil
	}
	if s, ok := l.duplex.(*session); ok && s.peer.proven() {
		return s.peer.certificates[0]
	}
	return nil
}

// peer is a client as its certificate has it.
type peer struct {
	// certificates are the client's own and those that it sent to prove it; none if it has none.
	certificates []*x509.Certificate
	// judged are the settings by which they were last found to be good.
	judged *tls.Config
}

func peerOf(state tls.ConnectionState, settings *tls.Config) peer {
	if len(state.VerifiedChains) == 0 {
		return peer{}
	}
	return peer{state.PeerCertificates, settings}
}

func (p *peer) proven() bool { return len(p.certificates) > 0 }

// trusted reports whether a new handshake would come to the same. It is asked by one request after the other.
func (p *peer) trusted(settings *tls.Config) bool {
	if !p.proven() {
		return true
	}
	if p.judged == settings {
		return !time.Now().After(p.certificates[0].NotAfter)
	}
	between := x509.NewCertPool()
	for _, cert := range p.certificates[1:] {
		between.AddCert(cert)
	}
	_, err := p.certificates[0].Verify(x509.VerifyOptions{
		Roots:         settings.ClientCAs,
		Intermediates: between,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err == nil {
		p.judged = settings
	}
	return err == nil
}
