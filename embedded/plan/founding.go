package plan

import (
	"fmt"
	"slices"
	"strings"
)

// founding decides for a disk that has accepted nothing: promise, commit, or be admitted to an existing cluster.
type founding view

// begin decides for a disk that has accepted nothing yet: it completes a promise, becomes a replacement in an existing
// cluster, or takes a step towards founding one.
func (o founding) begin() Action {
	me := o.facts(nil)
	if (o.Orders.Abandon && me.Promise != nil) ||
		(o.givenUp() && (me.Promise != nil || o.Store.Record != nil || o.Store.Managed != "")) {
		return o.renounce("the operator ordered this blank disk to forget what it promised")
	}
	known, conflict := o.latest()
	if s := o.Store; known == nil && s.Unknown == "" && s.Record != nil && o.prepared(s.Record.ID) {
		known = s.Record
	}
	switch {
	case conflict != "":
		return wait("%s", conflict)
	// Without what it prepared, the disk may have been a founder that lost its ledger and its votes.
	case known != nil && o.prepared(known.ID):
		return succession(o).follow(known)
	case known != nil && me.Promise != nil && known.ID == FoundingRecord(*me.Promise).ID:
		return o.commit(*me.Promise, "another founder has seen every promise")
	// The gossip may only show a stray.
	case known != nil && o.Store.Unknown == "" && o.Store.Record != nil && o.Store.Record.Lineage() != known.Lineage():
		return wait("the gossip knows the cluster as %s, and the backup store as %s: this blank disk joins neither; keep "+
			"the nodes of the other cluster away from this gossip, or set snapshot.store to this cluster's",
			known.Token(), o.Store.Record.Token())
	case known != nil:
		if !slices.Contains(o.slots(known), o.Claim.Slot) {
			if resizing(o).idle(known) {
				return resizing(o).retire(known)
			}
			return wait("the cluster %s exists and has no slot %s (it has %s): %s", known.Token(), o.Claim.Slot,
				strings.Join(o.slots(known), ", "), resizing(o).demand(known, o.Config.Slots))
		}
		if o.leader(known) == nil { // the founding may prove stillborn, and then this disk is still wanted
			return wait("the cluster %s exists, so this blank disk founds nothing; it waits to see its leader%s%s",
				known.Token(), o.whoRuns(known), o.nobodyHas(known))
		}
		if o.taking() { // once it has a record it cannot take another slot
			return wait("the cluster %s exists; hosts may still be taking other slots, so this blank disk does not join it "+
				"for a moment", known.Token())
		}
		if why := resuming(o).noRoom(); why != "" { // a learner that cannot start would be in everyone's way
			return wait("%s", why)
		}
		return Action{Kind: Vacate, Record: known,
			Why: fmt.Sprintf("the cluster %s exists: this blank disk must be admitted to it, it founds nothing", known.Token())}
	case me.Promise != nil && o.complete(*me.Promise):
		return o.commit(*me.Promise, "every disk has promised the same charter")
	}
	return o.found()
}

// nobodyHas names, for a disk without data that waits for a leader, the way out where no live node holds any data
// either: nothing is left to recover from, so nobody else would name it.
func (o founding) nobodyHas(r *Record) Said {
	mayHave := func(p Peer) bool {
		return p.Facts == nil || !slices.Contains([]Phase{PhaseNone, PhaseBlank, PhaseVacant}, p.Facts.Phase)
	}
	if s := o.Store; s.Unknown != "" || s.Record == nil || s.Restore != nil || slices.ContainsFunc(o.live(), mayHave) {
		return Said{}
	}
	return say("; no disk here has data of it: if the others are only away, bring them back; if they are lost for good, "+
		"run %s", command("restore latest --lost %s", strings.Join(o.slots(r), ",")))
}

// taking reports whether hosts may still be taking slots, so that another host may hold this slot as well.
func (o founding) taking() bool { return o.Config.Yields && o.Stirred }

// complete reports whether every disk of the charter is known to have promised it.
func (o founding) complete(c Charter) bool { return o.promised(c, c.equal) == len(c.Seats) }

// commit accepts the record of a complete charter, first in the store: if the store has another founding, the disk must
// not accept this one.
func (o founding) commit(c Charter, why string) Action {
	r := FoundingRecord(c)
	shared, unknown := o.shared(&c)
	switch {
	case unknown != "":
		return wait("ready to found %s, but %s", r.Token(), unknown)
	case o.Store.Record != nil && o.Store.Record.ID != r.ID:
		return wait("%s", o.storeKnows())
	case o.Store.Managed != "":
		return wait("%s", o.managed())
	case o.witness(&c) != "":
		return wait("ready to found %s, but %s", r.Token(), o.witness(&c))
	}
	return Action{Kind: Commit, Record: &r, Mirror: shared, Why: fmt.Sprintf("%s: founding %s", why, r.Token())}
}

// shared reports whether all live nodes that count use the same backup store, so that its contents count for all (R8).
// unknown says which store has not answered yet. A node counts if its disk is in the cluster or in the founding
// charter, or, before there is a charter, if it holds a wanted slot. A stray node does not make a store unshared.
func (o founding) shared(c *Charter) (shared bool, unknown string) {
	if o.Store.Unknown == Unasked {
		return false, "the backup store, which may know the cluster, has not been asked yet"
	}
	if o.Store.Unknown != "" {
		return false, "the backup store does not answer, so it cannot be ruled out that the cluster exists: " +
			o.Store.Unknown
	}
	shared = true
	counts := func(f Facts) bool { return slices.Contains(o.Config.Slots, f.Slot) }
	if mine := o.Disk.Ledger.Record; mine != nil {
		counts = func(f Facts) bool { return f.of(mine) }
	} else if c != nil {
		counts = func(f Facts) bool { return slices.ContainsFunc(c.Seats, func(s Seat) bool { return s.Disk == f.Disk }) }
	}
	for _, p := range o.live() {
		switch {
		case p.Facts == nil:
			return false, p.silence()
		case !counts(*p.Facts):
		case p.Facts.Store == "":
			return false, fmt.Sprintf("the backup store of node %s does not answer", p.Node)
		case p.Facts.Store != o.Store.ID:
			shared = false
		}
	}
	return shared, ""
}

// storeKnows says that only the store knows the cluster, and names every way out.
func (o founding) storeKnows() Said {
	r := o.Store.Record
	return say("the backup store knows the cluster as %s, but no disk here does: if it lives, this node does not hear it "+
		"(check gossip.seeds); if its disks are only away, bring them back; if they are lost for good, run %s; to give the "+
		"cluster up and found a new one, run %s",
		r.Token(), command("restore latest --lost %s", strings.Join(r.Charter.Slots(), ",")), Command("found --new"))
}

// onlyStoreKnows decides for a blank disk if only the store knows the cluster. Nothing is founded. With
// restore.automatic, the newest backup is restored if every slot has a blank disk and no witness names another cluster.
// All slots then count as lost.
func (o founding) onlyStoreKnows(shared bool) Action {
	r := o.Store.Record
	if !o.Config.Automatic || !shared {
		return wait("%s", o.storeKnows())
	}
	if o.Store.Restore != nil {
		return wait("%s was lost, and is being restored", r.Token())
	}
	holders, obstacle := o.holders()
	switch {
	case obstacle == "" && !slices.Equal(r.Charter.Slots(), o.Config.Slots):
		obstacle = fmt.Sprintf("it has the slots %s, and this node wants %s", strings.Join(r.Charter.Slots(), ","),
			strings.Join(o.Config.Slots, ","))
	case o.promisedBy(r) != "":
		obstacle = o.promisedBy(r)
	case obstacle == "":
		obstacle = o.witness(nil)
	}
	switch {
	case obstacle != "":
		return wait("restore.automatic waits: %s", obstacle).but(o.storeKnows())
	case holders[0].node != o.Node:
		return wait("every slot has a blank disk, and the backup store knows the cluster as %s: waiting for node %s to "+
			"propose the restore of the newest backup", r.Token(), holders[0].node)
	}
	return Action{Kind: Propose, Request: &Request{By: "restore.automatic", Lost: r.Charter.Slots()},
		Why: fmt.Sprintf("every slot has a blank disk, and the backup store knows the cluster as %s: proposing to restore "+
			"the newest backup, as restore.automatic says", r.Token())}
}

// managed says that etcd-manager keeps a cluster in the store, which vetoes a founding (R22), and names every way out.
func (o founding) managed() Said {
	return say("not founding: etcd-manager keeps a cluster in the backup store (%s), which an empty one must not "+
		"replace: if it lives, give this node another snapshot.store; "+
		"if it is given up, or is to be restored from its backups, run %s, which founds an empty cluster, "+
		"and then restore one of them", o.Store.Managed, Command("found --new"))
}

// promisedBy says which disk has promised the founding in the store: that disk may still begin with it, and is not
// lost.
func (o founding) promisedBy(r *Record) string {
	for _, p := range o.Peers {
		if p.Facts != nil && p.Facts.Promise != nil && p.Facts.Promise.ID() == r.ID {
			return fmt.Sprintf("the disk of slot %s on node %s has promised to found it", p.Facts.Slot, p.Node)
		}
	}
	return ""
}

// witness returns what a volume's tag says about a cluster that nobody in the gossip knows, and that is not the one of
// our own promise. If somebody in the gossip knows the cluster, the gossip knows more than the tag.
func (o founding) witness(own *Charter) string {
	for _, w := range o.Witnesses {
		known := own != nil && FoundingRecord(*own).Token() == w.Token
		for _, p := range o.Peers {
			known = known || p.Facts != nil && p.Facts.Record != nil && p.Facts.Record.Token() == w.Token
		}
		if !known {
			return fmt.Sprintf("the tag of volume %s says that it belongs to the cluster %s, of which no disk is here: "+
				"bring its disks back; if they are gone for good, remove that tag from the volume", w.Volume, w.Token)
		}
	}
	return ""
}

// found takes the next step of the prepare phase. If the store knows another cluster, that is a veto, even if the store
// is not shared.
func (o founding) found() Action {
	shared, unknown := o.shared(nil)
	mine := o.Disk.Ledger.Promise()
	if o.Store.Record != nil && (mine == nil || o.Store.Record.ID != FoundingRecord(*mine).ID) {
		return o.onlyStoreKnows(shared)
	}
	if o.Store.Managed != "" {
		return wait("%s", o.managed())
	}
	if o.Config.Never {
		return wait("slot %s is blank, no cluster is seen, and cluster.founding is never", o.Claim.Slot)
	}
	if unknown != "" {
		return wait("not founding: %s", unknown)
	}
	holders, obstacle := o.holders()
	if obstacle != "" {
		return wait("not founding yet: %s", obstacle)
	}
	if why := o.witness(mine); why != "" {
		return wait("not founding: %s", why)
	}
	if o.Store.Record != nil {
		return o.commit(*mine, "the store has the record of what this disk promised")
	}
	if o.taking() {
		return wait("every slot has a live, blank disk; hosts may still be taking other slots, " +
			"so nothing is promised for a moment")
	}
	if why := resuming(o).noRoom(); why != "" && mine == nil {
		return wait("%s", why)
	}
	target := o.target(holders)
	if mine == nil {
		return Action{Kind: Promise, Charter: &target,
			Why: fmt.Sprintf("every slot (%s) has a live, blank disk: promising charter %s", strings.Join(target.Slots(), ", "),
				target.ID())}
	}
	if mine.equal(target) {
		return wait("charter %s is promised; waiting for the promise of %s", mine.ID(),
			strings.Join(o.unpromised(*mine, holders), ", "))
	}
	if obstacle := o.movable(target); obstacle.Text != "" {
		return wait("%s", obstacle)
	}
	return Action{Kind: Promise, Charter: &target,
		Why: fmt.Sprintf("charter %s can no longer be completed: promising %s, made of the disks that are here now",
			mine.ID(), target.ID())}
}

// holders returns the one live holder of each wanted slot, including this node, or what prevents that.
func (o founding) holders() ([]holder, string) {
	all := []holder{{o.Node, o.facts(nil)}}
	for _, p := range o.live() {
		all = append(all, holder{p.Node, *p.Facts})
	}
	if !slices.Contains(o.Config.Slots, o.Claim.Slot) {
		return nil, fmt.Sprintf("slot %s, held here, is not "+
			"among the wanted slots %s", o.Claim.Slot, strings.Join(o.Config.Slots, ", "))
	}
	var found, rivals []holder
	var missing []string
	for _, slot := range o.Config.Slots {
		var in []holder
		for _, h := range all {
			if h.facts.Slot == slot {
				in = append(in, h)
			}
		}
		if len(in) == 0 {
			missing = append(missing, slot)
			continue
		}
		h := *o.occupant(slot)
		for _, rival := range in {
			switch {
			case rival.node == h.node:
			case o.mayStay(rival.facts):
				rivals = append(rivals, rival)
			default:
				return nil, fmt.Sprintf("nodes %s and %s both hold slot %s", in[0].node, in[1].node, slot)
			}
		}
		if why := o.unfit(h); why != "" {
			return nil, why
		}
		found = append(found, h)
	}
	if len(missing) > 0 {
		return nil, fmt.Sprintf("%s no live holder (wanted: %s)", they(missing, "has", "have"),
			strings.Join(o.Config.Slots, ", "))
	}
	target := o.target(found)
	for _, rival := range rivals {
		if !target.keepsMajority(*rival.facts.Promise) {
			slot := rival.facts.Slot
			return nil, fmt.Sprintf("nodes %s and %s both hold slot %s", o.occupant(slot).node, rival.node, slot)
		}
	}
	return found, ""
}

// mayStay reports whether the weaker of two rivals may keep its slot while the others found without it: it has
// promised, so it keeps its disk and waits. If three hosts take one slot in the same moment, each may have promised a
// charter with itself in it. A rival that has promised nothing will take another slot instead. The charter that a rival
// promised may be complete, and founded by now, unless a majority of its disks is among the founders, who would know.
func (o founding) mayStay(f Facts) bool {
	return o.Config.Yields && f.Phase == PhaseBlank && f.Promise != nil
}

// unfit says why a holder cannot found the cluster together with us.
func (o founding) unfit(h holder) string {
	f := h.facts
	switch {
	case f.Phase != PhaseBlank:
		return fmt.Sprintf("the disk of slot %s on node %s is not blank (%s)", f.Slot, h.node, f.Phase)
	case !slices.Equal(f.Slots, o.Config.Slots):
		return fmt.Sprintf("node %s wants the slots %s, this node %s: cluster.slots must be the same", h.node,
			strings.Join(f.Slots, ","), strings.Join(o.Config.Slots, ","))
	case f.PeerURL != o.Config.PeerURL:
		return fmt.Sprintf("node %s has the peer URL %s, this node %s: etcd.peer-url, or scheme, port, cluster.name and "+
			"cluster.domain, must be the same", h.node, f.PeerURL, o.Config.PeerURL)
	}
	return ""
}

// target is the charter to promise: the one that these same disks have promised already, else a new one. If holders saw
// different epochs, each slot gets the highest. A charter that replaces a disk is newer than every charter that had the
// old disk.
func (o founding) target(holders []holder) Charter {
	c := Charter{Cluster: o.Config.Cluster, Generation: 1, PeerURL: o.Config.PeerURL}
	for _, h := range holders {
		c.Seats = append(c.Seats, Seat{Slot: h.facts.Slot, Disk: h.facts.Disk, Epoch: h.facts.Epoch})
	}
	sortSeats(c.Seats)
	promises := slices.Clone(o.Disk.Ledger.Promises)
	for _, h := range holders {
		if h.facts.Promise != nil {
			promises = append(promises, *h.facts.Promise)
		}
	}
	var agreed *Charter
	for _, p := range promises {
		if p.sameDisks(c) {
			m := p
			if agreed != nil {
				m = agreed.merge(p)
			}
			agreed = &m
		}
	}
	if agreed != nil {
		c = agreed.merge(*agreed)
	}
	for _, p := range promises {
		if !p.sameDisks(c) {
			c.follow(p)
		}
	}
	return c
}

// follow raises the epochs so that c is newer than a charter with other disks.
func (c *Charter) follow(old Charter) {
	for i := range c.Seats {
		s := &c.Seats[i]
		o, ok := old.Seat(s.Slot)
		switch {
		case !ok:
		case o.Disk == s.Disk && old.PeerURL == c.PeerURL:
			s.Epoch = max(s.Epoch, o.Epoch)
		default:
			s.Epoch = max(s.Epoch, o.Epoch+1)
		}
	}
}

// movable says why this disk must not promise another charter after those it has promised.
func (o founding) movable(to Charter) Said {
	promises := o.Disk.Ledger.Promises
	if !to.newer(promises[len(promises)-1]) {
		return say("this disk promised charter %s, and the disks that are here now (%s) do not make a newer one; if the "+
			"others are gone for good, run %s", promises[len(promises)-1].ID(), to.ID(), Command("found --abandon"))
	}
	for _, p := range promises {
		if !to.keepsMajority(p) {
			return say("this disk promised charter %s, and a majority of its disks is not here, so they might have founded "+
				"without us; if they are gone for good, run %s", p.ID(), Command("found --abandon"))
		}
	}
	return Said{}
}

// unpromised names the holders that have not been seen to promise the charter.
func (o founding) unpromised(c Charter, holders []holder) []string {
	var names []string
	for _, h := range holders {
		if h.node != o.Node && (h.facts.Promise == nil || !h.facts.Promise.equal(c)) {
			names = append(names, fmt.Sprintf("%s (slot %s)", h.node, h.facts.Slot))
		}
	}
	return names
}
