package pki

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// series are the metrics of one Keeper.
type series struct {
	renewals *prometheus.CounterVec
	failures prometheus.Counter
}

func newSeries(reg prometheus.Registerer) (*series, error) {
	s := &series{
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_tls_renewals_total",
			Help: "Certificates issued to this node by itself, by name (server, peer).",
		}, []string{"name"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_tls_failures_total",
			Help: "Times that authorities could not be read, or a certificate not be read, issued or written.",
		}),
	}
	for _, name := range []string{serverLeaf, peerLeaf} {
		s.renewals.WithLabelValues(name)
	}
	return s, errors.Join(reg.Register(s.renewals), reg.Register(s.failures))
}
