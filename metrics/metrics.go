package metrics

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Names are the fixed label values of this process. A state or action in its list is exported as 0 while it is not the
// current one, so that an alert on its change finds a series from the first scrape on. One that is not listed appears
// only while it is current.
type Names struct {
	Version     string   // of holdfast
	EtcdVersion string   // of the embedded server
	States      []string // of the node: claiming, standby, running, ...
	Actions     []string // of the coordinator
	Claims      []string // states of a volume's claim; empty if the provider has none
	Reasons     []string // for which the member may start an election early
}

// Sample is one observation of the node: flat, as the series are.
type Sample struct {
	State      string // one of Names.States
	Claim      string // one of Names.Claims
	Slot       string // whose volume is held; "" for none
	Epoch      uint64 // of the claim; 0 for none
	Generation uint64 // of the cluster; 0 if unknown
	Running    bool   // the etcd server runs
	Ready      bool   // it has joined, and has a leader: a read through it was just answered
	Leader     bool   // it is the leader, and was just confirmed as such
	Learner    bool   // it does not vote yet
	Conflicts  int    // number of things that contradict the node's generation
	Paused     bool   // an operator has paused the cluster
	Voters     int    // in the applied member list; 0 if unknown
	Learners   int    // in the applied member list
	Measured   bool   // Clock is known
	Clock      float64
	Disks      Disks
	Database
	Rotation
	Clients map[string]time.Time // by client name: when the last certificate issued to it ends
}

// Metrics holds the series about the node as a whole. Its methods may be called from any goroutine.
type Metrics struct {
	names     Names
	sample    atomic.Pointer[Sample]
	action    atomic.Pointer[string]
	decisions *prometheus.CounterVec
	failures  *prometheus.CounterVec
	campaigns *prometheus.CounterVec
}

// New registers the series with reg. It panics, as prometheus' MustRegister does, if reg already has them: a process
// runs one node.
func New(reg prometheus.Registerer, names Names) *Metrics {
	m := &Metrics{
		names: names,
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_decisions_total",
			Help: "Decisions of the coordinator that differed from the one before, by action.",
		}, []string{"action"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_actions_failed_total",
			Help: "Actions of the coordinator that ended with an error, by action.",
		}, []string{"action"}),
		campaigns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_early_campaigns_total",
			Help: "Elections that this member has started before the election timeout ended, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range names.Reasons {
		m.campaigns.WithLabelValues(reason)
	}
	for _, action := range names.Actions {
		m.decisions.WithLabelValues(action)
		m.failures.WithLabelValues(action)
	}
	m.sample.Store(&Sample{})
	reg.MustRegister(m.decisions, m.failures, m.campaigns, &collector{m})
	return m
}

// Observe replaces the exported sample.
func (m *Metrics) Observe(s Sample) { m.sample.Store(&s) }

// Decided records that the coordinator decided on action. Repeating a decision does not count, so the rate of the
// counter is the rate of change.
func (m *Metrics) Decided(action string) {
	if old := m.action.Swap(&action); old == nil || *old != action {
		m.decisions.WithLabelValues(action).Inc()
	}
}

// Failed counts an action that ended with an error.
func (m *Metrics) Failed(action string) { m.failures.WithLabelValues(action).Inc() }

// Campaigned counts an election that was started early.
func (m *Metrics) Campaigned(reason string) { m.campaigns.WithLabelValues(reason).Inc() }

// The descriptions of the series that a scrape computes from the current sample.
var (
	buildDesc   = desc("build_info", "Versions of this process; always 1.", "version", "etcd_version", "go_version")
	stateDesc   = desc("node_state", "1 for the state the node is in, 0 for the others.", "state")
	actionDesc  = desc("decision_info", "1 for the coordinator's current decision, 0 for the others.", "action")
	runningDesc = desc("etcd_running", "1 while the etcd server runs in this process.")
	readyDesc   = desc("etcd_ready",
		"1 while the etcd server is in the cluster and has a leader: a linearizable read was answered within the last 5 s.")
	leaderDesc = desc("etcd_leader",
		"1 while this member is the raft leader, and was confirmed as such within the last 5 s.")
	learnerDesc = desc("etcd_learner", "1 while this member is a learner.")
	claimDesc   = desc("volume_claim_state", "1 for the state the claim of a volume is in, 0 for the others.", "state")
	heldDesc    = desc("volume_held", "1 for the slot whose volume this node holds; no series without a volume.",
		"slot")
	epochDesc      = desc("volume_epoch", "Claim epoch of the held volume; 0 without a volume.")
	generationDesc = desc("generation", "Generation of the cluster this node belongs to; 0 while unknown.")
	conflictsDesc  = desc("conflicts",
		"What contradicts what this node knows of its cluster's generations: a store, a copy of one, a stray node. It "+
			"touches nothing; `holdfast status` names each.")
	pausedDesc = desc("paused",
		"1 while an operator has paused what the nodes do to the cluster by themselves, as this member knows.")
	clockDesc = desc("store_clock_difference_seconds",
		"How far the clock of this node is ahead of the backup store's, behind it if negative; no series while it is not "+
			"measured.")
	membersDesc = desc("members", "Members in the applied member list, by role.", "role")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("holdfast_"+name, help, labels, nil)
}

// sink receives the metrics of one scrape.
type sink chan<- prometheus.Metric

func (s sink) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (s sink) counter(d *prometheus.Desc, value float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

// collector keeps prometheus' interface out of the API of Metrics.
type collector struct{ m *Metrics }

// Describe sends nothing, because the series depend on the sample.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	put := sink(ch)
	oneHot := func(d *prometheus.Desc, names []string, current string) {
		for _, name := range names {
			put.gauge(d, number(name == current), name)
		}
		if current != "" && !slices.Contains(names, current) {
			put.gauge(d, 1, current)
		}
	}
	s, action := c.m.sample.Load(), ""
	if p := c.m.action.Load(); p != nil {
		action = *p
	}
	put.gauge(buildDesc, 1, c.m.names.Version, c.m.names.EtcdVersion, runtime.Version())
	oneHot(stateDesc, c.m.names.States, s.State)
	oneHot(actionDesc, c.m.names.Actions, action)
	put.gauge(runningDesc, number(s.Running))
	put.gauge(readyDesc, number(s.Ready))
	put.gauge(leaderDesc, number(s.Leader))
	put.gauge(learnerDesc, number(s.Learner))
	oneHot(claimDesc, c.m.names.Claims, s.Claim)
	if s.Slot != "" {
		put.gauge(heldDesc, 1, s.Slot)
	}
	put.gauge(epochDesc, float64(s.Epoch))
	put.gauge(generationDesc, float64(s.Generation))
	put.gauge(conflictsDesc, float64(s.Conflicts))
	put.gauge(pausedDesc, number(s.Paused))
	if s.Measured {
		put.gauge(clockDesc, s.Clock)
	}
	put.gauge(membersDesc, float64(s.Voters), "voter")
	put.gauge(membersDesc, float64(s.Learners), "learner")
	s.Database.collect(put)
	s.Disks.collect(put)
	s.Rotation.collect(put)
	for name, end := range s.Clients {
		put.gauge(clientsEndDesc, float64(end.Unix()), name)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
