package access

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	reloads, fetches *outcomes
	stale            prometheus.Gauge
}

// outcomes count what succeeds and what fails.
type outcomes struct{ good, bad prometheus.Counter }

func (o *outcomes) count(err error) {
	if err != nil {
		o.bad.Inc()
		return
	}
	o.good.Inc()
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	reloads := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "latchkey_auth_reloads_total",
		Help: "Times that the auth file, or the key file that it names, was read anew; refused where the earlier content stays in force.",
	}, []string{"outcome"})
	fetches := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "latchkey_auth_key_fetches_total",
		Help: "Requests to the issuer of JWTs for its keys.",
	}, []string{"outcome"})
	m := &metrics{
		reloads: &outcomes{reloads.WithLabelValues("applied"), reloads.WithLabelValues("refused")},
		fetches: &outcomes{fetches.WithLabelValues("answered"), fetches.WithLabelValues("failed")},
		stale: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "latchkey_auth_stale",
			Help: "1 while an earlier content of the auth files is in force, as the present one is faulty; else 0.",
		}),
	}
	for _, c := range []prometheus.Collector{reloads, fetches, m.stale} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}
