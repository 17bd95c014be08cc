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

func newSeries(reg prometheus.Registerer, expiries func() []Expiry) (*series, error) {
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
	ends := ends{expiries, prometheus.NewDesc("holdfast_tls_not_after_seconds",
		"When a certificate of this node, or one of the authorities that it trusts, ends, in seconds since 1970.",
		[]string{"name"}, nil)}
	return s, errors.Join(reg.Register(s.renewals), reg.Register(s.failures), reg.Register(ends))
}

// ends reports when the current certificates expire. A dropped authority has no series.
type ends struct {
	expiries func() []Expiry
	desc     *prometheus.Desc
}

func (e ends) Describe(ch chan<- *prometheus.Desc) { ch <- e.desc }

func (e ends) Collect(ch chan<- prometheus.Metric) {
	for _, x := range e.expiries() {
		ch <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, float64(x.NotAfter.Unix()), x.Name)
	}
}
