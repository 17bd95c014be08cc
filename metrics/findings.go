package metrics

import "github.com/prometheus/client_golang/prometheus"

// Finding is a kind of finding, and how often it is currently found.
type Finding struct {
	Code     string
	Severity string
	Count    int
}

var findingDesc = desc("finding",
	"How often something of this kind is found wrong with this node at present, by code and severity; `holdfast status` "+
		"says what.", "code", "severity")

// Findings registers the series holdfast_finding with reg. Each scrape calls found, which returns each code and
// severity at most once. Those of kinds that it leaves out are 0, so that an alert finds a series from the first scrape
// on. Findings panics, as prometheus' MustRegister does, if reg already has the series.
func Findings(reg prometheus.Registerer, kinds []Finding, found func() []Finding) {
	reg.MustRegister(&findings{kinds, found})
}

type findings struct {
	kinds []Finding
	found func() []Finding
}

func (f *findings) Describe(ch chan<- *prometheus.Desc) { ch <- findingDesc }

func (f *findings) Collect(ch chan<- prometheus.Metric) {
	count := map[[2]string]int{}
	for _, k := range f.kinds {
		count[[2]string{k.Code, k.Severity}] = 0
	}
	for _, k := range f.found() {
		count[[2]string{k.Code, k.Severity}] = k.Count
	}
	for k, n := range count {
		sink(ch).gauge(findingDesc, float64(n), k[0], k[1])
	}
}
