package metrics

import (
	"slices"

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
