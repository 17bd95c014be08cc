package health

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"holdfast/embedded/plan"
)

// Standby is the state of a node that finds no free volume: all slots are held.
const Standby = "standby"

// States are the states of a node, for people and metrics.
var States = []string{"claiming", Standby, "waiting", "founding", "joining", "starting", "learner", "follower",
	"leader", "stalled", "drained"}

// NodeStatus is what one node says of itself to people and programs. Times are RFC 3339, sizes bytes. It is flat, as
// the JSON that programs read.
type NodeStatus struct {
	Node    string    `json:"node"`
	Address string    `json:"address"`
	Live    bool      `json:"live"`             // in the gossip, as the asked node sees it
	Reached bool      `json:"reached"`          // it answered; if not, the rest is what gossip last told
	Since   time.Time `json:"since,omitzero"`   // of the decision, or of the loss; not known of one that is silent
	State   string    `json:"state"`            // one of States, or "lost"
	Action  plan.Kind `json:"action,omitempty"` // what it does now
	Why     string    `json:"why,omitempty"`
	Error   string    `json:"error,omitempty"` // why the last action failed
	// Decision is Why in its parts; nil of a node that did not answer.
	Decision *Decision `json:"decision,omitempty"`
	Does     string    `json:"does,omitempty"`
	// Obstacles are what keeps the node from going on, the most urgent first, Commands those of them that an operator
	// may give, and Next is what the node does when only the pause ends.
	Obstacles []string `json:"obstacles,omitempty"`
	Commands  []string `json:"commands,omitempty"`
	Next      *Next    `json:"next,omitempty"`

	// Early: its process began a moment ago, so that the gossip may not have brought it all that there is.
	Early bool `json:"early,omitempty"`

	// Blocks says of a lost node what it keeps live ones from, and what to do about it.
	Blocks string `json:"blocks,omitempty"`

	Version string `json:"version,omitempty"`
	// Observers are the processes that only hear what nodes say, and are connected to this one, as name and address.
	Observers []string `json:"observers,omitempty"`
	// Found is what the parts of the node complain of: gossip, names, volumes, certificates, configuration.
	// [NodeStatus.Judge] has all that is wrong with the node.
	Found   []Finding `json:"found,omitempty"`
	Checkup *Checkup  `json:"checkup,omitempty"`
	// Looked is how long ago the coordinator has looked at the world, in seconds; nil before it first did.
	Looked *float64 `json:"looked_seconds,omitempty"`

	// Asked and Answered are by the clock of the node that asked.
	Asked    time.Time `json:"-"`
	Answered time.Time `json:"-"`

	Claim  *ClaimStatus  `json:"claim,omitempty"` // where claiming takes more than a moment
	Volume *plan.Volume  `json:"volume,omitempty"`
	Record *plan.Record  `json:"record,omitempty"` // the founding record or a later generation's
	Etcd   *EtcdStatus   `json:"etcd,omitempty"`
	Stall  *StallStatus  `json:"stall,omitempty"`  // of the member
	Upkeep *UpkeepStatus `json:"upkeep,omitempty"` // of the member's database
	Backup *BackupStatus `json:"backup,omitempty"`

	Wanted []string      `json:"wanted,omitempty"` // slots, by this node's configuration
	Set    *plan.SlotSet `json:"set,omitempty"`    // that the cluster has accepted, as applied here
	Paused *plan.Pause   `json:"paused,omitempty"` // the same
	Lock   *plan.Lock    `json:"lock,omitempty"`   // the same

	TLS *TLSStatus `json:"tls,omitempty"`

	Store   string         `json:"store,omitempty"`   // ID of the backup store, empty while it does not answer
	Clock   *ClockStatus   `json:"clock,omitempty"`   // against the store's, where that was measured
	Restore *RestoreStatus `json:"restore,omitempty"` // under way
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

// TLSStatus is how clients and members reach a node.
type TLSStatus struct {
	Mode         string              `json:"mode"`                   // files, ca, auto or off
	Insecure     bool                `json:"insecure,omitempty"`     // other machines reach etcd without TLS
	Expires      *time.Time          `json:"expires,omitempty"`      // the earliest end of those below
	Certificates []CertificateStatus `json:"certificates,omitempty"` // that matter to the node, its authorities included
	Edition      uint64              `json:"edition,omitempty"`      // of the authorities that holdfast has made
	Rotation     *RotationStatus     `json:"rotation,omitempty"`     // while one is open
	Issued       []IssuedClient      `json:"issued,omitempty"`       // to clients, as the store told last
}

// CertificateStatus is one certificate.
type CertificateStatus struct {
	Name     string    `json:"name"`
	NotAfter time.Time `json:"not_after"`
	File     string    `json:"file,omitempty"`
}

// StallStatus tells that raft shows the member a leader, and yet no read through it is answered: its disk may hang.
type StallStatus struct {
	Unwritten float64 `json:"unwritten_seconds"` // since a committed write has reached it, by its node's clock
}

// EtcdStatus is the member in that node's process.
type EtcdStatus struct {
	Member  plan.ID `json:"member"`
	Cluster plan.ID `json:"cluster"`
	plan.Status
	Leaderless *float64 `json:"leaderless_seconds,omitempty"` // since it last saw a leader; nil while it does
	Learners   []string `json:"learners,omitempty"`           // slots whose members have no vote yet, as applied here
	Clients    []string `json:"client_urls"`                  // that this node advertises
}

// BackupStatus is the account of a node's backup keeper. Every node looks what the store holds; the schedule is the
// leading one's.
type BackupStatus struct {
	Leading bool `json:"leading"` // the schedule runs on this node
	// Asked is when the store told this node what it holds, nil if it never did; StoreError is why it did not when it
	// was asked last.
	Asked      *time.Time `json:"asked,omitempty"`
	StoreError string     `json:"store_error,omitempty"`
	Count      int        `json:"count"` // good backups in the store
	// Failed are the last of the BadCount backups that a verify or a drill has found to be bad. Skipped is the newest
	// of all, if it is one of them: then Name is an older one.
	Failed   []FailedBackup `json:"failed,omitempty"`
	BadCount int            `json:"bad_count,omitempty"`
	Skipped  string         `json:"skipped,omitempty"`

	Name     string     `json:"name,omitempty"`
	Time     *time.Time `json:"time,omitempty"`     // of the newest good backup in the store, by generation and revision
	Verified *time.Time `json:"verified,omitempty"` // when it was last proven
	// Generation and Revision order it: of two nodes' accounts the one with the higher is the newer, whatever the times
	// say.
	Generation uint64       `json:"generation,omitempty"`
	Revision   int64        `json:"revision,omitempty"`
	Database   int64        `json:"database,omitempty"` // size of the database in it
	Size       int64        `json:"size,omitempty"`     // as stored
	Due        *time.Time   `json:"due,omitempty"`
	Failures   int          `json:"failures,omitempty"` // in a row
	Error      string       `json:"error,omitempty"`
	Overdue    bool         `json:"overdue,omitempty"`
	Saving     *time.Time   `json:"saving,omitempty"`  // since when a backup is being saved
	Spooled    []string     `json:"spooled,omitempty"` // wait on this node to be copied to the store
	Drill      *DrillStatus `json:"drill,omitempty"`
	Prune      *PruneStatus `json:"prune,omitempty"`
}

// FailedBackup is a backup that a later proof speaks against.
type FailedBackup struct {
	Name  string    `json:"name"`
	Proof string    `json:"proof"` // verify or drill
	Time  time.Time `json:"time"`  // of the proof
	By    string    `json:"by,omitempty"`
	Error string    `json:"error"`
}

// DrillStatus tells of the last drill: whether a backup could be restored.
type DrillStatus struct {
	Name    string     `json:"name,omitempty"` // of the backup
	Time    *time.Time `json:"time,omitempty"`
	Seconds float64    `json:"seconds,omitempty"` // it took
	Error   string     `json:"error,omitempty"`   // why the backup is not what it should be
	Untried string     `json:"untried,omitempty"` // why the last one could not be tried
	Checked []string   `json:"checked,omitempty"` // what it compared with what was saved
	// Unrecorded says that nothing but the database in the backup tells what was saved.
	Unrecorded bool       `json:"unrecorded,omitempty"`
	Running    string     `json:"running,omitempty"` // the backup that is being drilled
	Due        *time.Time `json:"due,omitempty"`
	Off        string     `json:"off,omitempty"` // why none are made by the schedule
}

// SkippedText says that the newest backup is bad, and which one is the newest good one.
func (b BackupStatus) SkippedText() string {
	if b.Name == "" {
		return fmt.Sprintf("the newest backup, %s, is bad, and the store holds NO good one", b.Skipped)
	}
	return fmt.Sprintf("the newest backup, %s, is bad: the newest good one is %s", b.Skipped, b.Name)
}

// PruneStatus tells of the last pruning by this node.
type PruneStatus struct {
	Time  time.Time         `json:"time"`
	Kept  map[string]string `json:"kept,omitempty"` // what the store did not let go, and why
	Error string            `json:"error,omitempty"`
}

// Text says what is wrong with the last pruning.
func (p *PruneStatus) Text() string {
	if p.Error != "" {
		return "the store could not be pruned: " + p.Error
	}
	name := slices.Min(slices.Collect(maps.Keys(p.Kept)))
	return fmt.Sprintf("%d expired backups are still there, such as %s: %s", len(p.Kept), name, p.Kept[name])
}

// Verdict on a cluster.
type Verdict string

const (
	// Healthy: nothing is found that is worse than a warning.
	Healthy Verdict = "healthy"
	// Degraded: it serves, and something that it relies on is missing or fails.
	Degraded Verdict = "degraded"
	// NoLeaderYet: a majority of the members run, and have no leader yet.
	NoLeaderYet Verdict = "electing"
	// NoQuorum: it does not serve.
	NoQuorum Verdict = "no quorum"
	// Unknown: the node that was asked has just begun, and has not heard of enough members to say.
	Unknown Verdict = "unknown"
)

// ClusterStatus is the answer of `holdfast status`.
type ClusterStatus struct {
	Cluster string  `json:"cluster"`
	Health  Verdict `json:"health"`
	// Findings are all that was found, the worst first.
	Findings []Finding    `json:"findings,omitempty"`
	Record   *plan.Record `json:"record,omitempty"`

	Leader string        `json:"leader,omitempty"` // node; empty: there is none
	Set    *plan.SlotSet `json:"set,omitempty"`    // slots that the cluster has accepted; none: those of the record
	// Founders are the slots with which a restore would continue, as the asked node sees it; none where it knows no
	// cluster.
	Founders []string    `json:"founders,omitempty"`
	Paused   *plan.Pause `json:"paused,omitempty"`
	Lock     *plan.Lock  `json:"lock,omitempty"` // who may be down on purpose
	// Rotation is that of the authorities that is open, with the clients that any node has seen.
	Rotation *RotationStatus `json:"rotation,omitempty"`

	Nodes []NodeStatus `json:"nodes"`
	// Observers are those of all nodes.
	Observers []string `json:"observers,omitempty"`

	Asked string    `json:"asked"` // the node that answered
	Time  time.Time `json:"time"`
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

// Self is the node that was asked, nil if it does not know itself.
func (s *ClusterStatus) Self() *NodeStatus {
	i := slices.IndexFunc(s.Nodes, func(n NodeStatus) bool { return n.Node == s.Asked })
	if i < 0 {
		return nil
	}
	return &s.Nodes[i]
}

// leads reports whether the node leads, and a quorum has just confirmed that.
func (n NodeStatus) leads() bool {
	return n.Reached && n.Etcd != nil && n.Etcd.Leader && n.Etcd.HasLead && n.Etcd.Confirmed
}

// fresh is how many seconds ago a write may have reached a member whose disk writes.
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

// UpkeepStatus is the account of a node's care for its database. Sizes are bytes.
type UpkeepStatus struct {
	plan.Judgement
	// Growth is by how much the live data grows in a day, as it did in the last day; nil until an hour is known.
	Growth   *int64        `json:"growth_per_day,omitempty"`
	Defrags  int           `json:"defragmentations,omitempty"` // since this process began
	Failures int           `json:"failures,omitempty"`         // that failed
	Last     *DefragStatus `json:"last,omitempty"`
	Advice   string        `json:"advice,omitempty"` // about a full database, where the cure of NOSPACE gives none
	Cures    int           `json:"cures,omitempty"`  // that NOSPACE was disarmed by this member
}

// DefragStatus is one defragmentation.
type DefragStatus struct {
	Time    time.Time  `json:"time"` // of its end
	Seconds float64    `json:"seconds"`
	Before  int64      `json:"before"`
	After   int64      `json:"after"`
	Error   string     `json:"error,omitempty"`
	Again   *time.Time `json:"again,omitempty"` // not before this time, after a failure
}
