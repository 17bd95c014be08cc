package plan

import (
	"fmt"
	"maps"
	"slices"
)

// claiming asks which volume may be claimed, and who else holds the slot.
type claiming view

// acquire asks for a volume. The provider chooses it; we only know which slots would clash.
func (o claiming) acquire() Action {
	a := Action{Kind: Acquire, Why: "no volume is held: claiming one", Known: resizing(o).known()}
	switch {
	case o.Claim.None != "":
		a.Why = "standing by: " + o.Claim.None
	case o.Claim.Failed != "":
		a.Why = "no volume is held: " + o.Claim.Failed
	}
	if o.Config.Yields {
		a.Avoid = o.taken()
	}
	if unwanted := resizing(o).unwanted(); len(unwanted) > 0 {
		if a.Avoid == nil {
			a.Avoid = map[string]string{}
		}
		maps.Copy(a.Avoid, unwanted)
	}
	if o.Config.Yields {
		o.leave(a.Avoid)
	}
	return a
}

// leave leaves the first free slots to the nodes without a slot whose names come first. Otherwise both would take the
// same slot in the same moment, and one would have to yield it. Nobody leaves the last free slot.
func (o claiming) leave(avoid map[string]string) {
	free := slices.DeleteFunc(slices.Clone(o.Config.Slots), func(slot string) bool { return avoid[slot] != "" })
	for _, p := range o.live() {
		if len(free) > 1 && p.Facts != nil && p.Facts.Slot == "" && p.Node < o.Node {
			avoid[free[0]] = "left to " + p.Node
			free = free[1:]
		}
	}
}

// taken returns the slots that others hold, each with the reason. Lost nodes count, too: a standby must not take the
// slot of a host that only restarts, because the standby's blank disk would cost the cluster a good one. A lost blank
// disk is no loss, so its slot is free if no other slot is.
func (o claiming) taken() map[string]string {
	taken, blank := map[string]string{}, map[string]string{}
	for _, p := range o.Peers {
		f := p.Facts
		switch {
		case f == nil || f.Slot == "":
		case p.Live:
			taken[f.Slot] = "held by " + p.Node
		case taken[f.Slot] != "":
		case f.past():
			taken[f.Slot] = fmt.Sprintf("held by %s when it was last seen; if that is gone for good, set volume.local.slot here",
				p.Node)
		default:
			blank[f.Slot] = fmt.Sprintf("held by %s when it was last seen", p.Node)
		}
	}
	for _, slot := range o.Foreign() {
		if taken[slot] == "" {
			taken[slot] = "its member is not taken over yet"
		}
	}
	for slot, node := range o.heldBefore() {
		if taken[slot] == "" {
			taken[slot] = fmt.Sprintf("held by %s before; if that is gone for good, set volume.local.slot here", node)
		}
	}
	unwanted := resizing(o).unwanted()
	for _, slot := range o.Config.Slots {
		if unwanted[slot] == "" && taken[slot] == "" && blank[slot] == "" {
			maps.Copy(blank, taken)
			return blank
		}
	}
	return taken
}

// heldBefore returns, by slot, the other nodes that last held a member's disk, as running members remember them.
func (o claiming) heldBefore() map[string]string {
	before := map[string]string{}
	for _, p := range o.live() {
		if p.Facts == nil {
			continue
		}
		for slot, node := range p.Facts.Holders {
			if node != o.Node {
				before[slot] = node
			}
		}
	}
	return before
}

// past reports whether the disk has taken part in a cluster.
func (f Facts) past() bool {
	return f.Phase != PhaseNone && f.Phase != PhaseBlank
}

// Evidence reports whether the facts show a cluster, or a founding that may have become one.
func (f Facts) Evidence() bool {
	return f.Record != nil || f.Promise != nil || f.CID != 0 || f.past()
}

// rivalry looks for another live holder of our slot. The disk lock keeps two processes from one volume; rivalry keeps
// two volumes from one name.
func (o claiming) rivalry() Action {
	me := o.facts(nil)
	pristine := o.uncommitted() && !o.Disk.HasLedger
	if node := o.heldBefore()[me.Slot]; pristine && node != "" {
		return Action{Kind: Yield, Slot: me.Slot,
			Why: fmt.Sprintf("node %s held slot %s before, with its data: the blank disk here leaves the slot to it", node,
				me.Slot)}
	}
	if pristine && slices.Contains(o.Foreign(), me.Slot) {
		return Action{Kind: Yield, Slot: me.Slot,
			Why: fmt.Sprintf("the member of slot %s is not taken over yet: the blank disk here leaves the slot to its data",
				me.Slot)}
	}
	for _, p := range o.Peers {
		f := p.Facts
		if f == nil || f.Slot != o.Claim.Slot || o.otherGeneration(f) {
			if p.Live && f != nil && f.Running && o.same(f) {
				return wait("node %s runs member %x as slot %s (disk %s), and its data is here as well: slot %s does not "+
					"start; stop one of the two", p.Node, f.Member, f.Slot, f.Disk, me.Slot)
			}
			continue
		}
		if !p.Live {
			if pristine && f.past() {
				return Action{Kind: Yield, Slot: me.Slot,
					Why: fmt.Sprintf("node %s held slot %s when it was last seen, with its data: the blank "+
						"disk here leaves the slot to it", p.Node, f.Slot)}
			}
			continue
		}
		switch {
		case o.stronger(me, o.Node, *f, p.Node):
			continue
		case pristine || o.moot():
			return Action{Kind: Yield, Slot: me.Slot,
				Why: fmt.Sprintf("node %s holds slot %s as well and comes first: the blank disk here takes another slot", p.Node,
					f.Slot)}
		case f.Running && o.replaced(*f):
			return Action{Kind: Retire,
				Why: fmt.Sprintf("the cluster has given slot %s to node %s, which runs its member: releasing the volume here, "+
					"which has no data of a member and keeps what was set aside on it", f.Slot, p.Node)}
		case f.Running:
			return wait("node %s runs slot %s (disk %s, epoch %d), so this disk (%s, epoch %d) does not start; stop one of "+
				"the two", p.Node, f.Slot, f.Disk, f.Epoch, me.Disk, me.Epoch)
		default:
			return wait("node %s holds slot %s as well (disk %s, epoch %d; this disk is %s, epoch %d) and comes first; "+
				"waiting until it is gone", p.Node, f.Slot, f.Disk, f.Epoch, me.Disk, me.Epoch)
		}
	}
	return Action{}
}

// uncommitted reports whether the disk has taken part in nothing but foundings, on a host that may have any slot.
func (o claiming) uncommitted() bool { return o.Config.Yields && o.phase() == PhaseBlank }

// replaced reports whether the held slot has another voter, which runs elsewhere, while the disk here has no data: its
// host was away, and the cluster continued without it. A host that may have any slot is then free for another one. By
// the leader's list that voter counts and this disk does not, so nothing can need it any more.
func (o claiming) replaced(f Facts) bool {
	r := o.Disk.Ledger.Record
	if !o.Config.Yields || o.phase() != PhaseVacant || proposals(o).counting() {
		return false
	}
	l := o.leader(r)
	return l != nil && slices.ContainsFunc(l.Facts.Members, func(m MemberInfo) bool {
		return m.Slot == f.Slot && m.ID == f.Member && !m.Learner
	})
}

// moot reports whether all that the disk has are promises that nobody needs: a leader serves the newest cluster, or the
// store has a cluster's record, and this disk is none of its founders. Without moot, a host that lost the race of a
// founding would never be free again.
func (o claiming) moot() bool {
	if !o.uncommitted() || o.Disk.Ledger.Prepared != nil || o.Disk.Built != "" {
		return false
	}
	known, conflict := o.latest()
	switch {
	case conflict != "":
		return false
	case known != nil && o.leader(known) != nil:
	case o.Store.Record == nil || known != nil && known.ID != o.Store.Record.ID:
		return false
	default: // the store counts if all use it (R8)
		if shared, unknown := founding(o).shared(nil); !shared || unknown != "" {
			return false
		}
		known = o.Store.Record
	}
	return !slices.ContainsFunc(known.Charter.Seats, func(s Seat) bool { return s.Disk == o.Claim.Disk })
}

// stronger says which of two holders of one slot goes first: the one that runs; then the one with more to lose, whose
// disk may be foreign data that was not taken over, or a promise of a founding that a disk or the store has accepted;
// then the later claim; then the lower node name. Claims of blank disks cannot be compared, because each host counts
// its own, so there the name decides at once.
func (o mesh) stronger(a Facts, aNode string, b Facts, bNode string) bool {
	rank := func(f Facts) int {
		switch {
		case f.Running:
			return 7
		case f.Phase == PhaseData:
			return 6
		case f.Phase == PhaseFounder || f.Phase == PhaseJoiner:
			return 5
		case f.Foreign:
			return 4
		case f.Record != nil:
			return 3
		case f.Promise != nil && o.accepts(f.Promise.ID()):
			return 2
		case f.Promise != nil:
			return 1
		}
		return 0
	}
	if ra, rb := rank(a), rank(b); ra != rb {
		return ra > rb
	}
	if rank(a) > 2 && a.Epoch != b.Epoch {
		return a.Epoch > b.Epoch
	}
	return aNode < bNode
}

// accepts reports whether the store or a disk has accepted the founding.
func (o mesh) accepts(founding string) bool {
	if mine := o.Disk.Ledger.Record; mine != nil && mine.ID == founding {
		return true
	}
	return o.Store.Record != nil && o.Store.Record.ID == founding || slices.ContainsFunc(o.Peers, func(p Peer) bool {
		return p.Facts != nil && p.Facts.Record != nil && p.Facts.Record.ID == founding
	})
}
