package plan

import (
	"fmt"
	"slices"
	"strings"
)

// knowledge is what all sources together (the disk, the member, the peers and the store) tell of the cluster: which
// generation is the newest and which is ours, its slots and members, who holds which disk, and what we say of ours.
type knowledge struct{ mesh }

// view is what the questions of every subject share. The subjects (founding, resuming, steady, …) are types of it, so
// that each view converts to any other: founding(o).begin() asks a question of founding.
type view struct{ knowledge }

// look returns the view of an observation.
func look(obs *Observation) view { return view{knowledge{mesh{obs.heard()}}} }

// latest returns the newest record that anybody knows, lost nodes and the store among them, or says what contradicts
// it. A generation descends from those in its line; two records of which neither descends from the other are two
// clusters, unless one of both was stillborn. The store counts only where a disk knows the cluster, too: what it says
// where all are blank is another matter, and a strange cluster in it stops nobody.
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

// stillborn reports whether a founding can never have had a leader and never will: a majority of its
// disks has promised a newer charter, so they do not start as its founders. This happens when a founder
// accepts it on promises that were moved, in good right, before they heard of that.
func (o knowledge) stillborn(r *Record) bool {
	moved := 0
	for _, s := range r.Charter.Seats {
		mine := o.Disk.Ledger.Promise()
		has := s.Disk == o.Claim.Disk && mine != nil && mine.newer(r.Charter)
		for _, p := range o.Peers {
			f := p.Facts
			has = has || f != nil && f.Disk == s.Disk && f.Promise != nil && f.Promise.newer(r.Charter)
		}
		if has {
			moved++
		}
	}
	return r.Cause == Founding && moved > len(r.Charter.Seats)/2
}

// outlived reports whether the member here waits for a founding that was stillborn while another was not.
func (o knowledge) outlived() bool {
	mine := o.Disk.Ledger.Record
	if o.Member.Ready || !o.stillborn(mine) {
		return false
	}
	later, _ := o.latest()
	return later != nil && later.ID != mine.ID
}

// current returns the generation that this node is in: of the disk, or the newest that is known to a node without one.
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

// accepted returns the newest set of slots that a generation has agreed on, as far as anybody here knows; nil: it never
// did. A set of another generation says nothing of this one: a restored database has that of the cluster it is of.
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

// slots returns the slots that the cluster wants: what it has agreed on last, else those of its record.
func (o knowledge) slots(r *Record) []string {
	if s := o.accepted(r); s != nil {
		return s.Slots
	}
	if r == nil {
		return nil
	}
	return r.Charter.Slots()
}

// members is the newest member list here: our own, or the leader's.
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

// wantedSlot is a slot that the cluster wants, with its member and its holder, as far as they are known.
type wantedSlot struct {
	slot   string
	ours   bool
	member MemberInfo
	listed bool   // the slot has a member
	holder *Peer  // a live node other than ours; nil for none
	note   string // why there is none
}

// wantedSlots returns every slot that the cluster wants, ours among them.
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

// lists returns the member lists of the generation's members that run, as far as they live, and of those that have left
// it. What one that is gone left for an earlier proposal is old.
func (o knowledge) lists(r *Record) [][]MemberInfo {
	open := o.Store.Restore
	var lists [][]MemberInfo
	consider := func(f Facts, live bool) {
		switch {
		case !f.of(r):
		case f.Left != nil && len(f.Left.Members) > 0 && (live || open != nil && open.ID == f.Left.Proposal):
			lists = append(lists, f.Left.Members)
		case live && f.Running && len(f.Members) > 0:
			lists = append(lists, f.Members)
		}
	}
	consider(o.facts(nil), true)
	for _, p := range o.Peers {
		if p.Facts != nil {
			consider(*p.Facts, p.Live)
		}
	}
	return lists
}

// heardAll reports whether every other slot of our cluster has a live holder. Anyone who brought us word of
// those would have brought word of a rival as well.
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

// whoRuns completes a sentence on a missing leader with what is known of the members. The last word of a node that was
// killed lives on in the gossip for seconds: where our member runs, raft tells whether its one does.
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

// holder is a node that holds a disk, ourselves or another.
type holder struct {
	node  string
	facts Facts
}

// bearer returns the live holder of a disk, nil if there is none.
func (o knowledge) bearer(disk string) *holder {
	if o.Claim.Held && o.Claim.Disk == disk {
		return &holder{o.Node, o.facts(nil)}
	}
	for _, p := range o.live() {
		if p.Facts != nil && p.Facts.Disk == disk {
			return &holder{p.Node, *p.Facts}
		}
	}
	return nil
}

// occupant returns the live holder of a slot, us among them: of two, the one that its rival waits for.
func (o knowledge) occupant(slot string) *holder {
	var found *holder
	consider := func(node string, f Facts) {
		if f.Slot == slot && (found == nil || o.stronger(f, node, found.facts, found.node)) {
			found = &holder{node, f}
		}
	}
	consider(o.Node, o.facts(nil))
	for _, p := range o.live() {
		if p.Facts != nil && !o.apart(p.Facts) {
			consider(p.Node, *p.Facts)
		}
	}
	return found
}

// anew reports whether the operator gave the cluster up, and nobody shows that it lives after all.
func (o knowledge) anew() bool {
	return o.Orders.New && !slices.ContainsFunc(o.Peers, func(p Peer) bool {
		return p.Live && p.Facts != nil && p.Facts.Leader
	})
}

// renounce has the disk forget what it promised, or what it was to found.
func (o knowledge) renounce(why string) Action {
	return Action{Kind: Renounce, Mirror: o.Orders.New && (o.Store.Record != nil || o.Store.Managed != ""), Why: why}
}
