package plan

import (
	"fmt"
	"slices"
	"strings"
)

// fencing asks which disks may found the generation that a proposal would begin.
type fencing view

// fence is what is known of the generation that a restore would end. It says for which disks a seat in the new
// generation is safe: whenever a majority of the seats has entered, the old generation must be without a majority, for
// good.
//
// Let n be the slots and V the old voters. A child quorum is any need = n/2+1 of the seats, each on a disk that has
// left the old generation. A seat is anchored if its disk is that of the slot's old voter, and the slot is not named
// lost; any other seat is free. The worst child quorum takes all free seats, and still stops need-free old voters. The
// old generation is dead when the remaining voters are no majority of V:
//
//	|V| - (need-free) < |V|/2+1
//
// A voter that was named lost does not count as stopped. If there is a leader, it has a quorum of voters whose own
// disks can enter, so it needs no operator's claim. Without a leader, no disk gets a seat before the voters are out
// (see deserted); then any seat is safe.
//
// If V is all n slots, and all seats are anchored, the condition always holds. A learner is no voter: it gets a free
// seat. If it is promoted meanwhile, V and the anchored seats each grow by one, and both sides of the condition keep
// their difference. A slot that is being replaced, so that its disk is not the member's, gets no seat and joins later,
// unless it is declared lost. Without a leader, the member lists may be older than the last change of the slots, or
// there may be none. Then every slot that this change names counts as a possible voter (see unseen). If a member is
// removed, or added on another disk, after the count, a disk of every child quorum took part in that change and knows
// of it: that disk does not enter (see supplanted).
type fence struct {
	slots  []string
	need   int
	voters int
	out    int      // of the voters: those that can never vote again (see out), and those named lost
	proven int      // of the voters: those that can never vote again, without those that are only named lost
	others []string // slots that may have a vote and get no seat
	// learners counts those that are not out and may have become voters.
	learners int
	waiting  []string             // slots of voters that are here and have not left
	missing  []string             // slots of voters that are not here and not lost
	states   map[string]slotState // by slot
}

// slotState is what is known of one slot of a fence.
type slotState struct {
	holder   *holder
	member   uint64 // as all running members list it
	anchored bool
	free     bool // may get a seat that counts as free
	prepared bool
}

// fence judges the old generation by the members that run here now.
func (o fencing) fence(old *Record, p *Restore) fence {
	f := fence{slots: p.founders(old), states: map[string]slotState{}}
	f.need = len(f.slots)/2 + 1
	lists := o.lists(old)
	for _, slot := range f.slots {
		s := slotState{holder: o.occupant(slot)}
		voter, learner, disputed := len(lists) == 0 && o.alwaysVoter(old, slot), false, false
		for _, l := range lists {
			i := slices.IndexFunc(l, func(m MemberInfo) bool { return m.Slot == slot })
			if i < 0 {
				continue
			}
			disputed = disputed || s.member != 0 && s.member != l[i].ID
			s.member, learner, voter = l[i].ID, learner || l[i].Learner, voter || !l[i].Learner
		}
		lost := slices.Contains(p.Lost, slot)
		if h := s.holder; h != nil && !disputed {
			s.prepared = h.facts.Prepared == p.ID
			known := h.facts.of(old)
			heir := known && s.member != 0 && h.facts.Member == s.member && o.removedBy(s.member) == ""
			s.anchored = heir && voter && !lost
			s.free = !s.anchored && (heir || lost && (known || h.facts.Record == nil && s.prepared))
		}
		out := !disputed && o.out(old, MemberInfo{ID: s.member, Slot: slot}, p)
		if voter || disputed {
			f.voters++
			f.count(slot, out, lost, s.holder.awaited(old, p))
		} else if learner && !out {
			f.learners++
		}
		f.states[slot] = s
	}
	counted := slices.Clone(f.slots) // a voter whose slot gets no seat is an old voter all the same
	for _, l := range lists {
		for _, m := range l {
			if !m.Learner && !slices.Contains(counted, m.Slot) {
				counted = append(counted, m.Slot)
				f.voters++
				f.count(m.Slot, o.out(old, m, p), slices.Contains(p.Lost, m.Slot), o.occupant(m.Slot).awaited(old, p))
				f.others = append(f.others, m.Slot)
			}
		}
	}
	if o.leader(old) == nil && !o.Member.Leader {
		f.unseen(o.accepted(old), p.Lost, lists)
	}
	return f
}

// count records whether a voter is out or named lost, and if neither, whether it is here.
func (f *fence) count(slot string, out, lost, here bool) {
	f.proven += boolean(out)
	switch {
	case out || lost:
		f.out++
	case here:
		f.waiting = append(f.waiting, slot)
	default:
		f.missing = append(f.missing, slot)
	}
}

// awaited reports whether the slot has a holder whose old data may still leave. If the holder has left, but the slot's
// voter is not out, the voter is a different member, which is not here.
func (h *holder) awaited(old *Record, p *Restore) bool {
	return h != nil && h.facts.Phase == PhaseData && h.facts.of(old) && (h.facts.Left == nil || h.facts.Left.Proposal != p.ID)
}

// alwaysVoter reports whether a slot had a voter before and after the last change of the slots, as far as is known.
func (o fencing) alwaysVoter(old *Record, slot string) bool {
	s := o.accepted(old)
	return s == nil || slices.Contains(s.From, slot) && slices.Contains(s.Slots, slot)
}

// unseen counts the slots that may have a voter although no member list names one. Without a leader, the lists may be
// older than the last change of the slots; if there are none, that change may be half done. A slot that was named lost
// may never have had a voter. So it counts like a learner: neither as an old voter, nor as if it could not vote.
func (f *fence) unseen(set *SlotSet, lost []string, lists [][]MemberInfo) {
	if set == nil {
		return
	}
	may := slices.Clone(set.Slots)
	if len(lists) == 0 {
		may = slices.Concat(may, set.From, f.slots)
	}
	slices.Sort(may)
	for _, slot := range slices.Compact(may) {
		counted := slices.Contains(f.slots, slot) && slices.Contains(set.From, slot) && slices.Contains(set.Slots, slot)
		for _, l := range lists {
			counted = counted || slices.ContainsFunc(l, func(m MemberInfo) bool { return m.Slot == slot })
		}
		switch {
		case counted:
		case slices.Contains(lost, slot):
			f.learners++
		default:
			f.others, f.missing = append(f.others, slot), append(f.missing, slot)
			f.voters++
		}
	}
}

// deserted reports whether the old generation has lost its majority for good, because its voters have left for this
// proposal, are proven gone, or were named lost (R16). These facts stay true until the proposal is aborted, even for
// nodes that are gone meanwhile. A learner may have been promoted without the nodes here knowing.
//
// Being named lost is no proof: a single living voter that was named, together with one that nobody named, would be a
// quorum. So if too few voters are proven out, every other one must have been named.
func (f fence) deserted() bool {
	left, all := f.voters-f.proven, f.voters+f.learners
	return left < f.voters/2+1 && left+f.learners < all/2+1 || f.out >= f.voters
}

// out reports whether a member of the old generation can never vote there again, unless this proposal is aborted.
func (o fencing) out(old *Record, m MemberInfo, p *Restore) bool {
	is := func(f Facts) bool {
		if f.Slot != m.Slot || !f.of(old) || m.ID == 0 {
			return false
		}
		return f.Left != nil && f.Left.Proposal == p.ID && f.Member == m.ID || o.emptied(old, f, m.ID)
	}
	return is(o.facts(nil)) || slices.ContainsFunc(o.Peers, func(p Peer) bool { return p.Facts != nil && is(*p.Facts) })
}

// emptied reports whether a voter's own disk holds none of its data any more.
func (o fencing) emptied(r *Record, f Facts, member uint64) bool {
	seat, _ := r.Charter.Seat(f.Slot)
	founded := seat.Disk == f.Disk && o.Disk.Founders[f.Slot] == member
	return f.Phase == PhaseVacant && (founded || f.Join == member)
}

// safe reports whether that many free seats leave the old generation without a majority.
func (f fence) safe(free int) bool {
	return f.voters-max(0, f.need-free) < f.voters/2+1
}

// conclusion makes the record that ends the old generation, or says what is missing. It relies on facts that stay true
// until the restore is aborted: the disks that have prepared, the old members on them, and the member list, which is
// frozen meanwhile. The store's conditional put excludes an abort.
func (o fencing) conclusion(p *Restore) (*Record, string) {
	old := o.Store.Record
	f := o.fence(old, p)
	dead := p.Led == nil && f.deserted()
	c := Charter{Cluster: old.Charter.Cluster, Generation: p.Generation, PeerURL: p.Pattern(old.Charter)}
	seated, ready, free := map[string]bool{}, 0, 0
	give := func(wanted func(slotState) bool) {
		for _, slot := range f.slots {
			s := f.states[slot]
			if s.holder == nil || seated[slot] || !wanted(s) || s.free && !dead && !f.safe(free+1) {
				continue
			}
			seated[slot] = true
			ready, free = ready+boolean(s.prepared), free+boolean(s.free)
		}
	}
	give(func(s slotState) bool { return s.anchored })
	give(func(s slotState) bool { return s.free && s.prepared })
	give(func(s slotState) bool { return s.free })
	var unfit []string
	for _, slot := range f.slots {
		s := f.states[slot]
		made := Seat{Slot: slot, Member: s.member}
		if seated[slot] {
			made.Disk, made.Epoch = s.holder.facts.Disk, s.holder.facts.Epoch
		} else {
			unfit = append(unfit, slot)
		}
		c.Seats = append(c.Seats, made)
	}
	switch {
	case adopting(o).forbidden(p) != "":
		return nil, adopting(o).forbidden(p)
	case p.Led == nil && !dead:
		return nil, f.undeserted(old, p)
	case ready >= f.need && (dead || f.safe(free)):
		return &Record{Cluster: old.Cluster, Generation: p.Generation, ID: p.ID, Line: p.Line, Cause: Restored, Restore: p,
			Charter: c}, ""
	case dead && len(unfit) > len(f.slots)-f.need && !slices.ContainsFunc(unfit,
		func(slot string) bool { return !slices.Contains(p.Lost, slot) || f.states[slot].holder != nil }):
		return nil, fmt.Sprintf("%s no disk here, and %d of the %d slots need one: bring nodes for them, whose disks may "+
			"be blank", they(unfit, "has", "have"), f.need, len(f.slots))
	case len(unfit) > len(f.slots)-f.need || !dead && !f.safe(free):
		unfit = slices.Compact(slices.Sorted(slices.Values(append(unfit, f.others...))))
		return nil, fmt.Sprintf("%s not here with the data of %s, whose members could still have a majority elsewhere: "+
			"bring the disks back, or abort the restore and begin it again with --lost %s",
			they(unfit, "is", "are"), old.Token(), strings.Join(unfit, ","))
	}
	return nil, ""
}

// undeserted says which voters could still give the old generation a majority.
func (f fence) undeserted(old *Record, p *Restore) string {
	if len(f.missing) == 0 {
		return fmt.Sprintf("%s still to leave %s", they(f.waiting, "has", "have"), old.Token())
	}
	return f.elsewhere(old, "abort and begin again with", p)
}

// elsewhere says which slots' voters are not here, and how to declare them lost.
func (f fence) elsewhere(old *Record, how string, p *Restore) string {
	missing := slices.Compact(slices.Sorted(slices.Values(f.missing)))
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(missing, p.Lost))))
	return fmt.Sprintf("%s not here with the data of %s, whose members could still have a majority elsewhere: bring the "+
		"disks back, or %s --lost %s", they(missing, "is", "are"), old.Token(), how, strings.Join(all, ","))
}

// Hopeless says why a proposal to end the store's generation would wait forever, "" if it would not. A leaderless one
// waits for voters that are not here, even after all that are here have left. A restore to which the leader consents
// waits if it leaves out too many voters: a command that reached no node knows only the slots that the generation began
// with.
func (obs Observation) Hopeless(p *Restore) string {
	o := fencing(look(&obs))
	f := o.fence(o.Store.Record, p)
	switch {
	case p.Led != nil && (p.Survivor != "" || f.safe(0)):
		return ""
	case p.Led != nil:
		others := slices.Compact(slices.Sorted(slices.Values(f.others)))
		return fmt.Sprintf("it would continue with the slots %s, and %s members as well, which could still have a majority",
			strings.Join(f.slots, ","), they(others, "has", "have"))
	}
	f.proven, f.out = f.proven+len(f.waiting), f.out+len(f.waiting)
	if f.deserted() || len(f.missing) == 0 {
		return ""
	}
	return f.elsewhere(o.Store.Record, "if they are gone for good, begin it with", p)
}

// they begins a sentence about one or several slots, with the matching verb.
func they(slots []string, one, several string) string {
	if len(slots) == 1 {
		return "slot " + slots[0] + " " + one
	}
	return "slots " + strings.Join(slots, ", ") + " " + several
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
