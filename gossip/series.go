package gossip

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Why something was refused: the label of holdfast_gossip_rejected_total.
const (
	reasonKey         = "key"         // other key, or one side has none
	reasonCertificate = "certificate" // one that is not of this mesh, or none
	reasonCluster     = "cluster"     // another cluster's, or of another version
	reasonUnreadable  = "unreadable"  // garbage
	reasonFull        = "full"        // more than we hold: nodes, or questions at once
)

// newCounters makes the metrics of a process, and returns what counts refusals and joins. It panics if reg has them
// already.
func newCounters(reg prometheus.Registerer, nodes func(live bool) float64) (rejected, joins *prometheus.CounterVec) {
	auto := promauto.With(reg)
	rejected = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_gossip_rejected_total",
		Help: "Packets, streams, messages, nodes and questions refused, by reason.",
	}, []string{"reason"})
	joins = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_gossip_joins_total",
		Help: "Attempts to reach a seed or a lost node, by result (joined, failed).",
	}, []string{"result"})
	for _, reason := range []string{reasonKey, reasonCertificate, reasonCluster, reasonUnreadable, reasonFull} {
		rejected.WithLabelValues(reason)
	}
	for _, result := range []string{"joined", "failed"} {
		joins.WithLabelValues(result)
	}
	for _, live := range []bool{true, false} {
		auto.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "holdfast_gossip_nodes",
			Help:        "Nodes of the mesh known to this one, itself included.",
			ConstLabels: prometheus.Labels{"live": strconv.FormatBool(live)},
		}, func() float64 { return nodes(live) })
	}
	return rejected, joins
}
