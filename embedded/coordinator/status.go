package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/plan"
)

// States are the states of a node, for people and metrics.
var States = []string{"claiming", "standby", "waiting", "founding", "joining", "starting", "learner", "follower", "leader", "drained"}

// State sums up the situation in one of States.
func (s Situation) State() string {
	o := s.Observation
	switch m := o.Member; {
	case m.Running && m.HasLead && m.Learner:
		return "learner"
	case m.Running && m.HasLead && m.Leader:
		return "leader"
	case m.Running && m.HasLead:
		return "follower"
	case m.Running:
		return "waiting"
	case !o.Claim.Held && o.Claim.None == "":
		return "claiming"
	case !o.Claim.Held:
		return "standby"
	case o.Drained:
		return "drained"
	}
	switch o.Facts(nil).Phase {
	case plan.PhaseBlank, plan.PhaseFounder:
		return "founding"
	case plan.PhaseVacant, plan.PhaseJoiner:
		return "joining"
	case plan.PhaseData:
		return "starting"
	}
	return "waiting"
}

// NodeStatus is what one node says of itself to people and programs. Times are RFC 3339, sizes bytes.
type NodeStatus struct {
	Node    string    `json:"node"`
	Address string    `json:"address"`
	Live    bool      `json:"live"`             // in the gossip, as the asked node sees it
	Reached bool      `json:"reached"`          // it answered; if not, the rest is what gossip last told
	Since   time.Time `json:"since"`            // of the decision
	State   string    `json:"state"`            // one of States, or "lost"
	Action  plan.Kind `json:"action,omitempty"` // what it does now
	Why     string    `json:"why,omitempty"`
	Error   string    `json:"error,omitempty"` // why the last action failed
	Does    string    `json:"does,omitempty"`  // the first part of Why
	// Obstacles are what keeps the node from going on, the most urgent first, Commands those of them that an operator may
	// give, and Next is what the node does when only the pause ends.
	Obstacles []string `json:"obstacles,omitempty"`
	Commands  []string `json:"commands,omitempty"`
	Next      *Next    `json:"next,omitempty"`

	Version  string   `json:"version,omitempty"`
	Problems []string `json:"problems,omitempty"` // what is wrong here beside the action

	Claim  *ClaimStatus  `json:"claim,omitempty"` // where claiming takes more than a moment
	Volume *VolumeStatus `json:"volume,omitempty"`
	Record *plan.Record  `json:"record,omitempty"` // the founding record or a later generation's
	Etcd   *EtcdStatus   `json:"etcd,omitempty"`
	Upkeep *UpkeepStatus `json:"upkeep,omitempty"` // of the member's database
	Backup *BackupStatus `json:"backup,omitempty"`

	Wanted []string      `json:"wanted,omitempty"` // slots, by this node's configuration
	Set    *plan.SlotSet `json:"set,omitempty"`    // that the cluster has accepted, as applied here
	Paused *plan.Pause   `json:"paused,omitempty"` // the same
	Lock   *plan.Lock    `json:"lock,omitempty"`   // the same

	TLS *TLSStatus `json:"tls,omitempty"`

	Store   string         `json:"store,omitempty"`   // ID of the backup store, empty while it does not answer
	Restore *RestoreStatus `json:"restore,omitempty"` // under way
	Aside   []AsideStatus  `json:"aside,omitempty"`   // on the volume, the oldest first
}

// ClaimStatus is how far the claim of a volume is.
type ClaimStatus struct {
	State  string    `json:"state"`
	Volume string    `json:"volume,omitempty"`
	Why    string    `json:"why,omitempty"`
	Since  time.Time `json:"since"`
}

// TLSStatus is how clients and members reach a node.
type TLSStatus struct {
	Mode         string              `json:"mode"`                   // files, ca, auto or off
	Insecure     bool                `json:"insecure,omitempty"`     // other machines reach etcd without TLS
	Expires      *time.Time          `json:"expires,omitempty"`      // the earliest end of those below
	Certificates []CertificateStatus `json:"certificates,omitempty"` // that matter to the node, its authorities included
}

// CertificateStatus is one certificate.
type CertificateStatus struct {
	Name     string    `json:"name"`
	NotAfter time.Time `json:"not_after"`
	File     string    `json:"file,omitempty"`
}

// VolumeStatus is the held volume.
type VolumeStatus struct {
	Slot  string `json:"slot"`
	ID    string `json:"id"`
	Disk  string `json:"disk"`
	Epoch uint64 `json:"epoch"`
	Path  string `json:"path,omitempty"`
}

// EtcdStatus is the member in that node's process.
type EtcdStatus struct {
	Member         string   `json:"member"` // hexadecimal, as etcdctl prints it
	Cluster        string   `json:"cluster"`
	Leader         bool     `json:"leader"`
	HasLeader      bool     `json:"has_leader"`
	Learner        bool     `json:"learner"`
	Learners       []string `json:"learners,omitempty"` // slots whose members have no vote yet, as applied by this member
	Term           uint64   `json:"term"`
	Revision       int64    `json:"revision"`
	Applied        uint64   `json:"applied_index"`
	Size           int64    `json:"db_size"`
	InUse          int64    `json:"db_in_use"`
	Quota          int64    `json:"quota"`
	Alarms         []string `json:"alarms,omitempty"`
	Version        string   `json:"version"`
	ClusterVersion string   `json:"cluster_version,omitempty"`
	StorageVersion string   `json:"storage_version,omitempty"`
	Downgrade      string   `json:"downgrade,omitempty"` // version that the cluster is being downgraded to
	Clients        []string `json:"client_urls"`         // that this node advertises
}

// BackupStatus is the account of a node's backup keeper: what it knows, which is the newest only on the leading one.
type BackupStatus struct {
	Leading  bool         `json:"leading"` // the schedule runs on this node
	Name     string       `json:"name,omitempty"`
	Time     *time.Time   `json:"time,omitempty"`     // of the newest verified backup in the store
	Verified *time.Time   `json:"verified,omitempty"` // when it was last proven
	Revision int64        `json:"revision,omitempty"`
	Database int64        `json:"database,omitempty"` // size of the database in it
	Size     int64        `json:"size,omitempty"`     // as stored
	Due      *time.Time   `json:"due,omitempty"`
	Failures int          `json:"failures,omitempty"` // in a row
	Error    string       `json:"error,omitempty"`
	Overdue  bool         `json:"overdue,omitempty"`
	Spooled  []string     `json:"spooled,omitempty"` // wait on this node to be copied to the store
	Drill    *DrillStatus `json:"drill,omitempty"`
	Prune    *PruneStatus `json:"prune,omitempty"`
}

// DrillStatus tells of the last drill: whether a backup could be restored.
type DrillStatus struct {
	Name    string     `json:"name,omitempty"` // of the backup
	Time    *time.Time `json:"time,omitempty"`
	Seconds float64    `json:"seconds,omitempty"` // it took
	Error   string     `json:"error,omitempty"`   // why the backup is not what it should be
	Untried string     `json:"untried,omitempty"` // why the last one could not be tried
	Running string     `json:"running,omitempty"` // the backup that is being drilled
	Due     *time.Time `json:"due,omitempty"`
	Off     string     `json:"off,omitempty"` // why none are made by the schedule
}

// PruneStatus tells of the last pruning by this node.
type PruneStatus struct {
	Time  time.Time         `json:"time"`
	Kept  map[string]string `json:"kept,omitempty"` // what the store did not let go, and why
	Error string            `json:"error,omitempty"`
}

// Health of a cluster, and the exit code of `holdfast status`.
type Health string

const (
	Healthy  Health = "healthy"   // 0
	Degraded Health = "degraded"  // 1
	NoQuorum Health = "no quorum" // 2
)

// ClusterStatus is the answer of `holdfast status`.
type ClusterStatus struct {
	Cluster string       `json:"cluster"`
	Health  Health       `json:"health"`
	Reasons []string     `json:"reasons,omitempty"` // why it is not healthy
	Record  *plan.Record `json:"record,omitempty"`

	Leader string        `json:"leader,omitempty"` // node; empty: there is none
	Set    *plan.SlotSet `json:"set,omitempty"`    // slots that the cluster has accepted; none: those of the record
	// Founders are the slots with which a restore would go on, as the asked node sees it; none where it knows no cluster.
	Founders []string    `json:"founders,omitempty"`
	Paused   *plan.Pause `json:"paused,omitempty"`
	Lock     *plan.Lock  `json:"lock,omitempty"` // who may be down on purpose

	Nodes []NodeStatus `json:"nodes"`
	// Observers are the live processes that only listen, as name and address. They count for nothing.
	Observers []string `json:"observers,omitempty"`

	Asked string    `json:"asked"` // the node that answered
	Time  time.Time `json:"time"`
}

// Assess judges a cluster by what its nodes say: wanted are the slots of the configuration.
func Assess(s *ClusterStatus, wanted []string) {
	leader := s.summarize()
	slots := wanted
	for _, n := range s.Nodes {
		if n.Record != nil && (s.Record == nil || n.Record.Generation > s.Record.Generation) {
			s.Record = n.Record
		}
	}
	if s.Record != nil {
		slots = s.Slots()
	}
	var learners []string
	if leader != nil {
		learners = leader.Etcd.Learners
	}
	reasons := s.Contradictions()
	for _, n := range s.Nodes {
		reasons = append(reasons, n.complaints()...)
	}
	for _, slot := range slots {
		i := slices.IndexFunc(s.Nodes, func(n NodeStatus) bool {
			return n.Live && n.Volume != nil && n.Volume.Slot == slot
		})
		switch {
		case i < 0:
			reasons = append(reasons, fmt.Sprintf("slot %s has no live holder", slot))
		case !s.Nodes[i].serves():
			reasons = append(reasons, fmt.Sprintf("slot %s is %s on %s: %s", slot, s.Nodes[i].State, s.Nodes[i].Node, s.Nodes[i].Why))
		case slices.Contains(learners, slot): // which it may not know yet
			reasons = append(reasons, fmt.Sprintf("slot %s on %s has no vote yet: it is a learner, as the leader says", slot, s.Nodes[i].Node))
		}
	}
	s.Reasons = reasons
	switch {
	case leader == nil:
		s.Health = NoQuorum
	case len(reasons) > 0:
		s.Health = Degraded
	default:
		s.Health = Healthy
	}
}

// Slots are those that the cluster has agreed on last, else its record's, which there must be.
func (s *ClusterStatus) Slots() []string {
	slots, serial := s.Record.Charter.Slots(), uint64(0)
	for _, n := range s.Nodes {
		if n.Set != nil && n.Set.Record == s.Record.ID && n.Set.Serial > serial {
			slots, serial = n.Set.Slots, n.Set.Serial
		}
	}
	return slots
}

// Contradictions are what nodes say that cannot all be true of one cluster.
func (s *ClusterStatus) Contradictions() []string {
	var out []string
	holders := map[string][]string{}
	for i, n := range s.Nodes {
		if n.Live && n.Volume != nil {
			holders[n.Volume.Slot] = append(holders[n.Volume.Slot], n.Node)
		}
		for _, m := range s.Nodes[:i] {
			if a, b := m.Record, n.Record; a != nil && b != nil && a.Generation == b.Generation && a.ID != b.ID {
				out = append(out, fmt.Sprintf("two clusters claim the name %q: %s (%s) and %s (%s); keep one of them away from this gossip", s.Cluster, a.Token(), m.Node, b.Token(), n.Node))
			}
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(holders)) {
		if nodes := holders[slot]; len(nodes) > 1 {
			out = append(out, fmt.Sprintf("slot %s is held by %s", slot, strings.Join(nodes, " and by ")))
		}
	}
	return out
}

// serves reports whether the node is a voter with a leader.
func (n NodeStatus) serves() bool {
	return n.Reached && (n.State == "leader" || n.State == "follower")
}

func (n NodeStatus) complaints() []string {
	var out []string
	add := func(text string) { out = append(out, n.Node+": "+text) }
	for _, p := range n.Problems {
		add(p)
	}
	if n.Error != "" {
		add(n.Error)
	}
	if n.Live && !n.Reached {
		add("is in the gossip but does not answer")
	}
	if n.Etcd != nil && len(n.Etcd.Alarms) > 0 {
		add("alarm " + strings.Join(n.Etcd.Alarms, ", "))
	}
	if r := n.Restore; r != nil {
		add(r.text())
	}
	if b := n.Backup; b != nil && b.Leading {
		switch {
		case b.Failures > 0:
			add(fmt.Sprintf("backups fail, %d in a row by now: %s", b.Failures, b.Error))
		case b.Overdue:
			add("the newest verified backup is too old")
		}
		if d := b.Drill; d != nil && d.Error != "" {
			add(fmt.Sprintf("backup %s could not be restored by a drill: %s", d.Name, d.Error))
		}
	}
	return out
}
