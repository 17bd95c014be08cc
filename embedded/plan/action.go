package plan

// Kind names an action.
type Kind string

const (
	// Wait does nothing until the observation changes. Its Why says for what.
	Wait Kind = "wait"
	// Acquire tries once to claim a volume, of a configured slot or one in Action.Known, avoiding those in
	// Action.Avoid.
	Acquire Kind = "acquire"
	// Yield gives up a blank volume, and promises of it that are moot, because a rival holds its slot.
	Yield Kind = "yield"
	// Repair writes a ledger that is missing beside etcd data of the member Action.Member, whose cluster
	// ID is that of Action.Record.
	Repair Kind = "repair"
	// Adopt takes up foreign data as that of the member Action.Member of Action.Record: the record first into the store
	// (if Action.Mirror), then the data is put where etcd is started on it, then the ledger. What is done of it already
	// is not done again.
	Adopt Kind = "adopt"
	// SetAside renames etcd's data and makes the disk a replacement in Action.Record. Where that is on the word of the
	// leader Action.Node, it is asked directly before.
	SetAside Kind = "set-aside"
	// Promise appends Action.Charter to the ledger's promises.
	Promise Kind = "promise"
	// Commit accepts Action.Record as founder: first in the store (if Action.Mirror), then on the disk.
	Commit Kind = "commit"
	// Vacate accepts Action.Record as a replacement: this disk waits for admission.
	Vacate Kind = "vacate"
	// Accept accepts the admission as learner Action.Member of Action.Record.
	Accept Kind = "accept"
	// Start starts etcd with Action.Peers as the member Action.Member: as founder, as joiner
	// (Action.Join), or on its own data. A joiner's ID is chosen by etcd, from the member list of a
	// running member: the coordinator stops etcd at once, before it says anything of it, if that is not
	// Action.Member, for the ID was then given to another disk.
	Start Kind = "start"
	// Replace, on the leader: confirm by a direct call to Action.Node that its disk is vacant, remove the
	// member Action.Member (if not 0), and add a learner for Action.Slot and Action.Disk with Action.PeerURL.
	Replace Kind = "replace"
	// Promote, on the leader: promote the learner Action.Member if it has caught up.
	Promote Kind = "promote"
	// Renounce carries out an operator's order: the disk forgets its promises and record, and with
	// Action.Mirror the store's record is moved aside.
	Renounce Kind = "renounce"
	// Mirror puts Action.Record, our own, into a store that does not know it.
	Mirror Kind = "mirror"
	// Propose proposes to the store what Action.Request asks for: the restore of a backup, which is verified first, or
	// a recovery from a survivor.
	Propose Kind = "propose"
	// Dismiss deletes the command of Action.Request from the store, because it will never be carried out.
	Dismiss Kind = "dismiss"
	// Prepare builds a data directory beside etcd's, of the backup of Action.Restore, fetched and verified, or on a
	// survivor of its own database and whole log, and then notes it in the ledger. Etcd, if it runs, continues
	// meanwhile.
	Prepare Kind = "prepare"
	// Discard removes what was built for a restore or a recovery that came to nothing.
	Discard Kind = "discard"
	// Conclude makes Action.Record the outcome of the open proposal, unless the store has another one already.
	Conclude Kind = "conclude"
	// Enter leaves the generation before for good: it hands over, stops etcd if it runs, and only then accepts
	// Action.Record on this disk, as a founder of it. A disk in a record is one that no longer votes in an older one.
	Enter Kind = "enter"
	// Swap sets etcd's data aside, puts what was built for Action.Record in its place, and notes that its log has
	// begun. What is done of it already is not done again.
	Swap Kind = "swap"
	// Leave stops the member for good, for a proposal to end its generation, and notes Action.Left on the disk: it
	// never votes in that generation again, unless the proposal is aborted.
	Leave Kind = "leave"
	// Stay takes that back, because the proposal Action.Aborted was aborted.
	Stay Kind = "stay"
	// Note writes into the ledger the slots Action.Set, which the cluster has accepted, that the proposal
	// Action.Aborted was aborted, that the adopted cluster of the record Action.Taken is ours as a whole, or, with
	// Action.Return, that it goes back; or Action.Secured, how far this disk has come from http to https.
	Note Kind = "note"
	// Resize, on the leader: makes Action.Set what the cluster has accepted, through raft.
	Resize Kind = "resize"
	// Update, on the leader: gives the member Action.Member of Action.Slot the peer URL Action.PeerURL.
	Update Kind = "update"
	// Remove, on the leader: removes the member Action.Member of Action.Slot, which the cluster does not want any more.
	Remove Kind = "remove"
	// HandOver gives the leadership to another voter.
	HandOver Kind = "hand-over"
	// Retire gives up the volume for anybody to take: its slot is no longer in the cluster.
	Retire Kind = "retire"
	// Unlock gives back the disruption lock, because what it was taken for is over and this member serves again.
	Unlock Kind = "unlock"
	// Defrag takes the disruption lock, hands over if this member leads, and defragments its database.
	Defrag Kind = "defrag"
	// Reload takes the disruption lock, hands over if this member leads, and stops the member, which is then started
	// with the authorities that stand in its files now.
	Reload Kind = "reload"
	// Compact, on the leader of a cluster that is out of space: compacts the history up to Action.Revision.
	Compact Kind = "compact"
	// Raise has etcd raise Action.Alarm for this member: NOSPACE, because its volume has less free than the reserve, or
	// CORRUPT, because an operator gives its data up.
	Raise Kind = "raise"
	// Disarm, on the leader: takes back the alarm NOSPACE, because every database and every volume has room again.
	Disarm Kind = "disarm"
)

// Action is what to do now and why. Fields that the kind does not name are zero.
type Action struct {
	Kind      Kind
	Why       string    // one sentence for the operator: what is done, or waited for
	Obstacles []string  // what else is in the way, a sentence each
	Commands  []Command // that Why and Obstacles name, as they come

	Charter  *Charter
	Record   *Record
	Restore  *Restore
	Request  *Request
	Mirror   bool
	Over     bool // Adopt: the store's record is of a cluster that was given back, and gives way
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
	Ask      bool // Note: each other member's node is asked directly before whether it runs its member of that record
	Revision int64
	Secured  *Secured // of Accept, too
	PeerURL  string
	Reason   string // SetAside: RolledBack, or "" for a former member
}
