package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/latchkey/latchkey/api"
	"github.com/latchkey/latchkey/server/access"
)

// metrics count requests. Labels are operationIds and our own statuses, never anything of a client.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	refused  *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "latchkey_http_requests_total",
			Help: "Requests served, by operation and status; client_left where the client did not stay for the answer.",
		}, []string{"operation", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "latchkey_http_request_duration_seconds",
			Help:    "Time from the arrival of a request to the end of its answer, waits and streams included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"operation"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "latchkey_http_requests_in_flight",
			Help: "Requests being served, waits and streams included.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "latchkey_http_refused_total",
			Help: "Requests refused before anything was done for them, by why: credentials, rates, and what one may have.",
		}, []string{"reason"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.inFlight, m.refused} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	for _, reason := range refusals {
		m.refused.WithLabelValues(reason)
	}
	return m, nil
}

// refusals are the reasons that are counted.
var refusals = []string{
	"no_credentials", "bad_credentials", "cannot_tell", "rate_of_address", "rate_of_principal",
	"too_many_waiters", "too_many_claims", "too_many_leases", "too_many_streams", "overloaded",
}

// observe counts an answer that nobody was there to take as such, and not as one of the service's failures.
func (m *metrics) observe(ex *exchange, left bool, took time.Duration) {
	status := strconv.Itoa(ex.status)
	if left {
		status = "client_left"
	}
	m.requests.WithLabelValues(ex.operation.id, status).Inc()
	m.duration.WithLabelValues(ex.operation.id).Observe(took.Seconds())
}

// Metrics serves all that the registry has.
func (h handlers) Metrics(ctx context.Context, _ api.MetricsRequestObject) (api.MetricsResponseObject, error) {
	ex := exchangeOf(ctx)
	switch {
	case ex.trusted():
	case h.cfg.MetricsApart:
		return nil, errNoRoute
	case namesOf(ex.who) != nil:
		return nil, &forbiddenError{access.Read, ex.who, "every name (*)"}
	}
	families, err := h.cfg.Registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather metrics: %w", err)
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, format)
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return nil, fmt.Errorf("encode metrics: %w", err)
		}
	}
	return document{mediaType: string(format), text: text.Bytes()}, nil
}

// document is an answer that is ready as bytes.
type document struct {
	mediaType string
	text      []byte
}

func (d document) VisitMetricsResponse(w http.ResponseWriter) error {
	return writeWhole(w, http.StatusOK, d.mediaType, d.text)
}

func (d document) VisitOpenapiResponse(w http.ResponseWriter) error {
	return writeWhole(w, http.StatusOK, d.mediaType, d.text)
}
