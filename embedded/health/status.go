package health

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"holdfast/embedded/plan"
)

// Standby is the state of a node that finds no free volume, because all slots are held.
const Standby = "standby"

// States are the states of a node, for people and metrics.
var States = []string{"claiming", Standby, "waiting", "founding", "joining", "starting", "learner", "follower",
	"leader", "stalled", "drained"}

// NodeStatus is what one node says of itself to people and programs. Times are RFC 3339, sizes are bytes. It is as flat
// as the JSON that programs read.
type NodeStatus struct {
	Node    string    `json:"node"`
	Address string    `json:"address"`
	Live    bool      `json:"live"`             // the asked node sees it in the gossip
	Reached bool      `json:"reached"`          // it answered; if not, the rest is what the gossip last said
	Since   time.Time `json:"since,omitzero"`   // of the decision, or of the loss; zero if a live node does not answer
	State   string    `json:"state"`            // one of States, or "lost"
	Action  plan.Kind `json:"action,omitempty"` // what it does now
	Why     string    `json:"why,omitempty"`
	Error   string    `json:"error,omitempty"` // why the last action failed
	// Decision has the parts of Why; nil if the node did not answer.
	Decision *Decision `json:"decision,omitempty"`
	Does     string    `json:"does,omitempty"`
	// Obstacles keep the node from continuing, the most urgent first. Commands are those that an operator may give
	// against them. Next is what the node does when the pause ends.
	Obstacles []string `json:"obstacles,omitempty"`
	Commands  []string `json:"commands,omitempty"`
	Next      *Next    `json:"next,omitempty"`

	// Early: its process has just started, so it may not have received everything through the gossip yet.
	Early bool `json:"early,omitempty"`

	// Blocks says what a lost node keeps live nodes from doing, and what to do about it.
	Blocks string `json:"blocks,omitempty"`

	Version string `json:"version,omitempty"`
	// Observers are the observers that are connected to this node, by name and address.
	Observers []string `json:"observers,omitempty"`
	// Found has the findings of the node's parts: gossip, names, volumes, certificates, configuration.
	// [NodeStatus.Judge] returns everything that is wrong with the node.
	Found   []Finding `json:"found,omitempty"`
	Checkup *Checkup  `json:"checkup,omitempty"`
	// Looked is how many seconds ago the coordinator observed the world; nil before it first did.
	Looked *float64 `json:"looked_seconds,omitempty"`

	// Asked and Answered are by the clock of the node that asked.
	Asked    time.Time `json:"-"`
	Answered time.Time `json:"-"`

	Claim  *ClaimStatus  `json:"claim,omitempty"` // if claiming takes more than a moment
	Volume *plan.Volume  `json:"volume,omitempty"`
	Record *plan.Record  `json:"record,omitempty"` // the founding record or a later generation's
	Etcd   *EtcdStatus   `json:"etcd,omitempty"`
	Stall  *StallStatus  `json:"stall,omitempty"`  // of the member
	Upkeep *UpkeepStatus `json:"upkeep,omitempty"` // of the member's database
	Backup *BackupStatus `json:"backup,omitempty"`

	Wanted []string      `json:"wanted,omitempty"` // slots in this node's configuration
	Set    *plan.SlotSet `json:"set,omitempty"`    // slots that the cluster has accepted, as applied here
	Paused *plan.Pause   `json:"paused,omitempty"` // as applied here
	Lock   *plan.Lock    `json:"lock,omitempty"`   // as applied here

	TLS *TLSStatus `json:"tls,omitempty"`

	Store   string         `json:"store,omitempty"`   // ID of the backup store, empty while it does not answer
	Clock   *ClockStatus   `json:"clock,omitempty"`   // against the store's clock, if that was measured
	Restore *RestoreStatus `json:"restore,omitempty"` // in progress
	Aside   []plan.Aside   `json:"aside,omitempty"`   // on the volume, the oldest first
}

// ClockStatus is how far the node's clock differs from the backup store's.
type ClockStatus struct {
	Difference  float64 `json:"difference_seconds"` // positive: the node's is ahead
	Uncertainty float64 `json:"uncertainty_seconds"`
	Off         bool    `json:"off"` // by seconds more than the uncertainty
}

// ClaimStatus is how far the claim of a volume is.
type ClaimStatus struct {
	State  string    `json:"state"`
	Volume string    `json:"volume,omitempty"`
	Why    string    `json:"why,omitempty"`
	Since  time.Time `json:"since"`
}

// TLSStatus is how clients and members connect to a node.
type TLSStatus struct {
	Mode         string              `json:"mode"`                   // files, ca, auto or off
	Insecure     bool                `json:"insecure,omitempty"`     // other machines reach etcd without TLS
	Expires      *time.Time          `json:"expires,omitempty"`      // when the first of the Certificates expires
	Certificates []CertificateStatus `json:"certificates,omitempty"` // that the node uses, including its authorities
	Edition      uint64              `json:"edition,omitempty"`      // of the authorities that holdfast has made
	Rotation     *RotationStatus     `json:"rotation,omitempty"`     // while one is open
	Issued       []IssuedClient      `json:"issued,omitempty"`       // to clients, as last read from the store
}

// CertificateStatus is one certificate.
type CertificateStatus struct {
	Name     string    `json:"name"`
	NotAfter time.Time `json:"not_after"`
	File     string    `json:"file,omitempty"`
}

// StallStatus says that raft shows the member a leader, and yet no read through the member is answered. Its disk may
// hang.
type StallStatus struct {
	Unwritten float64 `json:"unwritten_seconds"` // since a committed write last reached it, by its node's clock
}

// EtcdStatus is the member in that node's process.
type EtcdStatus struct {
	Member  plan.ID `json:"member"`
	Cluster plan.ID `json:"cluster"`
	plan.Status
	Leaderless *float64 `json:"leaderless_seconds,omitempty"` // since it last saw a leader; nil while it sees one
	Learners   []string `json:"learners,omitempty"`           // slots whose members have no vote yet, as applied here
	Clients    []string `json:"client_urls"`                  // that this node advertises
}

// BackupStatus is the status of a node's backup keeper. Every node lists the store; only the leading one has a
// schedule.
type BackupStatus struct {
	Leading bool `json:"leading"` // the schedule runs on this node
	// Asked is when the store last answered this node, zero if it never did. StoreError says why it did not answer the
	// last time.
	Asked      time.Time `json:"asked,omitzero"`
	StoreError string    `json:"store_error,omitempty"`
	Count      int       `json:"count"` // good backups in the store
	// Failed has the newest of the BadCount backups that a verify or a drill has found to be bad. Skipped is the newest
	// backup of all, if it is one of them; then Name is an older one.
	Failed   []FailedBackup `json:"failed,omitempty"`
	BadCount int            `json:"bad_count,omitempty"`
	Skipped  string         `json:"skipped,omitempty"`
	// Doubt names a backup that may hold more than Name, and that nobody can use as it is; "" if there is none. Nothing
	// is restored or recovered without an operator because of it.
	Doubt string `json:"doubt,omitempty"`
	// Most is the backup that held most of all that this node has seen in the store since it started.
	Most *plan.BackupStand `json:"most,omitempty"`

	Name     string    `json:"name,omitempty"`
	Time     time.Time `json:"time,omitzero"`     // of the newest good backup in the store, by generation and revision
	Verified time.Time `json:"verified,omitzero"` // when it was last verified
	// Generation and Revision order the backups: of two nodes' statuses, the higher one is newer, whatever the times
	// say.
	Generation uint64       `json:"generation,omitempty"`
	Revision   int64        `json:"revision,omitempty"`
	Database   int64        `json:"database,omitempty"` // size of the database in it
	Size       int64        `json:"size,omitempty"`     // as stored
	Due        time.Time    `json:"due,omitzero"`
	Failures   int          `json:"failures,omitempty"` // in a row
	Error      string       `json:"error,omitempty"`
	Overdue    bool         `json:"overdue,omitempty"`
	Saving     time.Time    `json:"saving,omitzero"`   // since when a backup is being saved
	Spooled    []string     `json:"spooled,omitempty"` // backups on this node that are not in the store yet
	Drill      *DrillStatus `json:"drill,omitempty"`
	Prune      *PruneStatus `json:"prune,omitempty"`
}

// FailedBackup is a backup that a later verify or drill has found to be bad.
type FailedBackup struct {
	Name  string    `json:"name"`
	Proof string    `json:"proof"` // verify or drill
	Time  time.Time `json:"time"`  // of the proof
	By    string    `json:"by,omitempty"`
	Error string    `json:"error"`
}

// DrillStatus is the result of the last drill: whether a backup could be restored.
type DrillStatus struct {
	Name    string    `json:"name,omitempty"` // of the backup
	Time    time.Time `json:"time,omitzero"`
	Seconds float64   `json:"seconds,omitempty"` // how long it took
	Error   string    `json:"error,omitempty"`   // what is wrong with the backup
	Untried string    `json:"untried,omitempty"` // why the last drill could not run
	Checked []string  `json:"checked,omitempty"` // what was compared with the values at the time of the backup
	// Unrecorded says that no values were recorded with the backup, so only its own database could be compared.
	Unrecorded bool      `json:"unrecorded,omitempty"`
	Running    string    `json:"running,omitempty"` // the backup that is being drilled
	Due        time.Time `json:"due,omitzero"`
	Off        string    `json:"off,omitempty"` // why the schedule makes none
}

// SkippedText says that the newest backup is bad, and which one is the newest good one.
func (b BackupStatus) SkippedText() string {
	if b.Name == "" {
		return fmt.Sprintf("the newest backup, %s, is bad, and the store holds NO good one", b.Skipped)
	}
	return fmt.Sprintf("the newest backup, %s, is bad: the newest good one is %s", b.Skipped, b.Name)
}

// PruneStatus is the result of this node's last pruning.
type PruneStatus struct {
	Time    time.Time         `json:"time"`
	Refused int               `json:"refused,omitempty"` // how many expired backups the store did not delete
	Kept    map[string]string `json:"kept,omitempty"`    // a few of them, and why
	Error   string            `json:"error,omitempty"`
}

// Text says what went wrong in the last pruning.
func (p *PruneStatus) Text() string {
	if p.Error != "" {
		return "the store could not be pruned: " + p.Error
	}
	name := slices.Min(slices.Collect(maps.Keys(p.Kept)))
	return fmt.Sprintf("%d expired backups are still there, such as %s: %s", max(p.Refused, len(p.Kept)), name,
		p.Kept[name])
}

// Verdict is the overall state of a cluster.
type Verdict string

const (
	// Healthy: there is nothing worse than a warning.
	Healthy Verdict = "healthy"
	// Degraded: the cluster serves, but something that it relies on is missing or fails.
	Degraded Verdict = "degraded"
	// NoLeaderYet: a majority of the members run, and have no leader yet.
	NoLeaderYet Verdict = "electing"
	// NoQuorum: the cluster does not serve.
	NoQuorum Verdict = "no quorum"
	// Unknown: the asked node has just started, and has not heard of enough members to say.
	Unknown Verdict = "unknown"
)

// ClusterStatus is the answer of `holdfast status`.
type ClusterStatus struct {
	Cluster string  `json:"cluster"`
	Health  Verdict `json:"health"`
	// Findings has all findings, the worst first.
	Findings []Finding    `json:"findings,omitempty"`
	Record   *plan.Record `json:"record,omitempty"`

	Leader string        `json:"leader,omitempty"` // node; empty: there is none
	Set    *plan.SlotSet `json:"set,omitempty"`    // slots that the cluster has accepted; nil: those of the record
	// Founders are the slots with which a restore would continue, as the asked node sees it; none if it knows no
	// cluster.
	Founders []string    `json:"founders,omitempty"`
	Paused   *plan.Pause `json:"paused,omitempty"`
	Lock     *plan.Lock  `json:"lock,omitempty"` // the node that may take its member down on purpose
	// Rotation is the open rotation of the authorities, with the clients that any node has seen.
	Rotation *RotationStatus `json:"rotation,omitempty"`

	Nodes []NodeStatus `json:"nodes"`
	// Observers are the observers of all nodes that answered, by name and address. They count for nothing.
	Observers []string `json:"observers,omitempty"`

	Asked string    `json:"asked"` // the node that answered
	Time  time.Time `json:"time"`
}

// Slots returns the slots that the cluster has last agreed on, otherwise those of its record, which must not be nil.
func (s *ClusterStatus) Slots() []string {
	slots, serial := s.Record.Charter.Slots(), uint64(0)
	for _, n := range s.Nodes {
		if n.Set != nil && n.Set.Record == s.Record.ID && n.Set.Serial > serial {
			slots, serial = n.Set.Slots, n.Set.Serial
		}
	}
	return slots
}

// Self returns the asked node, nil if it is not among the nodes.
func (s *ClusterStatus) Self() *NodeStatus {
	return s.first(func(n NodeStatus) bool { return n.Node == s.Asked })
}

// first returns the first node that fits, nil if none does.
func (s *ClusterStatus) first(fits func(NodeStatus) bool) *NodeStatus {
	if i := slices.IndexFunc(s.Nodes, fits); i >= 0 {
		return &s.Nodes[i]
	}
	return nil
}

// leads reports whether the node leads, and a quorum has just confirmed that.
func (n NodeStatus) leads() bool {
	return n.Reached && n.Etcd != nil && n.Etcd.Leader && n.Etcd.HasLead && n.Etcd.Confirmed
}

// fresh is how many seconds ago, at most, the last write reached a member whose disk works.
const fresh = 3

// Stalls says that the member is stalled, "" if it is not.
func (n NodeStatus) Stalls() string {
	if n.Stall == nil {
		return ""
	}
	if n.Stall.Unwritten < fresh {
		return "reads through the member are not answered, although committed entries reach it: it is catching up, " +
			"or its messages to the leader do not get through"
	}
	disk := "its disk"
	if v := n.Volume; v != nil {
		disk = "the disk of slot " + v.Slot
		if v.Path != "" {
			disk += " at " + v.Path
		}
	}
	return fmt.Sprintf("no write has been committed here for %.0f s, and no read is answered: %s may hang",
		n.Stall.Unwritten, disk)
}

// serves reports whether the node is a voter with a leader.
func (n NodeStatus) serves() bool {
	return n.Reached && (n.State == "leader" || n.State == "follower")
}

// UpkeepStatus is the status of a node's upkeep of its database. Sizes are bytes.
type UpkeepStatus struct {
	plan.Judgement
	// Growth is by how much the live data grew in the last day; nil until an hour of history is known.
	Growth   *int64        `json:"growth_per_day,omitempty"`
	Defrags  int           `json:"defragmentations,omitempty"` // since this process started
	Failures int           `json:"failures,omitempty"`         // failed defragmentations
	Last     *DefragStatus `json:"last,omitempty"`
	Advice   string        `json:"advice,omitempty"` // about a full database, if the cure of NOSPACE gives none
	Cures    int           `json:"cures,omitempty"`  // how often this member has disarmed NOSPACE
}

// DefragStatus is one defragmentation.
type DefragStatus struct {
	Time    time.Time  `json:"time"` // when it ended
	Seconds float64    `json:"seconds"`
	Before  int64      `json:"before"`
	After   int64      `json:"after"`
	Error   string     `json:"error,omitempty"`
	Again   *time.Time `json:"again,omitempty"` // earliest time of the next attempt, after a failure
}
