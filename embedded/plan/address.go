package plan

// Holders returns the node whose address each slot's name has (R10). The order is: the node that runs the member in the
// member list; one whose disk is that member's; a joiner that the leader admitted; the highest epoch of our generation.
// A node of another generation never counts; one that is about to accept our founding does. Lost nodes count like live
// ones: their address is the last known, and failing gossip must not cut a working raft connection.
func Holders(obs Observation) map[string]string {
	o := look(&obs)
	record := o.Disk.Ledger.Record
	if record == nil {
		if record = o.current(); record == nil {
			return map[string]string{}
		}
	}
	members := o.Member.Members
	if !o.Member.Running {
		if l := o.leader(record); l != nil {
			members = l.Facts.Members
		}
	}
	best := map[string]rank{}
	for p, f := range o.everyone() {
		if f.Slot == "" || !f.of(record) && !f.founds(record) {
			continue
		}
		r := rank{node: p.Node, epoch: f.Epoch}
		for _, m := range members {
			switch {
			case m.Slot != f.Slot:
			case f.Member != 0 && f.Member == m.ID && f.Running && p.Live:
				r.class = 3 // a copy of its disk, even if claimed later, must not take the name
			case f.Member != 0 && f.Member == m.ID:
				r.class = 2
			case f.Join != 0 && f.Join == m.ID:
				r.class = 1
			}
		}
		if old, ok := best[f.Slot]; !ok || r.above(old) {
			best[f.Slot] = r
		}
	}
	nodes := make(map[string]string, len(best))
	for slot, r := range best {
		nodes[slot] = r.node
	}
	return nodes
}

// founds reports whether the disk has promised the founding that r records, and has not accepted anything yet. It
// accepts r as soon as it hears of it. A member that starts before its name is known looks the name up again after a
// second.
func (f Facts) founds(r *Record) bool {
	seat, _ := r.Charter.Seat(f.Slot)
	return r.Cause == Founding && f.Record == nil && f.Promise != nil && seat.Disk != "" && seat.Disk == f.Disk &&
		f.Promise.equal(r.Charter)
}

type rank struct {
	class int
	epoch uint64
	node  string
}

func (r rank) above(s rank) bool {
	switch {
	case r.class != s.class:
		return r.class > s.class
	case r.epoch != s.epoch:
		return r.epoch > s.epoch
	}
	return r.node < s.node
}
