package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Consent says that a generation's leader agrees to a proposal that ends it (R16). An operator confirmed the proposal
// on a node of the cluster, and the leader committed the consent to its own generation's keyspace, so every later
// leader knows of it. Consent alone stops no member.
type Consent struct {
	Record   string `json:"record"`   // ID of the generation's record
	Proposal string `json:"proposal"` // ID of the proposal
	By       string `json:"by"`       // who confirmed it, for people
}

// Stand is what a member showed of itself: the leader that an operator was shown, or the member that objected to a
// proposal.
type Stand struct {
	Node     string `json:"node"`
	Slot     string `json:"slot,omitempty"`
	Disk     string `json:"disk,omitempty"` // identifies the objection: a repeated proposal quotes it
	Address  string `json:"address,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	Leader   bool   `json:"leader,omitempty"` // it had a leader, confirmed by a linearizable read
}

// String names the member for people.
func (s Stand) String() string {
	at := "node " + s.Node
	if s.Slot != "" {
		at += " (slot " + s.Slot + ")"
	}
	if s.Address != "" {
		at += " at " + s.Address
	}
	if s.Revision > 0 {
		at += fmt.Sprintf(", revision %d", s.Revision)
	}
	return at
}

// Abort is the outcome of a proposal that began no generation.
type Abort struct {
	ID  string `json:"id"` // of the proposal
	Why string `json:"why"`
	By  *Stand `json:"by,omitempty"` // the member that objected; nil: an operator aborted it, or it expired
}

// Left is what a disk notes when its member has stopped for good, for a proposal to end its generation. The member
// never votes there again, unless it reads that the proposal was aborted.
type Left struct {
	Proposal string       `json:"proposal"`
	Members  []MemberInfo `json:"members,omitempty"`  // the member list as applied there
	Revision int64        `json:"revision,omitempty"` // as applied there, 0 if not known
}

// Led reports whether the member has a leader: a linearizable read through it was answered within the last seconds. The
// leader ID that raft remembers does not count, because that leader's disk may hang.
func (m Member) Led() bool {
	return m.Running && m.HasLead && m.Confirmed
}

// succession asks whether our generation is over, which one follows it, and how this disk passes from one to the other.
type succession view

// ended returns the generation that follows that of our disk, nil while ours is not over (R17). conflict says what
// contradicts that; it never stops a member. pending is set if the store has a later record without the proposal and
// outcome that would prove it. That only keeps a stopped member from starting.
func (o succession) ended() (next *Record, conflict, pending string) {
	mine, s := o.Disk.Ledger.Record, o.Store
	r := s.Record
	switch {
	case !o.arbitrated():
		return o.heirs(), "", ""
	case r.ID == mine.ID || mine.descends(r) || r.Lineage() != mine.Lineage():
		return nil, "", ""
	case !r.descends(mine):
		return nil, fmt.Sprintf("the backup store knows the cluster as %s, and this disk is of %s: find out which is "+
			"right, and keep the disks of the other away", r.Token(), mine.Token()), ""
	}
	child := s.child(mine)
	switch {
	case child == nil:
		said := fmt.Sprintf("the backup store has a record of %s, and no proposal and outcome that ended %s", r.Token(),
			mine.Token())
		if o.Member.Running && !o.Member.Led() { // it takes no notice of a record alone (R17)
			return nil, fmt.Sprintf("%s; if that is right, restart this node: its member then does not start, and %s there "+
				"sets its data aside", said, Command("rejoin")), said
		}
		return nil, said, said
	case slices.Contains(o.Disk.Ledger.Aborted, child.ID):
		said := fmt.Sprintf("the backup store says that the %s ended %s, and said before that it was aborted: the store "+
			"may have been replaced by a copy", child.Restore.Title(), mine.Token())
		return nil, said, said
	case !o.Member.Led() || o.consented(child.ID):
		return r, "", ""
	case child.Restore.Led == nil && o.Blind:
		return r, "", ""
	}
	return nil, fmt.Sprintf("the backup store says that the %s ended %s, and its leader, which was in reach of the "+
		"store, has not consented: the store may have been written by hand, or copied",
		child.Restore.Title(), mine.Token()), ""
}

// Arbitrated reports whether a store that answers and is shared says what became of our generation. Otherwise only
// heirs count, and each is asked directly before anything is done to this disk (R17).
func Arbitrated(o Observation) bool { return succession(look(&o)).arbitrated() }

func (o succession) arbitrated() bool {
	return o.Store.Unknown == "" && o.Store.Record != nil && o.otherStore() == ""
}

// undecided reports whether our store says that our generation has ended, and only a node that has just started keeps
// that from counting: it may turn out to use another store. Voters that come back together are such nodes for each
// other, and would be a quorum of a generation that is over.
func (o succession) undecided() bool {
	if o.arbitrated() {
		return false
	}
	next, _, pending := succession(o.presumed()).ended()
	return next != nil || pending != ""
}

// contradicted reports whether something contradicts this node's generation, so that the node takes part in nothing.
func (o succession) contradicted() bool {
	if o.Disk.Ledger.Record == nil {
		_, conflict := o.latest()
		return conflict != ""
	}
	_, conflict, _ := o.ended()
	return conflict != ""
}

// child returns the concluded generation right after another one, nil if the store proves none.
func (s Store) child(of *Record) *Record {
	i := slices.IndexFunc(s.Concluded, func(r Record) bool { return r.Parent() == of.ID && r.Generation == of.Generation+1 && r.Restore != nil })
	if i < 0 {
		return nil
	}
	return &s.Concluded[i]
}

// continuing returns the last proposal, before or at next, by which the cluster continued from data of an abandoned
// generation (R19); nil if there is none.
func (s Store) continuing(of, next *Record) (last *Restore) {
	for _, r := range s.Concluded {
		if r.Restore != nil && r.Restore.Origin == of.ID && (r.ID == next.ID || next.descends(&r)) && (last == nil || r.Generation > last.Generation) {
			last = r.Restore
		}
	}
	return last
}

// heirs returns a later generation that a majority of our generation's disks say they have entered. Where no shared
// store answers, nothing less counts, because a single record may come from a drill. While we have a leader, it cannot
// be true.
func (o succession) heirs() *Record {
	if o.Member.Led() {
		return nil
	}
	mine := o.Disk.Ledger.Record
	slots := o.slots(mine)
	in := map[string][]string{}
	var newest *Record
	for _, p := range o.live() {
		f := p.Facts
		if f == nil || f.Record == nil || !f.Record.descends(mine) || !slices.Contains(slots, f.Slot) || !heir(mine, *f) {
			continue
		}
		id := f.Record.ID
		if in[id] = append(in[id], f.Slot); len(slices.Compact(slices.Sorted(slices.Values(in[id])))) > len(slots)/2 {
			newest = f.Record
		}
	}
	return newest
}

// heir reports whether a disk in a later generation was that of one of our voters: our charter names the disk, or the
// next generation's charter names it with the slot's old member. A slot that was declared lost may have another disk
// there. Charters of generations after the next do not count: their members are not ours.
func heir(ours *Record, f Facts) bool {
	was, _ := ours.Charter.Seat(f.Slot)
	is, _ := f.Record.Charter.Seat(f.Slot)
	own := f.Record.Parent() == ours.ID && is.Member != 0 && (f.Record.Restore == nil || !slices.Contains(f.Record.Restore.Lost, f.Slot))
	return f.Disk != "" && (was.Disk == f.Disk || is.Disk == f.Disk && own)
}

// moveOn continues into the generation that followed ours, unless an operator has to choose first (R19), because this
// disk was declared lost and holds more than that generation began with.
func (o succession) moveOn(next *Record) Action {
	seat, _ := next.Charter.Seat(o.Claim.Slot)
	if !o.Disk.WAL || o.Orders.Join || seat.Disk == o.Claim.Disk {
		return o.follow(next)
	}
	child := o.Store.child(o.Disk.Ledger.Record)
	if child == nil {
		child = next
	}
	p := child.Restore
	if p == nil || p.Led != nil || !slices.Contains(p.Lost, o.Claim.Slot) {
		return o.follow(next)
	}
	if again := o.Store.continuing(o.Disk.Ledger.Record, next); again != nil {
		p = again
	}
	switch {
	case o.Member.Running:
		return Action{Kind: Leave, Left: o.leaving(child.ID),
			Why: fmt.Sprintf("slot %s was declared lost, and %s began without it: its member stops, and its data stays in place",
				o.Claim.Slot, child.Token())}
	case o.Disk.Log != nil && p.Log != nil && !o.Disk.Log.after(*p.Log):
		return o.follow(next)
	}
	return wait("%s", o.bothEnds(next, p))
}

// Apart reports whether a later generation began without what this disk holds, so that an operator has to choose (R19).
func (obs Observation) Apart() bool {
	o := succession(look(&obs))
	r := o.Disk.Ledger.Record
	if !o.Disk.WAL || r == nil || o.changing() || o.Member.Running {
		return false
	}
	next, _, pending := o.ended()
	return pending != "" || next != nil && o.moveOn(next).Kind == Wait
}

// Behind says which live node holds more of this disk's generation than this disk, "" if none does.
func (obs Observation) Behind() string {
	o := look(&obs)
	for _, p := range o.live() {
		f := p.Facts
		if f != nil && f.of(o.Disk.Ledger.Record) && f.Phase == PhaseData && f.Log != nil && o.Disk.Log != nil &&
			f.Log.after(*o.Disk.Log) {
			return ahead(f.Slot, p.Node, *f.Log, o.Claim.Slot, *o.Disk.Log)
		}
	}
	return ""
}

// bothEnds shows the operator, who has to choose, where both logs end.
func (o succession) bothEnds(next *Record, p *Restore) Said {
	ours := "at an unknown point"
	if l := o.Disk.Log; l != nil {
		ours = fmt.Sprintf("at term %d, index %d", l.Term, l.Index)
	}
	if l := o.Disk.Ledger.Left; l != nil && l.Revision > 0 {
		ours += fmt.Sprintf(", revision %d", l.Revision)
	}
	theirs := fmt.Sprintf("with %s at revision %d", p.Source(), p.Revision)
	if p.Log != nil {
		theirs = fmt.Sprintf("from slot %s at term %d, index %d, revision %d", p.Survivor, p.Log.Term, p.Log.Index,
			p.Revision)
	}
	return say("slot %s was declared lost and is back, and its data may hold more than %s began with: it ends %s, and "+
		"that began %s; the data stays in place and does not start; "+
		"to set it aside and join %s, run %s here; to continue with it instead, run %s here",
		o.Claim.Slot, next.Token(), ours, theirs, next.Token(), Command("rejoin"), Command("rejoin --instead"))
}

// leaving is what the disk notes when it leaves. If the member does not run, the coordinator adds the members from the
// database.
func (o succession) leaving(proposal string) *Left {
	l := &Left{Proposal: proposal, Members: slices.Clone(o.Member.Members), Revision: o.Member.Revision}
	for i := range l.Members {
		l.Members[i].Connected, l.Members[i].Acked = false, 0
	}
	return l
}

// leave stops this member's part in its generation for good.
func (o succession) leave(p *Restore) Action {
	return Action{Kind: Leave, Left: o.leaving(p.ID),
		Why: fmt.Sprintf("no leader has been seen since the %s was proposed by %s: slot %s leaves %s, and never votes "+
			"there again unless that is aborted", p.Title(), p.By, o.Claim.Slot, o.Disk.Ledger.Record.Token())}
}

// awaitOutcome decides for a disk that has left its generation: it waits for the outcome of that proposal.
func (o succession) awaitOutcome() Action {
	l, s, mine := o.Disk.Ledger.Left, o.Store, o.Disk.Ledger.Record
	next, conflict, _ := o.ended()
	switch aborted := s.aborted(l.Proposal); {
	case next != nil:
		return o.moveOn(next)
	case s.Unknown == "" && o.otherStore() != "":
		return wait("slot %s has left %s and does not start, because %s", o.Claim.Slot, mine.Token(), o.otherStore())
	case aborted != nil && s.Unknown == "":
		return Action{Kind: Stay, Aborted: l.Proposal,
			Why: fmt.Sprintf("the proposal for which slot %s left %s was aborted (%s): it stays", o.Claim.Slot, mine.Token(),
				aborted.Why)}
	case s.Unknown != "":
		return wait("slot %s has left %s, and does not start until the backup store says what became of the "+
			"proposal, but it does not answer: %s", o.Claim.Slot, mine.Token(), s.Unknown)
	case s.Restore != nil && s.Restore.ID == l.Proposal:
		return wait("slot %s has left %s and waits for the outcome of the %s", o.Claim.Slot, mine.Token(), s.Restore.Title())
	case conflict != "":
		return wait("slot %s has left %s, and %s", o.Claim.Slot, mine.Token(), conflict)
	}
	unknown := fmt.Sprintf("slot %s has left %s for a proposal that the backup store does not know: the store may have "+
		"been replaced by a copy; bring the right one back; if that is lost for good", o.Claim.Slot, mine.Token())
	if o.leader(mine) != nil {
		return wait("%s, run %s here: the cluster, which has a leader, fills the slot again", unknown, setVolumeAside)
	}
	others := slices.DeleteFunc(slices.Clone(o.slots(mine)), func(slot string) bool { return slot == o.Claim.Slot })
	return wait("%s, and so are all other voters, set snapshot.store here to a directory that does not exist, restart "+
		"this node, and run %s", unknown, command("recover --without-store --lost %s", strings.Join(others, ",")))
}

// aborted returns the abort of a proposal, nil if it was not aborted.
func (s Store) aborted(id string) *Abort {
	i := slices.IndexFunc(s.Aborted, func(a Abort) bool { return a.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Aborted[i]
}

// unnoted returns an abort of a proposal to end our generation that the store has and the disk has not noted yet; nil
// if there is none.
func (o succession) unnoted() *Abort {
	s, l := o.Store, o.Disk.Ledger
	if s.Unknown != "" || s.Record == nil || s.Record.ID != l.Record.ID || o.otherStore() != "" {
		return nil
	}
	for _, a := range s.Aborted[max(0, len(s.Aborted)-maxAborted):] {
		if a.ID != "" && !slices.Contains(l.Aborted, a.ID) {
			return &a
		}
	}
	return nil
}

// Object says whether this member has to abort the open proposal, and why (R16, R18). The coordinator aborts it at
// once, whatever else it is doing: a proposal waits only as long as a living leader needs to object.
func Object(o Observation) (why string, ok bool) {
	p, mine, m := o.Store.Restore, o.Disk.Ledger.Record, o.Member
	if p == nil || mine == nil || o.Store.Unknown != "" || p.Parent() != mine.ID || !m.Running || m.Learner {
		return "", false
	}
	lost := slices.Contains(p.Lost, o.Claim.Slot)
	switch {
	case slices.Contains(o.Disk.Ledger.Aborted, p.ID):
		return "it was aborted before, as the disk of slot " + o.Claim.Slot + " remembers", true
	case m.Led() && p.Led == nil:
		return "the cluster has a leader, and the proposal says that it has none", true
	case m.Led() && adopting(look(&o)).forbidden(p) != "":
		return adopting(look(&o)).forbidden(p), true
	case m.Led() && lost:
		return fmt.Sprintf("slot %s, which the proposal calls lost, serves", o.Claim.Slot), true
	case lost && p.Led == nil && !slices.Contains(p.Overruled, o.Claim.Disk):
		return fmt.Sprintf("slot %s, which the proposal calls lost, runs here without a leader", o.Claim.Slot), true
	}
	return "", false
}

// Withdrawn returns the proposals to which this member's generation has consented, and which its disk remembers as
// aborted. The leader withdraws these consents, so that no leader whose disk does not remember the abort concludes
// (R16).
func (obs Observation) Withdrawn() (ids []string) {
	m, l := obs.Member, obs.Disk.Ledger
	if l.Record == nil || !m.Leader || !m.Led() {
		return nil
	}
	for _, id := range l.Aborted {
		if look(&obs).consented(id) || m.Marked(l.Record.ID, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Conflicts says what contradicts this node's generation. Conflicts are shown, and touch nothing (R17).
func (obs Observation) Conflicts() []string {
	o := succession(look(&obs))
	var all []string
	mine := o.Disk.Ledger.Record
	if mine == nil || o.stillborn(mine) {
		return nil
	}
	if _, conflict, _ := o.ended(); conflict != "" {
		all = append(all, conflict)
	}
	if r := o.Store.Record; o.Store.Unknown == "" && r != nil && r.Lineage() != mine.Lineage() {
		all = append(all,
			fmt.Sprintf("the backup store belongs to another cluster of this name, %s: give each its own store or prefix",
				r.Token()))
	}
	if p := o.Store.Restore; o.Store.Unknown == "" && p != nil && slices.Contains(o.Disk.Ledger.Aborted, p.ID) {
		all = append(all,
			fmt.Sprintf("the backup store shows the %s (%s) as open, and said before that it was aborted: somebody has "+
				"deleted the abort, or replaced the store by an older copy; no node takes part in it; find out who can delete "+
				"there", p.Title(), p.ID))
	}
	known := o.Store.Record
	for _, p := range o.Peers {
		f := p.Facts
		if f == nil || f.Record == nil || f.Record.ID == mine.ID || mine.descends(f.Record) || o.stillborn(f.Record) {
			continue
		}
		later := f.Record.descends(mine)
		if later && known != nil && (known.ID == f.Record.ID || known.descends(f.Record)) {
			continue
		}
		hint := "keep it away from this gossip"
		if !p.Live {
			hint = fmt.Sprintf("it is gone; %s forgets it", Forget(p.Node))
		}
		what := "is of another cluster of this name, " + f.Record.Token()
		if later {
			what = fmt.Sprintf("says that %s was followed by %s, which nothing proves", mine.Token(), f.Record.Token())
			if p.Live && f.Store != "" && o.Store.ID != "" && f.Store != o.Store.ID {
				hint = "it uses another backup store: set snapshot.store to the same place everywhere, or " + hint
			}
		}
		all = append(all, fmt.Sprintf("node %s %s: %s", p.Node, what, hint))
	}
	for _, p := range o.otherStores() {
		if o.late(p) {
			continue
		}
		all = append(all,
			fmt.Sprintf("node %s uses another backup store, or a copy: what the store says about generations is ignored; "+
				"set snapshot.store to the same place everywhere", p.Node))
		break
	}
	return all
}

// Mark is the form of a consent while etcd refuses every write: an alarm is raised with this number as its member. It
// is void in any other generation, and for any other proposal.
func Mark(record, proposal string) uint64 {
	sum := sha256.Sum256([]byte("consent " + record + " " + proposal))
	return binary.BigEndian.Uint64(sum[:8]) | 1
}

// Marked reports whether an alarm carries the mark of a consent.
func (m Member) Marked(record, proposal string) bool {
	mark := ID(Mark(record, proposal))
	return slices.ContainsFunc(m.Alarms, func(a Alarm) bool { return a.Member == mark })
}
