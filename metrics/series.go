package metrics

import (
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Series are values for one scrape. A name gets the prefix holdfast_. Labels are names and values in turn.
type Series []prometheus.Metric

// Gauge adds a value that may rise and fall.
func (s *Series) Gauge(name, help string, value float64, labels ...string) {
	s.add(prometheus.GaugeValue, name, help, value, labels)
}

// Counter adds a value that only rises while the process runs.
func (s *Series) Counter(name, help string, value float64, labels ...string) {
	s.add(prometheus.CounterValue, name, help, value, labels)
}

// Flag adds 1 or 0.
func (s *Series) Flag(name, help string, on bool, labels ...string) {
	value := 0.0
	if on {
		value = 1
	}
	s.Gauge(name, help, value, labels...)
}

// OneOf adds 1 for the current one of all values of a label, and 0 for each other, so that an alert on its change finds
// a series from the first scrape on. A current value that is not in all is added, unless it is "".
func (s *Series) OneOf(name, help, label, current string, all []string) {
	if current != "" && !slices.Contains(all, current) {
		s.Flag(name, help, true, label, current)
	}
	for _, value := range all {
		s.Flag(name, help, value == current, label, value)
	}
}

func (s *Series) add(kind prometheus.ValueType, name, help string, value float64, labels []string) {
	fixed := prometheus.Labels{}
	for pair := range slices.Chunk(labels, 2) {
		fixed[pair[0]] = pair[1]
	}
	*s = append(*s, prometheus.MustNewConstMetric(prometheus.NewDesc("holdfast_"+name, help, nil, fixed), kind, value))
}

// Collect registers series with reg that are made at each scrape. collect may be called from several goroutines.
func Collect(reg prometheus.Registerer, collect func() Series) { reg.MustRegister(collector(collect)) }

type collector func() Series

// Describe sends nothing, because the series depend on the node's state.
func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c() {
		ch <- m
	}
}

// Counters count what the coordinator does. Their methods may be called from any goroutine.
type Counters struct {
	action    atomic.Pointer[string] // the last decision
	decisions *prometheus.CounterVec
	failures  *prometheus.CounterVec
	campaigns *prometheus.CounterVec
}

// NewCounters registers the counters with reg. Those for the given actions, and for the given reasons of an early
// election, exist from the first scrape on. It panics, as prometheus' MustRegister does, if reg already has them: a
// process runs one node.
func NewCounters(reg prometheus.Registerer, actions, reasons []string) *Counters {
	vec := func(name, help, label string, values []string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_" + name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		reg.MustRegister(v)
		return v
	}
	return &Counters{
		decisions: vec("decisions_total", "Decisions of the coordinator that differed from the one before, by action.",
			"action", actions),
		failures: vec("actions_failed_total", "Actions of the coordinator that ended with an error, by action.",
			"action", actions),
		campaigns: vec("early_campaigns_total",
			"Elections that this member has started before the election timeout ended, by reason.", "reason", reasons),
	}
}

// Decided records that the coordinator decided on action. Repeating a decision does not count, so the rate of the
// counter is the rate of change.
func (c *Counters) Decided(action string) {
	if old := c.action.Swap(&action); old == nil || *old != action {
		c.decisions.WithLabelValues(action).Inc()
	}
}

// Failed counts an action that ended with an error.
func (c *Counters) Failed(action string) { c.failures.WithLabelValues(action).Inc() }

// Campaigned counts an election that was started early.
func (c *Counters) Campaigned(reason string) { c.campaigns.WithLabelValues(reason).Inc() }
