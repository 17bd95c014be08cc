package snapshot

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// series are the keeper's metrics. All of them exist from the start, so that an alert can distinguish zero from absent.
//
// They show what this node knows: use the best value of all nodes, not each (docs/alerts.md).
type series struct {
	newest   newestSeries
	duration prometheus.Gauge
	upload   prometheus.Gauge
	spooled  prometheus.Gauge

	consecutive prometheus.Gauge
	saves       *prometheus.CounterVec
	failures    *prometheus.CounterVec

	prune pruneSeries
	drill drillSeries
}

// pruneSeries count pruned backups, and incomplete prunings.
type pruneSeries struct{ total, failures prometheus.Counter }

// newestSeries describe the newest backup.
type newestSeries struct {
	created, verified, stored, database, ratio prometheus.Gauge
	count, failed, newestFailed                prometheus.Gauge
}

// drillSeries describe the last drill.
type drillSeries struct {
	time, success, duration prometheus.Gauge
	total                   *prometheus.CounterVec
}

const (
	resultSaved       = "saved"
	resultFailed      = "failed"
	resultInterrupted = "interrupted"

	resultPassed  = "passed"
	resultUntried = "untried" // it could not be determined whether the backup can be restored
)

// newSeries registers all series; rpo returns the value of rpo_seconds.
func newSeries(reg prometheus.Registerer, rpo func() float64) series {
	auto := promauto.With(prometheus.WrapRegistererWithPrefix("holdfast_snapshot_", reg))
	gauge := func(name, help string) prometheus.Gauge {
		return auto.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		c := auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, v := range values {
			c.WithLabelValues(v)
		}
		return c
	}
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rpo_seconds",
		Help: "What would be lost with the cluster: the age of the last verified backup in the store known to this node, " +
			"+Inf if none is known.",
	}, rpo)
	return series{
		newest: newestSeries{
			created: gauge("last_success_timestamp_seconds",
				"When the last verified backup known to this node was made, 0 if none is known."),
			verified: gauge("last_verified_timestamp_seconds",
				"When the newest verified backup known to this node was verified, 0 if none is known."),
			stored:   gauge("bytes", "Stored size of the newest verified backup known to this node."),
			database: gauge("database_bytes", "Size of the database in the newest verified backup known to this node."),
			ratio: gauge("compression_ratio",
				"Size of the database by the stored size, of the newest verified backup known to this node, 0 if none is known."),

			count: gauge("backups", "Good backups of this cluster in the store, as far as this node knows."),
			failed: gauge("bad_backups",
				"Backups of this cluster in the store that a later verify or drill has found to be bad."),
			newestFailed: gauge("newest_bad",
				"Whether the newest backup in the store is one of these, so that an older one is the newest good one."),
		},
		duration: gauge("duration_seconds",
			"How long the last successful save by this node took, verification and upload included."),
		upload: gauge("upload_duration_seconds",
			"How long the last successful upload from the spool of this node took, 0 without a spool."),
		spooled:     gauge("spooled", "Backups in the spool of this node that are newer than the newest in the store."),
		consecutive: gauge("consecutive_failures", "Failed attempts in a row since the last backup, while this node leads."),
		saves: counters("saves_total", "Attempts to save a backup.", "result", resultSaved, resultFailed,
			resultInterrupted),
		failures: counters("failures_total", "Failed attempts by what went wrong.", "reason", failureReasons...),

		prune: pruneSeries{
			total: counter("pruned_total",
				"Backups that this node removed from the store because they need not be kept any longer."),
			failures: counter("prune_failures_total", "Times that this node could not prune the store, or not completely."),
		},
		drill: drillSeries{
			time: gauge("drill_last_timestamp_seconds",
				"When the last restore drill known to this node began, 0 if none is known."),
			success: gauge("drill_last_success",
				"Whether the backup of that drill was restored and found to be what was saved, 0 if no drill is known."),
			duration: gauge("drill_duration_seconds", "How long the last restore drill known to this node took."),
			total: counters("drills_total", "Restore drills on this node.", "result", resultPassed, resultFailed,
				resultUntried, resultInterrupted),
		},
	}
}

// know shows the newest verified backup, and when the last one was made.
func (s newestSeries) know(h Holdings) {
	m := h.Newest
	s.created.Set(epoch(h.made.Created))
	s.verified.Set(epoch(m.Verified))
	s.stored.Set(float64(m.Stored.Size))
	s.database.Set(float64(m.Content.Size))
	s.ratio.Set(ratio(m))
	s.count.Set(float64(h.Count))
	s.failed.Set(float64(len(h.Failed)))
	s.newestFailed.Set(float64(min(1, len(h.Skipped))))
}

// know shows the last drill.
func (s drillSeries) know(d Drill) {
	s.time.Set(epoch(d.Time))
	s.duration.Set(d.Took.Seconds())
	s.success.Set(0)
	if d.Name != "" && d.Error == "" {
		s.success.Set(1)
	}
}

// epoch returns t in seconds, exact to the microsecond, 0 for the zero time.
func epoch(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMicro()) / float64(time.Second/time.Microsecond)
}

// ratio returns the size of a backup's database divided by the stored size, or 0 if there is no backup.
func ratio(m Meta) float64 {
	if m.Stored.Size == 0 {
		return 0
	}
	return float64(m.Content.Size) / float64(m.Stored.Size)
}

// rpo returns the age of a backup in seconds, +Inf if there is none, 0 for one from the future.
func rpo(made Meta, now time.Time) float64 {
	if made.Name == "" {
		return math.Inf(1)
	}
	return max(0, now.Sub(made.Created).Seconds())
}
