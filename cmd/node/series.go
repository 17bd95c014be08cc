package node

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	etcdversion "go.etcd.io/etcd/api/v3/version"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
	"holdfast/embedded/plan"
	"holdfast/metrics"
	"holdfast/volume/ebs"
)

// series returns the series about the node as a whole, all of one observation.
func (n *node) series() (out metrics.Series) {
	s, _ := n.situation()
	out.Gauge("build_info", "Versions of this process; always 1.", 1, "version", n.version, "etcd_version",
		etcdversion.Version, "go_version", runtime.Version())
	if c := claimStatus(n.ebs); c != nil {
		out.OneOf("volume_claim_state", "1 for the state the claim of a volume is in, 0 for the others.", "state", c.State,
			ebs.States)
	}
	if c := n.records.Clock(); c != nil {
		out.Gauge("store_clock_difference_seconds", "How far the clock of this node is ahead of the backup store's, behind "+
			"it if negative; no series while it is not measured.", c.Difference)
	}
	nodeSeries(&out, s)
	databaseSeries(&out, s)
	diskSeries(&out, s.Rooms)
	if n.editions != nil {
		rotationSeries(&out, n.editions.Current() != nil,
			n.editions.Rotation(authorities.ViewOf(s.Observation, n.records.Clock()), time.Now()))
	}
	for _, e := range n.certificates.Expiries() {
		out.Gauge("tls_not_after_seconds", "When a certificate of this node, or one of the authorities that it trusts, "+
			"ends, in seconds since 1970.", float64(e.NotAfter.Unix()), "name", e.Name)
	}
	issuedSeries(&out, n.issued.Last())
	return out
}

// issuedSeries adds the certificates that were issued to machines without a node.
func issuedSeries(out *metrics.Series, all []health.IssuedClient) {
	for _, c := range all {
		out.Gauge("tls_client_not_after_seconds", "When the last certificate of `holdfast tls client`, `observer` or "+
			"`operator` ends, in seconds since 1970, by name and role.", float64(c.NotAfter.Unix()), "client", c.Name,
			"role", cmp.Or(c.Role, string(pki.Client)))
	}
}

// gathering leaves out etcd's own gauges while it does not run. etcd never resets them: a standby would have a leader
// forever, or none.
func gathering(all prometheus.Gatherer, running func() bool) prometheus.GathererFunc {
	return func() ([]*dto.MetricFamily, error) {
		families, err := all.Gather()
		if !running() {
			families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
				return f.GetType() == dto.MetricType_GAUGE && strings.HasPrefix(f.GetName(), "etcd_")
			})
		}
		return families, err
	}
}

// nodeSeries adds what the node does, and its member.
func nodeSeries(out *metrics.Series, s coordinator.Situation) {
	o := s.Observation
	m := o.Member
	out.OneOf("node_state", "1 for the state the node is in, 0 for the others.", "state", s.State(), health.States)
	out.OneOf("decision_info", "1 for the coordinator's current decision, 0 for the others.", "action",
		string(s.Action.Kind), actions())
	out.Flag("etcd_running", "1 while the etcd server runs in this process.", m.Running)
	out.Flag("etcd_ready", "1 while the etcd server is in the cluster and has a leader: a linearizable read was answered "+
		"within the last 5 s.", m.Ready && m.HasLead && m.Confirmed)
	out.Flag("etcd_leader", "1 while this member is the raft leader, and was confirmed as such within the last 5 s.",
		m.Leader && m.Confirmed)
	out.Gauge("leader_silence_seconds", "The longest time within the last hour for which nothing came from a leader "+
		"that then came back, as this member has seen.", s.LeaderSilence.Seconds())
	out.Flag("etcd_learner", "1 while this member is a learner.", m.Learner)
	if slot := o.Claim.Slot; slot != "" {
		out.Gauge("volume_held", "1 for the slot whose volume this node holds; no series without a volume.", 1, "slot", slot)
	}
	out.Gauge("volume_epoch", "Claim epoch of the held volume; 0 without a volume.", float64(o.Claim.Epoch))
	generation := uint64(0)
	if r := o.Disk.Ledger.Record; r != nil {
		generation = r.Generation
	}
	out.Gauge("generation", "Generation of the cluster this node belongs to; 0 while unknown.", float64(generation))
	out.Gauge("conflicts", "What contradicts what this node knows of its cluster's generations: a store, a copy of one, "+
		"a stray node. It touches nothing; `holdfast status` names each.", float64(len(s.Conflicts)))
	out.Flag("paused", "1 while an operator has paused what the nodes do to the cluster by themselves, as this member "+
		"knows.", m.Paused != nil)
	const members = "Members in the applied member list, by role."
	out.Gauge("members", members, float64(m.Voters()), "role", "voter")
	out.Gauge("members", members, float64(len(m.Members)-m.Voters()), "role", "learner")
}

// databaseSeries adds the member's database.
func databaseSeries(out *metrics.Series, s coordinator.Situation) {
	m, u := s.Observation.Member, s.Upkeep
	out.Gauge("database_size_bytes", "Size of the member's database file; 0 while etcd does not run.",
		float64(m.Space.Size))
	out.Gauge("database_in_use_bytes", "Part of the database file that is in use.", float64(m.Space.InUse))
	out.Gauge("database_quota_bytes", "Size at which the database refuses writes.", float64(m.Space.Quota))
	if u.Growth != nil {
		out.Gauge("database_growth_bytes_per_day", "Growth of the live data in a day; no series until an hour is known.",
			float64(*u.Growth))
	}
	out.Flag("database_fragmented", "1 while the database is worth a defragmentation.", m.Running && u.Fragmented)
	out.Flag("database_full", "1 while the database is at or above upkeep.full-percent of its quota.", m.Running && u.Full)
	const alarm = "1 while the cluster has this alarm, as this member knows."
	out.Flag("alarm", alarm, m.Alarmed(plan.NoSpace), "alarm", "NOSPACE")
	out.Flag("alarm", alarm, m.Alarmed(plan.Corrupt), "alarm", "CORRUPT")
	const defrags = "Defragmentations of the member's database by this process, by result."
	out.Counter("defragmentations_total", defrags, float64(u.Defrags), "result", "done")
	out.Counter("defragmentations_total", defrags, float64(u.Failures), "result", "failed")
	out.Counter("nospace_cured_total", "How often this process has disarmed the alarm NOSPACE.", float64(u.Cures))
	last := health.DefragStatus{Time: time.Unix(0, 0)}
	if u.Last != nil {
		last = *u.Last
	}
	out.Gauge("defragmentation_last_timestamp_seconds", "When the last defragmentation ended; 0 before the first.",
		float64(last.Time.Unix()))
	out.Gauge("defragmentation_last_seconds", "How long the last defragmentation kept the member from its clients.",
		last.Seconds)
	out.Flag("defragmentation_last_success", "0 if the last defragmentation failed or was of no use, else 1.",
		last.Error == "")
}

// diskSeries adds the file systems that the node writes to.
func diskSeries(out *metrics.Series, all coordinator.Rooms) {
	const on = " the file system of the held volume, the snapshot spool and the scratch directory; no series while it " +
		"is not known."
	for use, r := range map[string]plan.Room{"volume": all.Volume, "spool": all.Spool, "scratch": all.Scratch} {
		if r.Size > 0 {
			out.Gauge("disk_free_bytes", "Room on"+on, float64(r.Free), "use", use)
			out.Gauge("disk_size_bytes", "Size of"+on, float64(r.Size), "use", use)
		}
	}
	if all.Volume.Size > 0 {
		out.Gauge("disk_reserve_bytes", "Room that the volume must have for etcd to keep running; with less the cluster is "+
			"made to refuse writes (alarm NOSPACE).", float64(all.Volume.Reserve()), "use", "volume")
	}
}

// rotationSettled is the phase of authorities whose rotation is over, or was never begun.
const rotationSettled = "settled"

// rotationSeries adds the state of the authorities. known says that this node has authorities, and r is the open
// rotation, if any. Members do not know the last phase, in which servers still accept clients' certificates of the old
// authority.
func rotationSeries(out *metrics.Series, known bool, r *health.RotationStatus) {
	if !known && r == nil {
		return
	}
	members := []string{rotationSettled, "introduced", "issuing"}
	clients, peers := rotationSettled, rotationSettled
	if r != nil {
		if clients, peers = r.Phase, r.Phase; r.Phase == health.RotationRetiring {
			peers = rotationSettled
		}
	}
	const help = "1 for the phase that the rotation of an authority of ours is in, 0 for the others; settled while none " +
		"is open."
	for _, phase := range append(members, health.RotationRetiring) {
		out.Flag("tls_rotation_phase", help, phase == clients, "authority", "clients", "phase", phase)
	}
	for _, phase := range members {
		out.Flag("tls_rotation_phase", help, phase == peers, "authority", "peers", "phase", phase)
	}
	if r != nil {
		out.Gauge("tls_rotation_began_timestamp_seconds", "When the rotation of the authorities that is open began, in "+
			"seconds since 1970; no series while none is open.", float64(r.Began.Unix()))
		out.Gauge("tls_rotation_old_clients", "Clients' certificates of an authority that goes which this member has seen "+
			"since the node started; no series while no rotation is open.", float64(len(r.OldClients)+r.Others))
	}
}

// findingSeries returns this node's own findings. Those of kinds that are not found are 0, so that an alert finds a
// series from the first scrape on.
func (n *node) findingSeries() (out metrics.Series) {
	s := n.facts()
	return countFindings(s.Local(n.cfg.Cluster.Slots, time.Now()))
}

func countFindings(all []health.Finding) (out metrics.Series) {
	type kind struct {
		code     health.Code
		severity health.Severity
	}
	count := map[kind]int{}
	for _, k := range health.Kinds {
		if k.Local() {
			count[kind{k.Code, k.Severity}] = 0
		}
	}
	for _, f := range all {
		if health.KindOf(f.Code).Local() {
			count[kind{f.Code, f.Severity}]++
		}
	}
	for k, found := range count {
		out.Gauge("finding", "How often something of this kind is found wrong with this node at present, by code and "+
			"severity; `holdfast status` says what.", float64(found), "code", string(k.code), "severity", string(k.severity))
	}
	return out
}
