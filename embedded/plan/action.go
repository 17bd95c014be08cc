package plan

// Kind names an action.
type Kind string

const (
	// Wait does nothing until the observation changes. Its Why says for what.
	Wait Kind = "wait"
	// Acquire tries once to claim a volume: of a configured slot, or of one in Action.Known, but of none in Action.Avoid.
	Acquire Kind = "acquire"
	// Yield gives up a blank volume, and any moot promises on it, because a rival holds its slot.
	Yield Kind = "yield"
	// Repair writes the missing ledger of a disk with etcd data. The data is that of the member Action.Member, and its
	// cluster ID is that of Action.Record.
	Repair Kind = "repair"
	// Adopt takes over foreign data as the member Action.Member of Action.Record. It puts the record into the store (if
	// Action.Mirror), moves the data to where etcd is started on it, and writes the ledger. Steps that were done before
	// are not repeated.
	Adopt Kind = "adopt"
	// SetAside renames etcd's data and makes the disk a replacement in Action.Record. If the leader Action.Node is the
	// reason, that leader is asked directly first.
	SetAside Kind = "set-aside"
	// Promise appends Action.Charter to the ledger's promises.
	Promise Kind = "promise"
	// Commit accepts Action.Record as founder: first in the store (if Action.Mirror), then on the disk.
	Commit Kind = "commit"
	// Vacate accepts Action.Record as a replacement: this disk waits for admission.
	Vacate Kind = "vacate"
	// Accept accepts the admission as learner Action.Member of Action.Record.
	Accept Kind = "accept"
	// Start starts etcd with Action.Peers as the member Action.Member: as founder, as joiner (Action.Join), or on its own
	// data. etcd chooses a joiner's ID from the member list of a running member. If it is not Action.Member, the ID was
	// given to another disk: the coordinator stops etcd at once, before it announces the member.
	Start Kind = "start"
	// Replace, on the leader: ask Action.Node directly whether its disk is vacant. Then remove the member Action.Member
	// (if not 0), and add a learner for Action.Slot and Action.Disk with Action.PeerURL.
	Replace Kind = "replace"
	// Promote, on the leader: promote the learner Action.Member if it has caught up.
	Promote Kind = "promote"
	// Renounce carries out an operator's order: the disk forgets its promises and record, and with
	// Action.Mirror the store's record is moved aside.
	Renounce Kind = "renounce"
	// Mirror puts Action.Record, our own, into a store that does not know it.
	Mirror Kind = "mirror"
	// Propose puts the proposal that Action.Request asks for into the store: the restore of a backup, which is verified
	// first, or a recovery from a survivor.
	Propose Kind = "propose"
	// Dismiss deletes the command of Action.Request from the store, because it will never be carried out.
	Dismiss Kind = "dismiss"
	// Prepare builds a data directory beside etcd's, and then notes it in the ledger. It builds it from the backup of
	// Action.Restore, fetched and verified, or on a survivor from its own database and whole log. If etcd runs, it
	// continues.
	Prepare Kind = "prepare"
	// Discard removes what was built for a restore or a recovery that came to nothing.
	Discard Kind = "discard"
	// Conclude makes Action.Record the outcome of the open proposal, unless the store has another one already.
	Conclude Kind = "conclude"
	// Enter leaves the previous generation for good: it hands over, stops etcd if it runs, and only then accepts
	// Action.Record on this disk, as a founder. So a disk in a record never votes in an older generation.
	Enter Kind = "enter"
	// Swap sets etcd's data aside, puts what was built for Action.Record in its place, and notes that its log has begun.
	// Steps that were done before are not repeated.
	Swap Kind = "swap"
	// Leave stops the member for good, for a proposal to end its generation, and notes Action.Left on the disk. The
	// member never votes in that generation again, unless the proposal is aborted.
	Leave Kind = "leave"
	// Stay revokes a Leave, because the proposal Action.Aborted was aborted.
	Stay Kind = "stay"
	// Note writes into the ledger one of: the slots Action.Set that the cluster has accepted; that the proposal
	// Action.Aborted was aborted; that holdfast runs all of the adopted cluster with the record Action.Taken, or, with
	// Action.Return, that the cluster goes back; Action.Secured, how far this disk has come from http to https.
	Note Kind = "note"
	// Resize, on the leader: make the cluster accept Action.Set, through raft.
	Resize Kind = "resize"
	// Update, on the leader: give the member Action.Member of Action.Slot the peer URL Action.PeerURL.
	Update Kind = "update"
	// Remove, on the leader: remove the member Action.Member of Action.Slot, which the cluster no longer wants.
	Remove Kind = "remove"
	// HandOver transfers the leadership to another voter.
	HandOver Kind = "hand-over"
	// Retire releases the volume for any node to claim: its slot is no longer in the cluster.
	Retire Kind = "retire"
	// Unlock returns the disruption lock, because its purpose is done and this member serves again.
	Unlock Kind = "unlock"
	// Defrag takes the disruption lock, hands over if this member leads, and defragments its database.
	Defrag Kind = "defrag"
	// Reload takes the disruption lock, hands over if this member leads, and stops the member. The member is then started
	// with the authorities that are in its files now.
	Reload Kind = "reload"
	// Compact, on the leader of a cluster that is out of space: compact the history up to Action.Revision.
	Compact Kind = "compact"
	// Raise makes etcd raise Action.Alarm for this member: NOSPACE, because less than the reserve is free on its volume,
	// or CORRUPT, because an operator gives its data up.
	Raise Kind = "raise"
	// Disarm, on the leader: disarm the alarm NOSPACE, because every database and every volume has room again.
	Disarm Kind = "disarm"
)

// Action is what to do now and why. Fields that the kind does not name are zero.
type Action struct {
	Kind      Kind
	Why       string    // one sentence for the operator: what is done, or what it waits for
	Obstacles []string  // what else prevents progress, one sentence each
	Commands  []Command // those in Why and Obstacles, in order

	Charter  *Charter
	Record   *Record
	Restore  *Restore
	Request  *Request
	Mirror   bool
	Over     bool // Adopt: the store's record is of a cluster that was given back, and is replaced
	Join     bool
	Node     string
	Slot     string
	Disk     string
	Member   uint64
	Alarm    string
	Peers    map[string]string // slot -> peer URL
	Avoid    map[string]string // slot -> why not
	Known    []string          // slots of the cluster that the configuration does not name
	Set      *SlotSet
	Left     *Left
	Aborted  string
	Taken    string
	Return   bool
	Ask      bool // Note: first ask each other member's node directly whether it runs its member of that record
	Revision int64
	Secured  *Secured // also of Accept
	PeerURL  string
	Reason   string // SetAside: RolledBack, or "" for a former member
}
