package plan

// Phase is the state of a held disk, for other nodes.
type Phase string

const (
	PhaseNone    Phase = ""        // no disk
	PhaseWaiting Phase = "waiting" // held, but not usable (unreadable, foreign); the holder says why
	PhaseBlank   Phase = "blank"   // nothing on it, except possibly promises: never voted
	PhaseFounder Phase = "founder" // accepted a record, may start as its founder
	PhaseJoiner  Phase = "joiner"  // admitted, has not started
	PhaseVacant  Phase = "vacant"  // a replacement: has no member data and waits for admission
	PhaseData    Phase = "data"    // has a write-ahead log
)

// Facts is what a node says about itself in the gossip. Whatever other nodes decide on stays true once it is true (a
// promise, a record, a removal), or is confirmed by a direct call. The struct is flat because that is its form in the
// gossip: older versions read the same fields.
type Facts struct {
	Version int    `json:"version"` // 1
	Slot    string `json:"slot,omitempty"`
	Epoch   uint64 `json:"epoch,omitempty"`
	Disk    string `json:"disk,omitempty"`
	// Lock names the operating system's lock on the node's disk: the running kernel and the locked file. "": unknown.
	// Only one process can have it, except on a clone of the machine with its memory. See [Observation.Ousted].
	Lock     string       `json:"lock,omitempty"`
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
	Clients  []string     `json:"clients,omitempty"`  // of a running member: where clients reach it
	Control  string       `json:"control,omitempty"`  // of a running member: where its node answers other machines
	Members  []MemberInfo `json:"members,omitempty"`  // applied list of a running member
	Removed  []uint64     `json:"removed,omitempty"`  // members that this generation has removed
	Admitted []Admission  `json:"admitted,omitempty"` // of a leader
	Term     uint64       `json:"term,omitempty"`     // in which the leader leads
	// Holders of a running member: which node last held each slot. A node that comes back without its disk shows no slot
	// any more, but its slot is still taken.
	Holders map[string]string `json:"holders,omitempty"`
	Store   string            `json:"store,omitempty"` // random ID of its backup store, "" while unknown
	Nonce   string            `json:"nonce,omitempty"` // random; this process has put it into its store
	// Restore is the ID of the open proposal that this node knows of, and Prepared that of the proposal its disk has
	// prepared. Unable is why it cannot prepare Restore now.
	//
	// Prepared becomes false only after an abort. Abort and conclusion are the same conditional put, so nobody can
	// conclude on an outdated Prepared.
	Restore  string `json:"restore,omitempty"`
	Prepared string `json:"prepared,omitempty"`
	Unable   string `json:"unable,omitempty"`
	// Consent is the ID of the proposal to which this generation's leader has consented, as applied here. Left is what
	// the disk noted when it left its generation.
	Consent string `json:"consent,omitempty"`
	Left    *Left  `json:"left,omitempty"`
	// Confirmed: a linearizable read through the leader was answered here a moment ago.
	Confirmed bool `json:"confirmed,omitempty"`

	Log  *LogEnd  `json:"log,omitempty"`  // of a member without a leader
	Set  *SlotSet `json:"set,omitempty"`  // the newest that this node knows of
	Etcd string   `json:"etcd,omitempty"` // version of the etcd in this node's holdfast
	// Agreed is the cluster version, as the running member has applied it.
	Agreed string `json:"agreed,omitempty"`
	// Drained: an operator keeps the member down. Stopping: the process is about to stop; its last facts stay true until
	// it is back.
	Drained  bool `json:"drained,omitempty"`
	Stopping bool `json:"stopping,omitempty"`
	// Fragmented and Full judge a member's database: a defragmentation is due; it has no room below its watermark.
	// Defragging is announced before it begins. Short: less than the reserve is free on the running member's volume.
	Fragmented bool `json:"fragmented,omitempty"`
	Full       bool `json:"full,omitempty"`
	Short      bool `json:"short,omitempty"`
	Defragging bool `json:"defragging,omitempty"`
	// Trusts are the fingerprints of the authorities whose peers the running member accepts, and Issuer is the authority
	// of the peer certificate that it presents. Stale: the files now name other authorities than when the member started.
	Trusts []string `json:"trusts,omitempty"`
	Issuer string   `json:"issuer,omitempty"`
	Stale  bool     `json:"stale,omitempty"`
	// Taken: this disk has noted that holdfast runs every voter of its adopted cluster.
	Taken bool `json:"taken,omitempty"`
	// Secured is the https pattern of peer URLs that this disk has promised to serve for good, in a generation that began
	// with http.
	Secured string `json:"secured,omitempty"`
	// Foreign: the disk holds another program's data that has not been taken over.
	Foreign bool `json:"foreign,omitempty"`
	// Standby is the zone in which this node, which holds no volume, would claim one as soon as it is free; "" if it
	// would not now, or has no zones. It is advice, used only to decide when to move a member that runs well.
	Standby string `json:"standby,omitempty"`
}

// Facts returns what this node says about itself.
func (obs Observation) Facts(removed []uint64) Facts { return look(&obs).facts(removed) }

// facts is Facts, for the views.
func (o knowledge) facts(removed []uint64) Facts {
	f := Facts{Version: factsVersion, Slots: o.Config.Slots, PeerURL: o.Config.PeerURL, Store: o.Store.ID, Etcd: o.Config.Etcd,
		Drained: o.Drained, Stopping: o.Stopping}
	if r := o.Store.Restore; r != nil && o.Store.Unknown == "" {
		f.Restore = r.ID
	}
	if r := o.current(); r != nil {
		f.Set = o.accepted(r)
	}
	f.Nonce = o.Store.Nonce
	if !o.Claim.Held {
		if !o.Drained && !o.Stopping {
			f.Standby = o.Claim.Standby[:min(len(o.Claim.Standby), maxText)]
		}
		return f
	}
	l := o.Disk.Ledger
	if l.Prepared != nil && o.prepared(l.Prepared.ID) {
		f.Prepared = l.Prepared.ID
	}
	f.Unable, f.Left = o.Unable[:min(len(o.Unable), maxText)], l.Left
	f.Slot, f.Epoch, f.Disk, f.Phase = o.Claim.Slot, o.Claim.Epoch, o.Claim.Disk, o.phase()
	f.Lock = o.Claim.Lock
	f.Promise, f.Record, f.Join = l.Promise(), l.Record, l.Join
	f.Taken = l.Record != nil && l.Taken == l.Record.ID
	if l.Secured != nil {
		f.Secured = l.Secured.PeerURL
	}
	f.Foreign = o.Disk.Origin != nil && l.Record == nil
	if !o.changing() { // else the data is still the previous generation's
		f.Member, f.CID, f.Log = o.Disk.Member, o.Disk.ClusterID, o.Disk.Log
	}
	f.Running, f.Leader, f.Removed = o.Member.Running, o.Member.Leader && !o.Member.Stalled, removed
	if c := o.Member.Consent; c != nil && l.Record != nil && c.Record == l.Record.ID {
		f.Consent = c.Proposal
	}
	f.Confirmed = o.Member.Led()
	if o.Member.Running {
		f.Members, f.Holders, f.Clients = o.Member.Members, o.Holders, o.Config.Clients
		f.Agreed = o.Member.ClusterVersion
		f.Full, f.Defragging = o.Member.Full, o.Member.Defragging
		// A member whose attempts fail would keep those after it waiting. All wait for the end of NOSPACE in any case.
		f.Fragmented = o.Member.Fragmented && (o.Resting == "" || o.Member.Alarmed(NoSpace))
		f.Short, f.Control = o.Claim.Short, o.Config.Control
		f.Trusts, f.Issuer, f.Stale = o.Member.Trusts, o.Member.Issuer, o.Member.Stale
	}
	if o.Member.Leader {
		f.Admitted, f.Term = o.Member.Admitted, o.Member.Leads
	}
	return f
}

// phase is the state of the held disk.
func (o knowledge) phase() Phase {
	d := o.Disk
	switch {
	case o.Claim.Mismatch != "" || d.Unknown != "" || o.missesDisk():
		return PhaseWaiting
	case (d.WAL || d.Origin != nil) && d.Ledger.Record == nil || d.Ledger.forgetful():
		return PhaseWaiting
	case o.changing():
		return PhaseFounder
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

// missesDisk reports whether this node misses a disk with data, and holds one without data instead. An unmounted
// directory looks like that.
func (o knowledge) missesDisk() bool {
	return o.Claim.Missing != "" && o.Disk.Ledger.Record == nil && !o.Disk.WAL && o.Disk.Origin == nil
}

// changing reports whether the disk has entered a restored or recovered generation and does not hold its data yet.
func (o knowledge) changing() bool {
	l := o.Disk.Ledger
	return l.Record != nil && l.Record.Restore != nil && l.Role == RoleFounder && l.Started == ""
}

// prepared reports whether the disk holds everything that the proposal with this ID needs.
func (o knowledge) prepared(id string) bool {
	p := o.Disk.Ledger.Prepared
	return p != nil && p.ID == id && o.Disk.Built == id
}
