package snapshot

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// series are the keeper's metrics. All exist from the start, so that an alert can tell zero from absent.
type series struct {
	lastSuccess prometheus.Gauge
	duration    prometheus.Gauge
	bytes       prometheus.Gauge
	consecutive prometheus.Gauge
	saves       *prometheus.CounterVec
	failures    *prometheus.CounterVec
}

const (
	resultSaved       = "saved"
	resultFailed      = "failed"
	resultInterrupted = "interrupted"
)

func newSeries(reg prometheus.Registerer) series {
	auto := promauto.With(reg)
	gauge := func(name, help string) prometheus.Gauge {
		return auto.NewGauge(prometheus.GaugeOpts{Namespace: "holdfast", Subsystem: "snapshot", Name: name, Help: help})
	}
	counter := func(name, help, label string, values ...string) *prometheus.CounterVec {
		c := auto.NewCounterVec(prometheus.CounterOpts{Namespace: "holdfast", Subsystem: "snapshot", Name: name, Help: help}, []string{label})
		for _, v := range values {
			c.WithLabelValues(v)
		}
		return c
	}
	return series{
		lastSuccess: gauge("last_success_timestamp_seconds", "When the newest verified backup known to this node was made, 0 if none is known."),
		duration:    gauge("duration_seconds", "How long the last successful save by this node took, verification included."),
		bytes:       gauge("bytes", "Stored size of the newest verified backup known to this node."),
		consecutive: gauge("consecutive_failures", "Failed attempts in a row since the last backup, while this node leads."),
		saves:       counter("saves_total", "Attempts to save a backup.", "result", resultSaved, resultFailed, resultInterrupted),
		failures:    counter("failures_total", "Failed attempts by what went wrong.", "reason", failureReasons...),
	}
}

// saved shows the newest verified backup.
func (s series) saved(m Meta) {
	s.lastSuccess.Set(float64(m.Created.UnixMicro()) / float64(time.Second/time.Microsecond))
	s.bytes.Set(float64(m.Stored.Size))
}
