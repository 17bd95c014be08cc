package plan

import (
	"fmt"
	"slices"
	"time"
)

// Observation is everything that a node knows when it decides. What is not known is marked as unknown. It has groups
// for what is read together (Claim, Disk, Member, Store, …), and single fields for what the node remembers or was told.
type Observation struct {
	Node   string // this node's name
	Config Config // what the operator wants
	Claim  Claim  // the volume this node holds, if any
	Disk   Disk   // what is on it
	Member Member // the etcd member in this process
	Peers  []Peer // every other node ever heard of, including lost ones
	Store  Store  // what the backup store says
	// Witnesses are the records named in volumes' tags, as far as they could be read.
	Witnesses []Witness
	Orders    Orders // from an operator
	// Parked: an operator had the volume released, and this process claims no volume any more.
	Parked bool
	// Drained: an operator has stopped etcd here for a while. Stopping: the process was told to stop.
	Drained, Stopping bool
	// Unable is why the restore or recovery that is open, or that the disk has entered, cannot be prepared here; "" if
	// nothing is known to prevent it.
	Unable string
	// Holders remembers which node last held each slot of our record, as [Holders] returned it.
	Holders map[string]string
	// Twin is the address of another live process with this node's name; "" if there is none.
	Twin string
	// Early: the process has just joined the gossip, and may not have heard of a rival for our slot. It ends soon,
	// whatever the gossip brings: failing gossip must not keep a member down.
	Early bool
	// Stirred: a node has come, gone, or changed what it holds a moment ago, so hosts may still be taking slots.
	Stirred bool
	// Starting: this process has just begun, and the store has not answered it yet.
	Starting bool
	// Alone: this node has read the open proposal, and has had no leader since, for at least as long as a living leader
	// needs to read the proposal and abort it (R16).
	Alone bool
	// Leaderless: for just as long, neither this member nor any live node has reported a leader. So this is not merely an
	// election.
	Leaderless bool
	// Blind: for just as long before this process read how the generation ended, it could not read the store. So it could
	// not have prevented that end (R17).
	Blind bool

	// Resting says why upkeep of this node's database has to wait: a defragmentation failed, or was done a while ago. ""
	// if it need not wait.
	Resting string
	// Compacted: the history was compacted here a moment ago, after the alarm NOSPACE was raised.
	Compacted bool
}

// Config is the part of the configuration that decisions need.
type Config struct {
	Cluster string
	Slots   []string // wanted slots, sorted
	PeerURL string   // pattern with {slot}
	// FromHTTP is the port at which a member here also serves http (tls.from-http), "" for none.
	FromHTTP string
	Etcd     string   // version of the embedded etcd, such as 3.7.3
	Clients  []string // client URLs of a member here, announced to others
	Control  string   // host:port where this node answers other machines, announced as well; "" if nowhere
	Never    bool     // cluster.founding: never
	Seeded   bool     // there are seeds: this node expects others in the gossip
	// Automatic: restore.automatic. If every disk is blank and the store knows the cluster, the newest backup is restored
	// without an operator.
	Automatic bool
	// Foreign: restore.foreign-commands. A restore that another program requests through the store is proposed.
	Foreign bool
	// Recovery: cluster.recovery is automatic. If a majority of the disks is proven gone, a recovery is proposed without
	// an operator.
	Recovery bool
	// Adopt: cluster.adopt. A volume's data of etcd-manager or plain etcd is taken over in place (R22).
	Adopt  bool
	Yields bool // the volume provider gives this host any slot, so a blank disk is given up to a rival
	Upkeep Upkeep
}

// Claim is what is known about the volume that this node holds.
type Claim struct {
	Held     bool
	Slot     string
	Epoch    uint64
	Disk     string // UUID
	Lock     string // see [Facts]
	Mismatch string // not empty: the identity on the volume does not match the volume
	// Missing is the disk with data that this node held last and cannot find in its place; "" for none.
	Missing string
	None    string // not held: why no volume was free at the last attempt
	Failed  string // not held: why a volume could not be claimed at the last attempt
	Standby string // not held: see [Facts]
	// Room is the volume's size and free space. Short: etcd's reserve is not free on it, see [Room.Short].
	Room  Room
	Short bool
}

// Role says what part the disk has in its record.
type Role string

const (
	RoleNone        Role = ""            // no record accepted
	RoleFounder     Role = "founder"     // named by the record's charter
	RoleJoiner      Role = "joiner"      // admitted by a leader as the member Ledger.Join
	RoleReplacement Role = "replacement" // has the slot, but is not in the member list: waits for admission
)

// Ledger is what a disk remembers about the protocol. It is written, with fsync, before anything that depends on it is
// done or announced.
type Ledger struct {
	Promises []Charter `json:"promises,omitempty"` // every charter ever promised, oldest first
	Record   *Record   `json:"record,omitempty"`   // the accepted generation
	Role     Role      `json:"role,omitempty"`
	Join     uint64    `json:"join,omitempty"`    // RoleJoiner: the member ID that the leader gave us
	Started  string    `json:"started,omitempty"` // the disk UUID, once etcd's write-ahead log exists
	// Prepared is the restore or recovery whose verified, complete data is beside etcd's on this disk.
	Prepared *Restore `json:"prepared,omitempty"`
	// Set is the newest set of slots of its generation that this disk knows of.
	Set *SlotSet `json:"set,omitempty"`
	// Left: the member has stopped for good for this proposal, unless that is aborted. Aborted are the proposals to end
	// this generation that the store showed as aborted.
	Left    *Left    `json:"left,omitempty"`
	Aborted []string `json:"aborted,omitempty"`
	// Taken is the ID of the adopted cluster's record, once holdfast was seen to run all of its voters.
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

// forgetful reports whether the disk took part in a cluster but does not know which: it must not count as blank.
func (l Ledger) forgetful() bool { return l.Record == nil && (l.Started != "" || l.Left != nil) }

// Disk is what is on the held volume.
type Disk struct {
	Unknown   string // not empty: the disk could not be read, and why
	Unfit     string // not empty: etcd was not started on the data, because it would panic, and why
	Ledger    Ledger
	HasLedger bool   // the ledger file exists
	Fresh     bool   // with a record: this process has committed the founding on this disk
	Built     string // ID of the proposal whose directory is beside etcd's, complete or not; "" for none
	WAL       bool   // etcd's write-ahead log exists
	Member    uint64 // with WAL: the member ID in it
	ClusterID uint64 // with WAL: the cluster ID in it
	// With a record: the member ID of the founder in this slot, 0 if no founder has it.
	Founder   uint64
	Founders  map[string]uint64 // with a record: all founders' IDs, by slot
	RecordCID uint64            // with a record: the cluster ID that etcd derives from the record
	// Log is where etcd's log ends: known while etcd does not run, and for a member that has had no leader for a while.
	Log *LogEnd
	// Term is the newest term on the disk; known while etcd does not run.
	Term uint64
	// Origin describes foreign data whose cluster has no record here yet; nil if there is none.
	Origin *Origin
	// Superseded is why the data is out of date: after it was given back, the other program made another cluster there.
	// "" if nothing shows that.
	Superseded string
}

// LogEnd is the last entry of a log. Of two logs, the one with the higher term is more advanced; in the same term, the
// longer one (R4).
type LogEnd struct {
	Term  uint64 `json:"term"`
	Index uint64 `json:"index"`
}

// SlotSet is the set of slots that a cluster wants, as a majority of its voters' holders agreed (R15). It is kept in
// etcd, and counts in one generation only. A generation without one has the slots of its record.
type SlotSet struct {
	Record string   `json:"record"` // ID of the generation's record
	Serial uint64   `json:"serial"` // rises by 1 with each change, from 1
	Slots  []string `json:"slots"`  // sorted
	From   []string `json:"from"`   // the members' slots at the time, sorted; some may still be members
}

// Lock says who holds the disruption lock (R14): at most one member at a time may be down on purpose. It is a lease in
// etcd, so it expires if its holder does not come back.
type Lock struct {
	Slot    string    `json:"slot"`
	Node    string    `json:"node"`
	Purpose string    `json:"purpose"` // drain, stop, defrag, …
	Since   time.Time `json:"since"`   // for people
	// Record is the ID of the generation's record; "" from versions that did not note it.
	Record string `json:"record,omitempty"`
}

// String says who holds the lock, for people.
func (l Lock) String() string {
	return fmt.Sprintf("%s (slot %s) holds the disruption lock (%s) since %s", l.Node, l.Slot, l.Purpose,
		l.Since.Format(time.RFC3339))
}

// Pause is an operator's order, kept in etcd, that the nodes change nothing on their own. It pauses neither fencing nor
// stopping, nor what an operator asks for.
type Pause struct {
	By     string    `json:"by"`
	Why    string    `json:"why,omitempty"`
	Since  time.Time `json:"since"`
	Return bool      `json:"return,omitempty"` // the cluster goes back to another program (R22)
	// Record is the ID of the record of the generation that was paused; "" from versions that did not note it.
	Record string `json:"record,omitempty"`
}

// MemberInfo is one entry of etcd's member list.
type MemberInfo struct {
	ID        uint64 `json:"id"`
	Slot      string `json:"slot"` // from the peer URL, so a member that never started has one, too
	Learner   bool   `json:"learner,omitempty"`
	Started   bool   `json:"started,omitempty"`   // it has published its name
	Connected bool   `json:"connected,omitempty"` // to the leader; only meaningful on the leader
	// PeerURL is its only peer URL, "" if it has several or none, or if an older version reports it.
	PeerURL string `json:"peer_url,omitempty"`
	// Matched is the index up to which its log matches the leader's. Receiving: it is being sent a whole database. Only
	// the leader knows these. Stuck: a lagging learner has made no progress for minutes.
	Matched   uint64 `json:"-"`
	Receiving bool   `json:"-"`
	Stuck     bool   `json:"-"`
	// Acked, on the leader: the index that the member has acknowledged in the leader's term, 0 if none.
	Acked uint64 `json:"acked,omitempty"`
}

// Voters returns the voters of a member list.
func Voters(all []MemberInfo) []MemberInfo {
	return slices.DeleteFunc(slices.Clone(all), func(m MemberInfo) bool { return m.Learner })
}

// InSync reports, on the leader, whether a member has as much of the log as etcd requires to promote a learner. If raft
// reports no progress, it reports whether the member is connected.
func (m Member) InSync(of MemberInfo) bool {
	for _, i := range m.Members {
		if i.ID == m.ID && i.Matched > 0 {
			return float64(of.Matched) >= 0.9*float64(i.Matched)
		}
	}
	return of.Connected
}

// Member is the state of the etcd member in this process. It is flat, so that one look at etcd fills it, and a story
// sets single fields.
type Member struct {
	Running bool
	Ready   bool // has joined and seen a leader at least once
	ID      uint64
	Cluster uint64 // etcd's cluster ID
	Status
	Removed  bool // etcd stopped because the cluster has removed this member
	Members  []MemberInfo
	Admitted []Admission // the learners that this leader has added
	Leads    uint64      // the term in which it leads, 0 if it does not
	Near     []uint64    // members that raft is connected to, no matter who leads

	// Stalled: raft shows a leader, but no read like that of Confirmed was answered within 5 s, or two election timeouts.
	// A member that is cut off has lost its leader by then. So this member's disk may hang, or it cannot apply what is
	// committed.
	Stalled bool
	// Asked is when the last answered read of that kind began, zero if none since the start. Progress is when the applied
	// index last grew, which on a leader proves that its disk took a write. With a leader it grows every few seconds,
	// even if no client writes. Both are for people.
	Asked, Progress time.Time

	// What holdfast keeps in the cluster, as applied here.
	Set    *SlotSet
	Lock   *Lock
	Paused *Pause
	// Consent is the leader's agreement that a proposal may end this generation.
	Consent *Consent

	// Compacted is the revision up to which this member's history is compacted, 0 if it never was.
	Compacted int64
	Snapshot  bool // the database is being read for a backup, ours or a client's
	Judgement
	Defragging bool // the database is being defragmented, or is about to be

	Trusts []string // fingerprints of the authorities whose peers it accepts
	Issuer string   // authority of the peer certificate that it presents
	Stale  bool     // the files of trusted authorities have changed since it started
}

// Admission is a leader's note that it added a learner for exactly one disk.
type Admission struct {
	Slot string `json:"slot"`
	Disk string `json:"disk"`
	ID   uint64 `json:"id"`
}

// Peer is another node as the gossip shows it.
type Peer struct {
	Node  string
	Live  bool
	Facts *Facts // nil: nothing heard yet, or nothing valid
	// Unread is why what the node said does not count: it is incomplete, or from a newer version. Unknown is not none.
	Unread string
}

// Unasked is why the store is Unknown to a process that has just begun.
const Unasked = "it has not been asked yet"

// Store is what the backup store knows about the cluster.
type Store struct {
	Unknown string  // not empty: it did not answer, and why
	Unread  bool    // Unknown, because its content is incomplete or from a newer version
	ID      string  // its random identity
	Record  *Record // the newest record it holds; nil: it knows none
	CID     uint64  // with a record: the cluster ID that etcd derives from it
	// Managed is what in the store shows that etcd-manager keeps a cluster there. It is "" if nothing does, or if an
	// operator has allowed a founding beside it. It is only filled in if the store has no record.
	Managed string
	// Returned: the cluster of Record was given back to its former program, down to the last member.
	Returned bool
	// Restore is the open proposal for the generation after Record, nil if there is none.
	Restore *Restore
	// Attempts counts the proposals for the generation after Record, including the open one.
	Attempts int
	// Concluded are the generations that a proposal and its outcome in the store prove, in order. Aborted are the aborted
	// proposals for the generation after Record, in order.
	Concluded []Record
	Aborted   []Abort
	// Unproven is the newest generation that depends on an object without a valid signature, 0 if none does. Doubt says
	// which object, and why. If the disk is in an older generation, the store is Unknown to [Next] except for these two
	// fields.
	Unproven uint64
	Doubt    string
	// Nonce is what this process has put into the store for others to read, "" while it has not. Met are the live nodes
	// whose own nonce was found in this store: they share it.
	Nonce string
	Met   []string
	// Late are the live nodes that may have put theirs there after this process last read the store.
	Late []string
	// Requests are the foreign commands in the store, oldest first.
	Requests []Request
	// Newest is what the newest verified backup holds. It is nil until the store was asked, which only a member without a
	// leader does.
	Newest *BackupStand
}

// Witness is a volume's tag that names a cluster. It may be old, and its absence means nothing: it vetoes a founding,
// and never supports one (R9).
type Witness struct {
	Volume string
	Token  string // of the record that the volume's holder has accepted
}

// Orders are decisions that only an operator may take. They last until they are carried out, or until the process ends.
type Orders struct {
	Abandon bool // holdfast found --abandon
	New     bool // holdfast found --new
	Join    bool // holdfast rejoin: set aside this disk's data and join the generation that began without it
	Differs bool // holdfast rejoin: give up this member's data, which differs from that of a majority of all voters
	// Alone is the recovery of holdfast recover --without-store: this disk continues, and every other voter is lost.
	Alone *Restore
}
