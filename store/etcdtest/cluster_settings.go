package etcdtest

import (
	"fmt"
	"net"
	"net/url"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

// quickHash is the least that etcd accepts. With the race detector the usual one takes a second of a busy machine for each
// authentication.
const quickHash = 4

// memberSettings are what a member may be told beyond what it needs.
type memberSettings struct {
	Quota     int64
	Keep      time.Duration // of history
	AuthToken string
	SecureURL string
	CertFile  string
	KeyFile   string
	CAFile    string
}

// Quota is etcd's --quota-backend-bytes.
func Quota(bytes int64) ClusterOption {
	return func(m *memberSpec) { m.Quota = bytes }
}

// KeepHistory is etcd's --auto-compaction-retention, with the mode periodic.
func KeepHistory(d time.Duration) ClusterOption {
	return func(m *memberSpec) { m.Keep = d }
}

// JWT makes authentication tokens end after ttl, in use or not. A client has to authenticate anew then. keyFile holds an
// EC private key, PEM.
func JWT(keyFile string, ttl time.Duration) ClusterOption {
	return func(m *memberSpec) {
		m.AuthToken = fmt.Sprintf("jwt,sign-method=ES256,priv-key=%s,ttl=%s", keyFile, ttl)
	}
}

// Secure makes members listen by TLS too, for clients that show a certificate of the authority in caFile: see
// [Cluster.SecureEndpoints].
func Secure(certFile, keyFile, caFile string) ClusterOption {
	return func(m *memberSpec) {
		m.CertFile, m.KeyFile, m.CAFile = certFile, keyFile, caFile
		if ports, err := freePorts(1); err == nil { // without one the member says that it has no address
			m.SecureURL = fmt.Sprintf("https://127.0.0.1:%d", ports[0])
		}
	}
}

// settle changes the configuration of a member to what it was told.
func (m memberSettings) settle(cfg *embed.Config) error {
	cfg.QuotaBackendBytes = m.Quota
	if m.Keep > 0 {
		cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, m.Keep.String()
	}
	if m.AuthToken != "" {
		cfg.AuthToken, cfg.BcryptCost = m.AuthToken, quickHash
	}
	if m.CertFile == "" {
		return nil
	}
	secure, err := url.Parse(m.SecureURL)
	if err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(secure.Host); err != nil {
		return fmt.Errorf("an address to listen at by TLS: %w", err)
	}
	cfg.ListenClientUrls = append(cfg.ListenClientUrls, *secure)
	cfg.ClientTLSInfo = transport.TLSInfo{
		CertFile: m.CertFile, KeyFile: m.KeyFile, TrustedCAFile: m.CAFile, ClientCertAuth: true,
	}
	return nil
}
