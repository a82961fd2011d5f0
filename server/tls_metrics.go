package server

import "github.com/prometheus/client_golang/prometheus"

// tlsMetrics count handshakes that failed, and tell until when the certificate is valid.
type tlsMetrics struct{ failed *prometheus.CounterVec }

// newTLSMetrics registers with nobody when registry is nil.
func newTLSMetrics(registry prometheus.Registerer, expiry func() float64) (*tlsMetrics, error) {
	m := &tlsMetrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "latchkey_tls_handshakes_failed_total",
		Help: "TLS handshakes that failed, by reason: client_left, timeout, not_tls, client_certificate, other.",
	}, []string{"reason"})}
	for _, reason := range []string{failedLeft, failedSlow, failedPlain, failedPeer, failedAnother} {
		m.failed.WithLabelValues(reason) // seen before the first
	}
	return m, register(registry, m.failed, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "latchkey_tls_certificate_expiry_timestamp_seconds",
		Help: "When the server's certificate that is in use ends to be valid.",
	}, expiry))
}
