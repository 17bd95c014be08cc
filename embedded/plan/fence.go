package plan

import (
	"fmt"
	"slices"
	"strings"
)

// fence is what is known of the generation that a restore would end. It answers for which disks a seat in the new one
// is safe: whenever a majority of the seats has entered, the old generation must be without a majority, for good.
//
// Let n be the slots, V the old voters, L those of them that the operator declares dead. A child quorum is any
// need = n/2+1 of its seats, each on a disk that has left the old generation. A seat is anchored if its disk is that of
// the slot's old voter, which is not in L; any other seat is free. The worst child quorum takes all the free seats, and
// still stops need-free old voters beside those in L. The old generation is dead when what is left is no majority of V:
//
//	|V| - |L| - (need-free) < |V|/2+1
//
// With V = n slots, all anchored, that always holds. A learner is no voter: it is a free seat, and if it is promoted
// meanwhile V grows by one and so does the number of anchored seats, which keeps the sides as they are. A slot that is
// being replaced, where the disk is none of the member's, gets no seat and joins later, unless the slot is declared
// lost. Where no leader is here the lists may be older than the last change of the slots, or there may be none: then
// whoever that change names counts against us (see unseen). A member that is removed, or added on another disk, after this was counted is known to a disk that took part in
// that, hence to some disk of every child quorum: it does not enter (see supplanted).
type fence struct {
	slots  []string
	need   int
	voters int
	lost   int              // of the voters
	others []string         // who may vote and gets no seat, beside those that are lost
	stands map[string]stand // by slot
}

// stand is what is known of one slot of a fence.
type stand struct {
	holder   *holder
	member   uint64 // as all that run list it
	anchored bool
	free     bool // may get a seat at a price
	prepared bool
}

// fence looks at the old generation through the eyes of its members that run here and now.
func (o Observation) fence(old *Record, p *Restore) fence {
	f := fence{slots: p.founders(old), stands: map[string]stand{}}
	f.need = len(f.slots)/2 + 1
	lists := o.lists(old)
	for _, slot := range f.slots {
		s := stand{holder: o.occupant(slot)}
		voter, learner, disputed := len(lists) == 0 && o.settled(old, slot), false, false
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
			known := h.facts.Record != nil && h.facts.Record.ID == old.ID
			heir := known && s.member != 0 && h.facts.Member == s.member && o.removedBy(s.member) == ""
			s.anchored = heir && voter && !lost
			s.free = !s.anchored && (heir || lost && (known || h.facts.Record == nil && s.prepared))
		}
		if voter || disputed {
			f.voters++
			f.lost += boolean(lost)
		}
		f.stands[slot] = s
	}
	counted := slices.Clone(f.slots) // a voter whose slot gets no seat is one of the old generation all the same
	for _, l := range lists {
		for _, m := range l {
			if !m.Learner && !slices.Contains(counted, m.Slot) {
				counted = append(counted, m.Slot)
				f.voters++
				if slices.Contains(p.Lost, m.Slot) {
					f.lost++
				} else {
					f.others = append(f.others, m.Slot)
				}
			}
		}
	}
	if o.leader(old) == nil && !o.Member.Leader {
		f.unseen(o.accepted(old), p.Lost, lists)
	}
	return f
}

// settled reports whether a slot is a voter's at every step of the last change of the slots, as far as is known here.
func (o Observation) settled(old *Record, slot string) bool {
	s := o.accepted(old)
	return s == nil || slices.Contains(s.From, slot) && slices.Contains(s.Slots, slot)
}

// unseen counts those who may vote by now and whom no list here names: without a leader the lists may be from before the
// last change of the slots, or there are none, and then it may be half done. Who is lost does not count, for he would
// weigh against the others; and one of the lost may be out of the list just then, for he is being replaced.
func (f *fence) unseen(set *SlotSet, lost []string, lists [][]MemberInfo) {
	if set == nil {
		return
	}
	may := set.Slots
	if len(lists) == 0 {
		may = slices.Concat(set.Slots, set.From, f.slots)
	}
	for _, slot := range may {
		counted := slices.Contains(f.slots, slot) && slices.Contains(set.From, slot) && slices.Contains(set.Slots, slot)
		for _, l := range lists {
			counted = counted || slices.ContainsFunc(l, func(m MemberInfo) bool { return m.Slot == slot })
		}
		if !counted && !slices.Contains(lost, slot) && !slices.Contains(f.others, slot) {
			f.others = append(f.others, slot)
			f.voters++
		}
	}
	if len(lists) == 0 && f.lost > 0 {
		f.voters, f.lost = f.voters-1, f.lost-1
	}
}

// lists returns the member lists of the generation's members that run, as far as they live.
func (o Observation) lists(r *Record) [][]MemberInfo {
	var lists [][]MemberInfo
	consider := func(f Facts) {
		if f.Running && f.Record != nil && f.Record.ID == r.ID && len(f.Members) > 0 {
			lists = append(lists, f.Members)
		}
	}
	consider(o.Facts(nil))
	for _, p := range o.live() {
		if p.Facts != nil {
			consider(*p.Facts)
		}
	}
	return lists
}

// safe reports whether so many free seats leave the old generation without a majority.
func (f fence) safe(free int) bool {
	return f.voters-f.lost-max(0, f.need-free) < f.voters/2+1
}

// conclusion makes the record that ends the old generation, or says what is missing. It rests on facts that stay true
// until the restore is aborted, and that is what the store's condition excludes: a disk that has prepared; the old
// member that it holds; and the member list, which is frozen meanwhile.
func (o Observation) conclusion(p *Restore) (*Record, string) {
	old := o.Store.Record
	f := o.fence(old, p)
	c := Charter{Cluster: old.Charter.Cluster, Generation: p.Generation, PeerURL: old.Charter.PeerURL}
	seated, ready, free := map[string]bool{}, 0, 0
	give := func(wanted func(stand) bool) {
		for _, slot := range f.slots {
			s := f.stands[slot]
			if s.holder == nil || seated[slot] || !wanted(s) || s.free && !f.safe(free+1) {
				continue
			}
			seated[slot] = true
			ready, free = ready+boolean(s.prepared), free+boolean(s.free)
		}
	}
	give(func(s stand) bool { return s.anchored })
	give(func(s stand) bool { return s.free && s.prepared })
	give(func(s stand) bool { return s.free })
	var unfit []string
	for _, slot := range f.slots {
		s := f.stands[slot]
		made := Seat{Slot: slot, Member: s.member}
		if seated[slot] {
			made.Disk, made.Epoch = s.holder.facts.Disk, s.holder.facts.Epoch
		} else {
			unfit = append(unfit, slot)
		}
		c.Seats = append(c.Seats, made)
	}
	switch {
	case ready >= f.need && f.safe(free):
		return &Record{Cluster: old.Cluster, Generation: p.Generation, ID: p.ID, Line: p.Line, Cause: Restored, Restore: p, Charter: c}, ""
	case len(unfit) > len(f.slots)-f.need && !slices.ContainsFunc(unfit, func(slot string) bool { return !slices.Contains(p.Lost, slot) || f.stands[slot].holder != nil }):
		return nil, fmt.Sprintf("; %s no disk here, and %d of the %d slots need one: bring nodes for them, whose disks may be blank",
			they(unfit, "has", "have"), f.need, len(f.slots))
	case len(unfit) > len(f.slots)-f.need || !f.safe(free):
		unfit = slices.Compact(slices.Sorted(slices.Values(append(unfit, f.others...))))
		return nil, fmt.Sprintf("; %s not here with the data of %s, whose members could still have a majority elsewhere: bring the disks back, or abort the restore and begin it again with --lost %s",
			they(unfit, "is", "are"), old.Token(), strings.Join(unfit, ","))
	}
	return nil, ""
}

// they begins a sentence on one slot or several with its verb.
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
