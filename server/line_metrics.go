package server

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// lineMetrics count connections.
type lineMetrics struct {
	open    prometheus.Gauge
	refused prometheus.Counter
}

// newLineMetrics registers with nobody when registry is nil.
func newLineMetrics(registry prometheus.Registerer) (*lineMetrics, error) {
	m := &lineMetrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "latchkey_connections_open",
			Help: "Connections that are open, idle ones included.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "latchkey_connections_refused_total",
			Help: "Connections closed at once because their address had as many as it may.",
		}),
	}
	return m, register(registry, m.open, m.refused)
}

func register(registry prometheus.Registerer, metrics ...prometheus.Collector) error {
	if registry == nil {
		return nil
	}
	for _, m := range metrics {
		if err := registry.Register(m); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
