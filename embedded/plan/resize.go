package plan

import (
	"fmt"
	"slices"
	"strings"
)

// resizing asks which slots the cluster wants, which nodes want others, and which disks the cluster does not need.
type resizing view

// Slots returns the slots of the newest generation that anybody here knows, nil if none is known or if two contradict
// each other.
func (obs Observation) Slots() []string {
	o := look(&obs)
	if r := o.current(); r != nil {
		return o.slots(r)
	}
	return nil
}

// wish is a set of slots and the nodes that want it.
type wish struct {
	slots   []string
	nodes   []string
	staying int // voters whose slots are in the set
	agreed  int // of the nodes, those whose own slots are in the set
}

// steady reports whether more than half of the voters that would stay want the set, too. Of two sets, only one can have
// such a majority, whichever the cluster has now. Otherwise nodes that joined with an old configuration could have
// themselves removed, and would then be added again.
func (w wish) steady() bool { return w.staying == 0 || w.agreed > w.staying/2 }

// wishes returns the sets of slots that the live holders of the voters want, and the number of voters. Other nodes do
// not count, because a standby may have any configuration.
func (o resizing) wishes(r *Record) (all []wish, voters int) {
	for _, m := range o.members(r) {
		if m.Learner {
			continue
		}
		voters++
		node, wants := o.wanting(r, m)
		if len(wants) == 0 {
			continue
		}
		i := slices.IndexFunc(all, func(w wish) bool { return slices.Equal(w.slots, wants) })
		if i < 0 {
			i, all = len(all), append(all, wish{slots: wants})
		}
		all[i].nodes = append(all[i].nodes, node)
		all[i].agreed += boolean(slices.Contains(wants, m.Slot))
	}
	for i, w := range all {
		for _, m := range o.members(r) {
			all[i].staying += boolean(!m.Learner && slices.Contains(w.slots, m.Slot))
		}
	}
	return all, voters
}

// wanting returns the node that holds a member's disk, and the slots that the node wants.
func (o resizing) wanting(r *Record, m MemberInfo) (node string, wants []string) {
	if o.Member.Running && o.Member.ID == m.ID {
		return o.Node, o.Config.Slots
	}
	for _, p := range o.live() {
		if f := p.Facts; f != nil && f.Slot == m.Slot && f.Member == m.ID && f.of(r) {
			return p.Node, f.Slots
		}
	}
	return "", nil
}

// demand says what a set of slots lacks to be agreed on.
func (o resizing) demand(r *Record, set []string) string {
	all, voters := o.wishes(r)
	var wanted wish
	for _, w := range all {
		if slices.Equal(w.slots, set) {
			wanted = w
		}
	}
	nodes, by, more := wanted.nodes, "", ""
	if len(nodes) > 0 {
		by = " (" + strings.Join(nodes, ", ") + ")"
	}
	if len(nodes) > voters/2 && !wanted.steady() {
		more = fmt.Sprintf(", and %d of the %d that would stay: %d so far", wanted.staying/2+1, wanted.staying, wanted.agreed)
	}
	if voters == 0 {
		return fmt.Sprintf("cluster.slots %s must be wanted by more than half of the members' nodes, and no "+
			"leader that knows them is seen", strings.Join(set, ","))
	}
	return fmt.Sprintf("cluster.slots %s is wanted by %d of %d members' nodes%s; %d must want it%s",
		strings.Join(set, ","), len(nodes), voters, by, voters/2+1, more)
}

// Disagreement says that this node's configuration wants other slots than the cluster has, and what that change lacks;
// "" if they are the same.
func (obs Observation) Disagreement() string {
	o := resizing(look(&obs))
	r := o.current()
	if r == nil || slices.Equal(o.slots(r), o.Config.Slots) {
		return ""
	}
	return fmt.Sprintf("cluster.slots is %s here, and the cluster has %s: %s", strings.Join(o.Config.Slots, ","),
		strings.Join(o.slots(r), ","), o.demand(r, o.Config.Slots))
}

// agree makes the cluster want the slots that more than half of all voters' holders want, and more than half of those
// that would stay (R15). A minority changes nothing, whether it comes back with an old configuration or is the first
// node of a change.
func (o resizing) agree() Action {
	r := o.Disk.Ledger.Record
	now, serial := o.accepted(r), uint64(0)
	if s := o.Member.Set; s != nil && s.Record == r.ID {
		serial = s.Serial
	}
	var notes, from []string
	for _, m := range o.Member.Members {
		from = append(from, m.Slot)
	}
	slices.Sort(from)
	if now != nil && now.Serial > serial {
		if o.Member.Led() { // it has applied what was committed: a client has deleted or overwritten the key
			return Action{Kind: Resize,
				Set: &SlotSet{Record: r.ID, Serial: now.Serial + 1, Slots: now.Slots, From: from},
				Why: fmt.Sprintf("the slots %s are agreed on, and etcd has lost the key that says so: writing it again",
					strings.Join(now.Slots, ","))}
		}
		return wait("the slots %s are agreed on, and this leader has yet to read them", strings.Join(now.Slots, ","))
	}
	all, voters := o.wishes(r)
	for _, w := range all {
		switch {
		case slices.Equal(w.slots, o.slots(r)):
		case len(w.nodes) > voters/2 && w.steady():
			return Action{Kind: Resize,
				Set: &SlotSet{Record: r.ID, Serial: serial + 1, Slots: w.slots, From: from},
				Why: fmt.Sprintf("%d of %d members' nodes (%s) want the slots %s: the cluster, which has %s, agrees on that",
					len(w.nodes), voters, strings.Join(w.nodes, ", "), strings.Join(w.slots, ","), strings.Join(o.slots(r), ","))}
		default:
			notes = append(notes, o.demand(r, w.slots))
		}
	}
	if n := len(o.slots(r)); n%2 == 0 {
		notes = append(notes, fmt.Sprintf("%d slots survive no more losses than %d: an odd number is better", n, n-1))
	}
	return wait("%s", strings.Join(notes, "; "))
}

// seats returns the slots that have a member, by the leader's list, or else by any live member's. perhaps are slots
// that may have one as well: those that had a member when the newest set was agreed on.
func (o resizing) seats(r *Record) (listed, perhaps []string) {
	lists, perhaps := o.lists(r), r.Charter.Slots()
	if s := o.accepted(r); s != nil {
		perhaps = s.From
	}
	if l := o.leader(r); l != nil {
		lists, perhaps = [][]MemberInfo{l.Facts.Members}, nil
	}
	for _, l := range lists {
		for _, m := range l {
			listed = append(listed, m.Slot)
		}
	}
	slices.Sort(listed)
	return slices.Compact(listed), perhaps
}

// gone reports whether a slot is no longer, or not yet, in the cluster: neither agreed on nor a member's. If that is
// not known, the disk may be needed for a quorum, and gone is true only while a slot that is known to be needed has no
// holder.
func (o resizing) gone(r *Record, slot string) bool {
	listed, perhaps := o.seats(r)
	needed := append(slices.Clone(listed), o.slots(r)...)
	switch {
	case slices.Contains(needed, slot):
		return false
	case len(listed) > 0 && !slices.Contains(perhaps, slot):
		return true
	}
	return slices.ContainsFunc(needed, func(s string) bool { return o.occupant(s) == nil })
}

// unwanted returns the slots of this node's configuration that the cluster does not have, each with the reason.
func (o resizing) unwanted() map[string]string {
	r := o.current()
	if r == nil {
		return nil
	}
	avoid := map[string]string{}
	for _, slot := range o.Config.Slots {
		if o.gone(r, slot) {
			avoid[slot] = fmt.Sprintf("not a slot of the cluster (%s): %s", strings.Join(o.slots(r), ","),
				o.demand(r, o.Config.Slots))
		}
	}
	return avoid
}

// known returns the slots that the cluster has or may still have, but this node's configuration does not name. Their
// disks may be needed for a quorum, whatever the configuration wants.
func (o resizing) known() []string {
	r := o.current()
	if r == nil {
		return nil
	}
	var known []string
	listed, perhaps := o.seats(r)
	for _, slot := range slices.Concat(listed, perhaps, o.slots(r)) {
		if !slices.Contains(o.Config.Slots, slot) && !slices.Contains(known, slot) {
			known = append(known, slot)
		}
	}
	slices.Sort(known)
	return known
}

// idle reports whether the cluster does not need the held disk, so that this node can release it. While no member runs,
// the disk stays: if all nodes released theirs, nobody would know of the cluster, and all would claim them again.
func (o resizing) idle(r *Record) bool {
	listed, _ := o.seats(r)
	return len(listed) > 0 && o.gone(r, o.Claim.Slot) && !proposals(o).counting()
}

// retire releases a disk that the cluster does not need, with what was set aside on it. A blank disk of a host with any
// slot is given up without a trace, so that the host is free for another slot.
func (o resizing) retire(r *Record) Action {
	if claiming(o).uncommitted() && (!o.Disk.HasLedger || claiming(o).moot()) {
		return Action{Kind: Yield, Slot: o.Claim.Slot,
			Why: fmt.Sprintf("slot %s is not in the cluster (%s): the blank disk here leaves it", o.Claim.Slot,
				strings.Join(o.slots(r), ","))}
	}
	return Action{Kind: Retire,
		Why: fmt.Sprintf("slot %s is not in the cluster (%s): releasing its volume, which keeps what was set aside on it",
			o.Claim.Slot, strings.Join(o.slots(r), ","))}
}
