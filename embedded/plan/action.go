package plan

// Kind names an action.
type Kind string

const (
	// Wait does nothing until the observation changes. Its Why says for what.
	Wait Kind = "wait"
	// Acquire tries once to claim a volume, avoiding the slots in Action.Avoid.
	Acquire Kind = "acquire"
	// Yield gives up a blank volume because a rival holds its slot.
	Yield Kind = "yield"
	// Repair writes a ledger that is missing beside etcd data of the member Action.Member, whose cluster
	// ID is that of Action.Record.
	Repair Kind = "repair"
	// SetAside renames etcd's data and makes the disk a replacement in Action.Record.
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
	// member Action.Member (if not 0), and add a learner for Action.Slot and Action.Disk.
	Replace Kind = "replace"
	// Promote, on the leader: promote the learner Action.Member if it has caught up.
	Promote Kind = "promote"
	// Renounce carries out an operator's order: the disk forgets its promises and record, and with
	// Action.Mirror the store's record is moved aside.
	Renounce Kind = "renounce"
)

// Action is what to do now and why. Fields that the kind does not name are zero.
type Action struct {
	Kind    Kind
	Why     string // one sentence for the operator: log line, status, history
	Charter *Charter
	Record  *Record
	Mirror  bool
	Join    bool
	Node    string
	Slot    string
	Disk    string
	Member  uint64
	Peers   map[string]string // slot -> peer URL
	Avoid   map[string]string // slot -> why not
}
