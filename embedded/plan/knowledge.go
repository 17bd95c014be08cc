package plan

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// knowledge is what all sources together (disk, member, peers and store) say about the cluster: which generation is the
// newest and which is ours, its slots and members, who holds which disk, and what we say about our own.
type knowledge struct{ mesh }

// view is what all subjects share. Each subject (founding, resuming, steady, …) is a type with view's fields, so each
// converts to any other: founding(o).begin() asks a question of founding.
type view struct{ knowledge }

// look returns the view of an observation.
func look(obs *Observation) view { return view{knowledge{mesh{obs.withoutOusted()}}} }

// latest returns the newest record that anybody knows, including lost nodes and the store, or says what contradicts it.
// A generation descends from those in its line. If of two records neither descends from the other, they are two
// clusters, unless one was stillborn. The store counts only if a disk knows the cluster too: if all disks are blank,
// founding judges the store, and a foreign cluster in the store stops nobody.
func (o knowledge) latest() (*Record, string) {
	mine := o.Disk.Ledger.Record
	best := mine
	if mine != nil && o.stillborn(mine) {
		best = nil
	}
	for _, p := range o.Peers {
		if p.Facts == nil || p.Facts.Record == nil || o.stillborn(p.Facts.Record) {
			continue
		}
		r := p.Facts.Record
		switch {
		case best == nil || r.descends(best):
			best = r
		case r.ID == best.ID || best.descends(r):
		default:
			return nil, fmt.Sprintf("two clusters claim the name %q: %s and %s (node %s); keep one of "+
				"them away from this gossip", o.Config.Cluster, best.Token(), r.Token(), p.Node)
		}
	}
	if best == nil {
		best = mine
	}
	r := o.Store.Record
	switch {
	case best == nil || r == nil || o.Store.Unknown != "" || r.Lineage() != best.Lineage() || r.ID == best.ID ||
		best.descends(r):
	case r.descends(best):
		best = r
	default:
		return nil, fmt.Sprintf("the cluster continued twice: as %s, and in the backup store as %s; find out which is "+
			"right, and keep the disks of the other away", best.Token(), r.Token())
	}
	return best, ""
}

// stillborn reports whether a founding never had a leader and never will: a majority of its disks has promised a newer
// charter, so they do not start as its founders. It happens if a founder accepts the charter on promises that the
// others had rightly moved before they heard of the founding.
func (o knowledge) stillborn(r *Record) bool {
	moved := func(to Charter) bool { return to.newer(r.Charter) }
	return r.Cause == Founding && o.promised(r.Charter, moved) > len(r.Charter.Seats)/2
}

// outlived reports whether the member here waits in a stillborn founding while another cluster exists.
func (o knowledge) outlived() bool {
	mine := o.Disk.Ledger.Record
	if o.Member.Ready || !o.stillborn(mine) {
		return false
	}
	later, _ := o.latest()
	return later != nil && later.ID != mine.ID
}

// current returns this node's generation: that of its disk, or without a record the newest known.
func (o knowledge) current() *Record {
	if mine := o.Disk.Ledger.Record; mine != nil && !o.stillborn(mine) {
		return mine
	}
	r, _ := o.latest()
	return r
}

// consented reports whether the leader of our generation has consented to a proposal.
func (o knowledge) consented(id string) bool {
	c, r := o.Member.Consent, o.Disk.Ledger.Record
	return c != nil && r != nil && c.Record == r.ID && c.Proposal == id
}

// accepted returns the newest set of slots that a generation has agreed on, as far as anybody here knows; nil if it
// never did. Another generation's set does not count: a restored database contains the set of the cluster it was taken
// from.
func (o knowledge) accepted(r *Record) *SlotSet {
	var newest *SlotSet
	if r == nil {
		return nil
	}
	consider := func(s *SlotSet) {
		if s != nil && s.Record == r.ID && (newest == nil || s.Serial > newest.Serial) {
			newest = s
		}
	}
	consider(o.Member.Set)
	consider(o.Disk.Ledger.Set)
	for _, p := range o.Peers {
		if p.Facts != nil {
			consider(p.Facts.Set)
		}
	}
	return newest
}

// slots returns the slots that the cluster wants: the set it agreed on last, else those of its record.
func (o knowledge) slots(r *Record) []string {
	if s := o.accepted(r); s != nil {
		return s.Slots
	}
	if r == nil {
		return nil
	}
	return r.Charter.Slots()
}

// members is the newest member list known here: our own, or the leader's.
func (o knowledge) members(r *Record) []MemberInfo {
	if mine := o.Disk.Ledger.Record; o.Member.Running && mine != nil && r != nil && mine.ID == r.ID {
		return o.Member.Members
	}
	if l := o.leader(r); l != nil {
		return l.Facts.Members
	}
	return nil
}

// listed returns the member that has the slot's peer URL.
func (o knowledge) listed(slot string) (MemberInfo, bool) {
	for _, m := range o.Member.Members {
		if m.Slot == slot {
			return m, true
		}
	}
	return MemberInfo{}, false
}

// wantedSlot is a slot that the cluster wants, with its member and holder as far as they are known.
type wantedSlot struct {
	slot   string
	ours   bool
	member MemberInfo
	listed bool   // the slot has a member
	holder *Peer  // a live node other than this one; nil if there is none
	note   string // why holder is nil
}

// wantedSlots returns every slot that the cluster wants, including ours.
func (o knowledge) wantedSlots() []wantedSlot {
	slots := o.slots(o.Disk.Ledger.Record)
	all := make([]wantedSlot, 0, len(slots))
	for _, slot := range slots {
		s := wantedSlot{slot: slot, ours: slot == o.Claim.Slot}
		s.member, s.listed = o.listed(slot)
		s.holder, s.note = o.holder(slot, s.member.ID)
		all = append(all, s)
	}
	return all
}

// lists returns the member lists of the generation's live, running members, and of disks that have left it. If a node
// is gone, the list that it noted for an earlier proposal is outdated and does not count.
func (o knowledge) lists(r *Record) [][]MemberInfo {
	open := o.Store.Restore
	var lists [][]MemberInfo
	for p, f := range o.everyone() {
		switch {
		case !f.of(r):
		case f.Left != nil && len(f.Left.Members) > 0 && (p.Live || open != nil && open.ID == f.Left.Proposal):
			lists = append(lists, f.Left.Members)
		case p.Live && f.Running && len(f.Members) > 0:
			lists = append(lists, f.Members)
		}
	}
	return lists
}

// everyone yields this node, and then each other node that has said something, even if it is gone, with the facts.
func (o knowledge) everyone() iter.Seq2[Peer, Facts] {
	return func(yield func(Peer, Facts) bool) {
		if !yield(Peer{Node: o.Node, Live: true}, o.facts(nil)) {
			return
		}
		for _, p := range o.Peers {
			if p.Facts != nil && !yield(p, *p.Facts) {
				return
			}
		}
	}
}

// heardAll reports whether every other slot of our cluster has a live holder. If the gossip has brought news of them,
// it would have brought news of a rival, too.
func (o knowledge) heardAll() bool {
	if o.Config.Seeded && len(o.live()) == 0 {
		return false
	}
	for _, slot := range o.slots(o.Disk.Ledger.Record) {
		if slot != o.Claim.Slot && !slices.ContainsFunc(o.live(),
			func(p Peer) bool { return p.Facts != nil && p.Facts.Slot == slot }) {
			return false
		}
	}
	return true
}

// whoRuns completes a sentence about a missing leader with what is known of the members. The gossip still shows a
// killed node for seconds; if our own member runs, raft knows whether that node's member does.
func (o knowledge) whoRuns(r *Record) string {
	var parts []string
	for _, slot := range o.slots(r) {
		state := "no live holder"
		for _, p := range o.live() {
			if p.Facts != nil && p.Facts.Slot == slot {
				state = fmt.Sprintf("%s on %s", p.Facts.Phase, p.Node)
				switch near := slices.Contains(o.Member.Near, p.Facts.Member); {
				case p.Facts.Running && o.Member.Running && !near:
					state = "on " + p.Node + ", not connected"
				case p.Facts.Running:
					state = "running on " + p.Node
				}
			}
		}
		if slot != o.Claim.Slot {
			parts = append(parts, slot+": "+state)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

// holder is a node that holds a disk: this node, or another.
type holder struct {
	node  string
	facts Facts
}

// bearer returns the live holder of a disk, nil if there is none.
func (o knowledge) bearer(disk string) *holder {
	for p, f := range o.everyone() {
		if p.Live && f.Disk == disk && disk != "" {
			return &holder{p.Node, f}
		}
	}
	return nil
}

// occupant returns the live holder of a slot, which may be this node; of two, the one for which its rival waits.
func (o knowledge) occupant(slot string) *holder {
	var found *holder
	for p, f := range o.everyone() {
		if p.Live && f.Slot == slot && !o.otherGeneration(&f) &&
			(found == nil || o.stronger(f, p.Node, found.facts, found.node)) {
			found = &holder{p.Node, f}
		}
	}
	return found
}

// renounce makes the disk forget what it promised, or what it was to found.
func (o knowledge) renounce(why string) Action {
	return Action{Kind: Renounce, Mirror: o.Orders.New && (o.Store.Record != nil || o.Store.Managed != ""), Why: why}
}
