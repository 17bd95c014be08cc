package plan

import (
	"fmt"
	"slices"
	"strings"
)

// latest returns the newest record that anybody knows, lost nodes and the store among them, or says what contradicts
// it. A generation descends from those in its line; two records of which neither descends from the other are two
// clusters, unless one of both was stillborn. The store counts only where a disk knows the cluster, too: what it says
// where all are blank is another matter, and a strange cluster in it stops nobody.
func (o Observation) latest() (*Record, string) {
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
			return nil, fmt.Sprintf("two clusters claim the name %q: %s and %s (node %s); keep one of them away from this gossip", o.Config.Cluster, best.Token(), r.Token(), p.Node)
		}
	}
	if best == nil {
		best = mine
	}
	r := o.Store.Record
	switch {
	case best == nil || r == nil || o.Store.Unknown != "" || r.Lineage() != best.Lineage() || r.ID == best.ID || best.descends(r):
	case r.descends(best):
		best = r
	default:
		return nil, fmt.Sprintf("the cluster went on twice: as %s, and in the backup store as %s; find out which is right, and keep the disks of the other away", best.Token(), r.Token())
	}
	return best, ""
}

// outlived reports whether the member here waits for a founding that was stillborn while another was not.
func (o Observation) outlived() bool {
	mine := o.Disk.Ledger.Record
	if o.Member.Ready || !o.stillborn(mine) {
		return false
	}
	later, _ := o.latest()
	return later != nil && later.ID != mine.ID
}

// leader returns a live node that says it leads the generation.
func (o Observation) leader(r *Record) *Peer {
	for _, p := range o.live() {
		if p.Facts != nil && p.Facts.Leader && p.Facts.of(r) {
			return &p
		}
	}
	return nil
}

// removedBy returns a node that knows the member to be removed from our generation: "" if none does. An ID never comes back. It is
// a word in the gossip: it gives no seat and admits nobody, and data is set aside only on a leader's (see dismissed).
func (o Observation) removedBy(id uint64) string {
	for _, p := range o.Peers {
		if id != 0 && p.Facts != nil && slices.Contains(p.Facts.Removed, id) {
			return p.Node
		}
	}
	return ""
}

// dismissedBy returns a live leader of our generation that says that the member was removed, "" if none does (R6). Two may say for a
// moment that they lead. It is asked directly before anything is done.
func (o Observation) dismissedBy(id uint64) string {
	for _, p := range o.live() {
		if f := p.Facts; f != nil && f.of(o.Disk.Ledger.Record) && f.Leader && id != 0 && slices.Contains(f.Removed, id) {
			return p.Node
		}
	}
	return ""
}

// heardAll reports whether every other slot of our cluster has a live holder. Whoever brought us word of
// those would have brought word of a rival as well.
func (o Observation) heardAll() bool {
	if o.Config.Seeded && len(o.live()) == 0 {
		return false
	}
	for _, slot := range o.slots(o.Disk.Ledger.Record) {
		if slot != o.Claim.Slot && !slices.ContainsFunc(o.live(), func(p Peer) bool { return p.Facts != nil && p.Facts.Slot == slot }) {
			return false
		}
	}
	return true
}

// whoRuns completes a sentence on a missing leader with what is known of the members.
func (o Observation) whoRuns(r *Record) string {
	var parts []string
	for _, slot := range o.slots(r) {
		state := "no live holder"
		for _, p := range o.live() {
			if p.Facts != nil && p.Facts.Slot == slot {
				state = fmt.Sprintf("%s on %s", p.Facts.Phase, p.Node)
				if p.Facts.Running {
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

func (o Observation) live() []Peer {
	live := make([]Peer, 0, len(o.Peers))
	for _, p := range o.Peers {
		if p.Live {
			live = append(live, p)
		}
	}
	return live
}
