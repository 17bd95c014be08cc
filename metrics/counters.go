package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

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
