package plan

// Observation is all that a node knows when it decides. Absent knowledge is marked as such.
type Observation struct {
	Node   string // our name
	Config Config // what the operator wants
	Claim  Claim  // the volume we hold, if any
	Disk   Disk   // what is on it
	Member Member // the etcd member in this process
	Peers  []Peer // every other node ever heard of, lost ones too
	Store  Store  // what the backup store says
	// Witnesses are the records that volumes bear in their tags, as far as they could be read.
	Witnesses []Witness
	Orders    Orders // what an operator has asked for
	// Parked: an operator has had the volume released, and this process claims none any more.
	Parked bool
	// Holders remembers which node held each slot of our record last, as [Holders] said.
	Holders map[string]string
	// Twin is the address of another live process that calls itself as this node does; "" for none.
	Twin string
	// Early: the process has only begun to gossip, so that a rival for our slot may not have been heard of.
	// It ends soon, whatever the gossip brings: a failing gossip must not keep a member down.
	Early bool
}

// Config is the part of the configuration that decisions need.
type Config struct {
	Cluster string
	Slots   []string // wanted slots, sorted
	PeerURL string   // pattern with {slot}
	Never   bool     // cluster.founding: never
	Seeded  bool     // there are seeds: this node expects others in the gossip
	Yields  bool     // the volume provider gives this host any slot, so a blank one is given up to a rival
}

// Claim is what is known of the volume that this node holds.
type Claim struct {
	Held     bool
	Slot     string
	Epoch    uint64
	Disk     string // UUID
	Mismatch string // not empty: the identity on the volume is not that of the volume
	None     string // not held: why no volume could be claimed at the last try
}

// Role says how the disk belongs to its record.
type Role string

const (
	RoleNone        Role = ""            // no record accepted
	RoleFounder     Role = "founder"     // named by the record's charter
	RoleJoiner      Role = "joiner"      // admitted by a leader as the member Ledger.Join
	RoleReplacement Role = "replacement" // belongs to the slot, but not to the member list: waits for admission
)

// Ledger is what a disk remembers of the protocol. It is written, with fsync, before anything that
// depends on it is done or said.
type Ledger struct {
	Promises []Charter `json:"promises,omitempty"` // every charter ever promised, oldest first
	Record   *Record   `json:"record,omitempty"`   // the accepted generation
	Role     Role      `json:"role,omitempty"`
	Join     uint64    `json:"join,omitempty"`    // RoleJoiner: the member ID that the leader gave us
	Started  string    `json:"started,omitempty"` // the disk UUID, once etcd's write-ahead log exists
}

// Promise returns the newest promised charter.
func (l Ledger) Promise() *Charter {
	if len(l.Promises) == 0 {
		return nil
	}
	return &l.Promises[len(l.Promises)-1]
}

// Disk is what is on the held volume.
type Disk struct {
	Unknown   string // not empty: the disk could not be read, and why
	Ledger    Ledger
	HasLedger bool   // the ledger file exists
	WAL       bool   // etcd's write-ahead log exists
	Member    uint64 // with WAL: the member ID in it
	ClusterID uint64 // with WAL: the cluster ID in it
	Founder   uint64 // with a record: the member ID that a founder has in this slot, 0 if it is no founder's slot
	RecordCID uint64 // with a record: the cluster ID that etcd derives from the record
}

// MemberInfo is one entry of etcd's member list.
type MemberInfo struct {
	ID        uint64 `json:"id"`
	Slot      string `json:"slot"` // from the peer URL, so that a member that never started has one, too
	Learner   bool   `json:"learner,omitempty"`
	Started   bool   `json:"started,omitempty"`   // it has published its name
	Connected bool   `json:"connected,omitempty"` // to the leader; only meaningful on the leader
}

// Member is the state of the etcd member in this process.
type Member struct {
	Running  bool
	Ready    bool // has joined and seen a leader at least once
	Leader   bool // is the raft leader
	HasLead  bool // knows a raft leader now
	Learner  bool
	ID       uint64
	Removed  bool // etcd ended because a quorum has removed this member
	Members  []MemberInfo
	Admitted []Admission // what this leader has granted
}

// Admission is a leader's word that a learner was added for one disk and no other.
type Admission struct {
	Slot string `json:"slot"`
	Disk string `json:"disk"`
	ID   uint64 `json:"id"`
}

// Phase sums up a held disk for others.
type Phase string

const (
	PhaseNone    Phase = ""        // no disk
	PhaseWaiting Phase = "waiting" // held, but not fit for use (unreadable, foreign); the holder says why
	PhaseBlank   Phase = "blank"   // nothing but perhaps promises: never voted
	PhaseFounder Phase = "founder" // accepted a record, may start as its founder
	PhaseJoiner  Phase = "joiner"  // admitted, has not started
	PhaseVacant  Phase = "vacant"  // a replacement: has no member data and waits for admission
	PhaseData    Phase = "data"    // has a write-ahead log
)

// Facts is what a node says of itself in the gossip. Everything in it that a decision of another node
// rests on stays true once it is true (a promise, a record, a removal), or is confirmed by a direct call.
type Facts struct {
	Version  int          `json:"version"` // 1
	Slot     string       `json:"slot,omitempty"`
	Epoch    uint64       `json:"epoch,omitempty"`
	Disk     string       `json:"disk,omitempty"`
	Phase    Phase        `json:"phase,omitempty"`
	Slots    []string     `json:"slots,omitempty"`    // wanted
	PeerURL  string       `json:"peer_url,omitempty"` // wanted pattern
	Promise  *Charter     `json:"promise,omitempty"`
	Record   *Record      `json:"record,omitempty"`
	Join     uint64       `json:"join,omitempty"`
	Member   uint64       `json:"member,omitempty"` // ID in the write-ahead log
	CID      uint64       `json:"cid,omitempty"`    // cluster ID in the write-ahead log
	Running  bool         `json:"running,omitempty"`
	Leader   bool         `json:"leader,omitempty"`
	Members  []MemberInfo `json:"members,omitempty"`  // applied list of a running member
	Removed  []uint64     `json:"removed,omitempty"`  // members that a quorum has removed
	Admitted []Admission  `json:"admitted,omitempty"` // of a leader
	// Holders of a running member: which node held each slot last. A node that is back without its disk has
	// no slot to show any more, and yet its slot is not anybody's.
	Holders map[string]string `json:"holders,omitempty"`
	Store   string            `json:"store,omitempty"` // random ID of its backup store, "" while unknown
}

// Peer is another node as the gossip shows it.
type Peer struct {
	Node  string
	Live  bool
	Facts *Facts // nil: it has said nothing yet
}

// Store is what the backup store knows of the cluster.
type Store struct {
	Unknown string  // not empty: it did not answer, and why
	ID      string  // its random identity
	Record  *Record // the newest record it holds; nil: it knows none
	CID     uint64  // with a record: the cluster ID that etcd derives from it
}

// Witness is the tag of a volume that speaks of a cluster. It may be old, and absent it says nothing: it vetoes a
// founding, and never supports one (R9).
type Witness struct {
	Volume string
	Token  string // of the record that its holder has accepted
}

// Orders are decisions that only an operator may take. They hold until they are carried out or the
// process ends.
type Orders struct {
	Abandon bool // holdfast found --abandon
	New     bool // holdfast found --new
}

// Facts makes what we say of ourselves.
func (o Observation) Facts(removed []uint64) Facts {
	f := Facts{Version: 1, Slots: o.Config.Slots, PeerURL: o.Config.PeerURL, Store: o.Store.ID}
	if !o.Claim.Held {
		return f
	}
	l := o.Disk.Ledger
	f.Slot, f.Epoch, f.Disk, f.Phase = o.Claim.Slot, o.Claim.Epoch, o.Claim.Disk, o.phase()
	f.Promise, f.Record, f.Join = l.Promise(), l.Record, l.Join
	f.Member, f.CID = o.Disk.Member, o.Disk.ClusterID
	f.Running, f.Leader, f.Removed = o.Member.Running, o.Member.Leader, removed
	if o.Member.Running {
		f.Members, f.Holders = o.Member.Members, o.Holders
	}
	if o.Member.Leader {
		f.Admitted = o.Member.Admitted
	}
	return f
}

func (o Observation) phase() Phase {
	d := o.Disk
	switch {
	case o.Claim.Mismatch != "" || d.Unknown != "":
		return PhaseWaiting
	case d.WAL && d.Ledger.Record == nil:
		return PhaseWaiting
	case d.WAL:
		return PhaseData
	case d.Ledger.Record == nil:
		return PhaseBlank
	case d.Ledger.Started == "" && d.Ledger.Role == RoleFounder:
		return PhaseFounder
	case d.Ledger.Started == "" && d.Ledger.Role == RoleJoiner:
		return PhaseJoiner
	default:
		return PhaseVacant
	}
}
