package plan

import (
	"fmt"
	"slices"
	"time"
)

// Observation is all that a node knows when it decides. Absent knowledge is marked as such. It has groups for what is
// read together (Claim, Disk, Member, Store, …), and single fields for what the node itself remembers or was told.
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
	// Drained: an operator has had etcd stopped here for a while. Stopping: the process was told to end.
	Drained, Stopping bool
	// Unable is why the restore or recovery that is open, or that the disk has entered, cannot be prepared here, "" if
	// nothing is known against it.
	Unable string
	// Holders remembers which node held each slot of our record last, as [Holders] said.
	Holders map[string]string
	// Twin is the address of another live process that calls itself as this node does; "" for none.
	Twin string
	// Early: the process has only begun to gossip, so that a rival for our slot may not have been heard of.
	// It ends soon, whatever the gossip brings: a failing gossip must not keep a member down.
	Early bool
	// Stirred: who lives, or what somebody holds, has changed a moment ago, so that hosts may still be taking slots.
	Stirred bool
	// Starting: the store has not answered this process yet, which began only a moment ago.
	Starting bool
	// Alone: this node has read the open proposal, and has had no leader for as long since as a living leader needs to
	// read it and to abort it (R16).
	Alone bool
	// Leaderless: neither this member nor a live node has told of a leader for just as long, so that it is no election
	// that is under way.
	Leaderless bool
	// Blind: until this process read how the generation ended, it could not read the store for just as long, so that it
	// could not have prevented it (R17).
	Blind bool

	// Resting says why the care for the databases has to wait here: a defragmentation has failed, or was made a while
	// ago. "" if not.
	Resting string
	// Compacted: the history was compacted here a moment ago, and since the alarm NOSPACE came up.
	Compacted bool
}

// Config is the part of the configuration that decisions need.
type Config struct {
	Cluster string
	Slots   []string // wanted slots, sorted
	PeerURL string   // pattern with {slot}
	// FromHTTP is the port at which a member that runs here serves http as well (tls.from-http), "" for none.
	FromHTTP string
	Etcd     string   // version of the etcd in this holdfast, as 3.7.3
	Clients  []string // client URLs of a member that runs here, for others to be told
	Control  string   // host:port where this node answers other machines, for the same; "" if nowhere
	Never    bool     // cluster.founding: never
	Seeded   bool     // there are seeds: this node expects others in the gossip
	// Automatic: restore.automatic. Where every disk is blank and the store knows the cluster, the newest backup
	// is restored without an operator.
	Automatic bool
	// Foreign: restore.foreign-commands. A restore that another program has asked for in the store is proposed.
	Foreign bool
	// Recovery: cluster.recovery is automatic. A majority whose disks are proven to be gone is given up without an
	// operator.
	Recovery bool
	// Adopt: cluster.adopt. Data of etcd-manager or of plain etcd on a volume is taken over in place (R22).
	Adopt  bool
	Yields bool // the volume provider gives this host any slot, so a blank one is given up to a rival
	Upkeep Upkeep
}

// Claim is what is known of the volume that this node holds.
type Claim struct {
	Held     bool
	Slot     string
	Epoch    uint64
	Disk     string // UUID
	Lock     string // see [Facts]
	Mismatch string // not empty: the identity on the volume is not that of the volume
	// Missing: which disk with data this node held last, and does not find where it was; "" for none.
	Missing string
	None    string // not held: why no volume was free at the last try
	Failed  string // not held: why one could not be claimed at the last try
	Standby string // not held: see [Facts]
	// Room is what the volume has, and Short says that etcd's reserve is not free on it: see [Room.Short].
	Room  Room
	Short bool
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
	// Prepared is the restore or recovery whose data lies, verified and complete, beside etcd's on this disk.
	Prepared *Restore `json:"prepared,omitempty"`
	// Set is the newest slots of its generation that this disk knows of.
	Set *SlotSet `json:"set,omitempty"`
	// Left: the member has stopped for good for this proposal, unless that is aborted. Aborted are the proposals to end
	// this generation that were, as the store said.
	Left    *Left    `json:"left,omitempty"`
	Aborted []string `json:"aborted,omitempty"`
	// Taken is the ID of the record of an adopted cluster whose voters were all seen to be run by holdfast.
	Taken string `json:"taken,omitempty"`
	// Secured is how far the disk has come from http to https in its generation.
	Secured *Secured `json:"secured,omitempty"`
}

// Promise returns the newest promised charter.
func (l Ledger) Promise() *Charter {
	if len(l.Promises) == 0 {
		return nil
	}
	return &l.Promises[len(l.Promises)-1]
}

// forgetful reports whether the disk took part in a cluster and does not know in which: it must not pass for a blank
// one.
func (l Ledger) forgetful() bool { return l.Record == nil && (l.Started != "" || l.Left != nil) }

// Disk is what is on the held volume.
type Disk struct {
	Unknown   string // not empty: the disk could not be read, and why
	Unfit     string // not empty: etcd was not started on the data, which it would panic on, and why
	Ledger    Ledger
	HasLedger bool   // the ledger file exists
	Fresh     bool   // with a record: this very process has committed the founding of it, on this disk
	Built     string // ID of the proposal whose directory lies beside etcd's, finished or not; "" for none
	WAL       bool   // etcd's write-ahead log exists
	Member    uint64 // with WAL: the member ID in it
	ClusterID uint64 // with WAL: the cluster ID in it
	// with a record: the member ID that a founder has in this slot, 0 if it is no founder's slot
	Founder   uint64
	Founders  map[string]uint64 // with a record: those of all founders, by slot
	RecordCID uint64            // with a record: the cluster ID that etcd derives from the record
	// Log is where etcd's log ends: known while etcd does not run, and of a member that has had no leader for a while.
	Log *LogEnd
	// Term is the newest term that the disk has noted; known while etcd does not run.
	Term uint64
	// Origin is what foreign data says, before its cluster has a record here; nil if there is none.
	Origin *Origin
	// Superseded is why the data is of the past: the program that it was given back to has made another cluster there
	// since. "" if nothing says so.
	Superseded string
}

// LogEnd is the last entry of a log. The more advanced of two logs is the one with the higher term, then the longer
// one (R4).
type LogEnd struct {
	Term  uint64 `json:"term"`
	Index uint64 `json:"index"`
}

// SlotSet is which slots a cluster wants, as a majority of its voters' holders has wanted it to (R15). It is kept in
// etcd itself, and counts in one generation only; the slots of a generation that has none are its record's.
type SlotSet struct {
	Record string   `json:"record"` // ID of the generation's record
	Serial uint64   `json:"serial"` // rises by 1 with each change, from 1
	Slots  []string `json:"slots"`  // sorted
	From   []string `json:"from"`   // the members' slots when it was agreed on, sorted; some may be members still
}

// Lock is who holds the disruption lock (R14): at most one member at a time may be down on purpose. It is a lease in
// etcd, so that it ends by itself when its holder does not come back.
type Lock struct {
	Slot    string    `json:"slot"`
	Node    string    `json:"node"`
	Purpose string    `json:"purpose"` // drain, stop, defrag, …
	Since   time.Time `json:"since"`   // for people
	// Record is the ID of the generation's record; "" in those of versions that did not say it.
	Record string `json:"record,omitempty"`
}

// String says who holds the lock, for people.
func (l Lock) String() string {
	return fmt.Sprintf("%s (slot %s) holds the disruption lock (%s) since %s", l.Node, l.Slot, l.Purpose,
		l.Since.Format(time.RFC3339))
}

// Pause is an operator's word that nothing is to be done by itself, kept in etcd. It pauses neither fencing nor
// stopping, nor what an operator asks for.
type Pause struct {
	By     string    `json:"by"`
	Why    string    `json:"why,omitempty"`
	Since  time.Time `json:"since"`
	Return bool      `json:"return,omitempty"` // the cluster goes back to another program (R22)
	// Record is the ID of the record of the generation in which it was said; "" of versions that did not say it.
	Record string `json:"record,omitempty"`
}

// MemberInfo is one entry of etcd's member list.
type MemberInfo struct {
	ID        uint64 `json:"id"`
	Slot      string `json:"slot"` // from the peer URL, so that a member that never started has one, too
	Learner   bool   `json:"learner,omitempty"`
	Started   bool   `json:"started,omitempty"`   // it has published its name
	Connected bool   `json:"connected,omitempty"` // to the leader; only meaningful on the leader
	// PeerURL is its only peer URL, "" of one with several or none, and where an older version tells of it.
	PeerURL string `json:"peer_url,omitempty"`
	// Matched is up to which index its log agrees with the leader's, and Receiving says that it is being sent a whole
	// database: only known on the leader. Stuck: a learner that lags has made no progress for minutes.
	Matched   uint64 `json:"-"`
	Receiving bool   `json:"-"`
	Stuck     bool   `json:"-"`
	// Acked, on the leader: up to where the member has acknowledged its log in its term, 0 if it has not.
	Acked uint64 `json:"acked,omitempty"`
}

// Voters are those of a member list that vote.
func Voters(all []MemberInfo) []MemberInfo {
	return slices.DeleteFunc(slices.Clone(all), func(m MemberInfo) bool { return m.Learner })
}

// InSync reports, on the leader, whether a member has as much of the log as etcd demands of a learner to be promoted;
// where raft tells nothing, whether it is connected.
func (m Member) InSync(of MemberInfo) bool {
	for _, i := range m.Members {
		if i.ID == m.ID && i.Matched > 0 {
			return float64(of.Matched) >= 0.9*float64(i.Matched)
		}
	}
	return of.Connected
}

// Member is the state of the etcd member in this process. It is flat, so that one look at etcd fills it, and a story
// sets a single field of it.
type Member struct {
	Running bool
	Ready   bool // has joined and seen a leader at least once
	ID      uint64
	Cluster uint64 // etcd's ID of it
	Status
	Removed  bool // etcd ended because a quorum has removed this member
	Members  []MemberInfo
	Admitted []Admission // what this leader has granted
	Leads    uint64      // the term in which it leads, 0 if it does not
	Near     []uint64    // members that raft messages flow to from this one, no matter who leads

	// Stalled: raft shows a leader, and yet no read as for Confirmed was answered in the last 5 s, or two election
	// timeouts, although it was asked for. One that is cut off is shown none by then: the disk of this member may hang,
	// or it cannot apply what is committed.
	Stalled bool
	// Asked is when the last such read was asked for that was answered, zero if none was since the start. Progress is
	// when the applied index was last seen to grow, which on a leader proves that its disk took a write: while there is
	// a leader it grows every few seconds, also where no client writes. Both are for people.
	Asked, Progress time.Time

	// What is applied here of what the cluster remembers for us.
	Set    *SlotSet
	Lock   *Lock
	Paused *Pause
	// Consent is the leader's word that a proposal may end this generation.
	Consent *Consent

	// Compacted is the revision up to which the history is gone from this member's database, 0 for not at all.
	Compacted int64
	Snapshot  bool // the database is being read for a backup, ours or a client's
	Judgement
	Defragging bool // the database is being defragmented, or is about to be

	Trusts []string // authorities whose peers it accepts, by fingerprint
	Issuer string   // authority of the peer's certificate that is presented
	Stale  bool     // the trusted authorities' files have changed since it was started
}

// Admission is a leader's word that a learner was added for one disk and no other.
type Admission struct {
	Slot string `json:"slot"`
	Disk string `json:"disk"`
	ID   uint64 `json:"id"`
}

// Peer is another node as the gossip shows it.
type Peer struct {
	Node  string
	Live  bool
	Facts *Facts // nil: it has said nothing yet, or nothing that counts
	// Unread is why what it has said does not count: it is not whole, or of a later version. Unknown is not none.
	Unread string
}

// Unasked is why a store is Unknown to a process that has just begun.
const Unasked = "it has not been asked yet"

// Store is what the backup store knows of the cluster.
type Store struct {
	Unknown string  // not empty: it did not answer, and why
	Unread  bool    // Unknown, for it answered with what is not whole, or of a newer version
	ID      string  // its random identity
	Record  *Record // the newest record it holds; nil: it knows none
	CID     uint64  // with a record: the cluster ID that etcd derives from it
	// Managed is by what the store shows that etcd-manager keeps a cluster in it, "" if nothing does, or an operator has
	// said that it may be founded all the same. Only a store without a record says it.
	Managed string
	// Returned: the adopted cluster of Record was given back to the program that it came from, its last member too.
	Returned bool
	// Restore is the open proposal for the generation after Record, nil if there is none.
	Restore *Restore
	// Attempts is how many proposals there were for the generation after Record, the open one included.
	Attempts int
	// Concluded are the generations that a proposal and its outcome in the store prove, in their order. Aborted are the
	// proposals for the generation after Record that were aborted, in their order.
	Concluded []Record
	Aborted   []Abort
	// Unproven is the newest generation that rests on an object which nobody of the cluster has signed, 0 if none does;
	// Doubt says which object, and why. Where the disk is in an older generation, the store is Unknown to [Next], and
	// these two are all that it tells.
	Unproven uint64
	Doubt    string
	// Nonce is what this process has put into the store for others to read there, "" while it has not. Met are the live
	// nodes whose own was read in this store: they share it.
	Nonce string
	Met   []string
	// Late are the live nodes that may have put theirs there after this process read the store last.
	Late []string
	// Requests are the foreign commands that lie in the store, oldest first.
	Requests []Request
	// Newest is how far the newest verified backup reaches, nil while that was not asked: it is only for a member
	// without a leader.
	Newest *BackupStand
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
	Join    bool // holdfast rejoin: what this disk holds is set aside for the generation that began without it
	Differs bool // holdfast rejoin: this member's data differs from what a majority of all voters has, and is given up
	// Alone is the recovery that holdfast recover --without-store asks for: this disk continues, and every other voter
	// is lost.
	Alone *Restore
}
