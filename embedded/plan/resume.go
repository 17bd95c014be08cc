package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// resuming asks whether etcd starts on a disk that has accepted a record, and how: with its data, as a founder, as a
// learner, or not yet.
type resuming view

// resume starts etcd on its data, unless another node or the store knows a reason not to (R6).
func (o resuming) resume() Action {
	d := o.Disk
	r := d.Ledger.Record
	if r == nil {
		return o.repair()
	}
	if d.ClusterID != d.RecordCID {
		return wait("the etcd data on slot %s belongs to cluster %x, but its ledger speaks of %s (%x): nothing is "+
			"touched; if it may be set aside, run %s", o.Claim.Slot, d.ClusterID, r.Token(), d.RecordCID, setVolumeAside)
	}
	next, _, pending := succession(o).ended()
	switch {
	case next != nil:
		return proposals(o).beside(succession(o).moveOn(next))
	case o.leader(r) != nil: // it is live: one more of its members changes nothing
	case pending != "" && o.Orders.Join:
		return succession(o).follow(o.Store.Record)
	case pending != "":
		return wait("%s; this disk holds data of %s and does not start; to set it aside and join %s, run %s here", pending,
			r.Token(), o.Store.Record.Token(), Command("rejoin"))
	case o.laterNode() != "":
		return wait("slot %s does not start: node %s says that %s has ended, and what the backup store says about that is "+
			"not proven to this disk (%s); to start anyway, take that node away; to set the data aside and join, run %s",
			o.Claim.Slot, o.laterNode(), r.Token(), o.Store.Doubt, setVolumeAside)
	case o.Starting:
		return wait("slot %s waits a moment for the backup store, which may know that %s is over: %s", o.Claim.Slot,
			r.Token(), o.Store.Unknown)
	case succession(o).undecided():
		return wait("slot %s does not start: the backup store says that %s has ended, and %s", o.Claim.Slot, r.Token(),
			o.otherStore())
	}
	if l := d.Ledger; l.Role == RoleJoiner && l.Join != d.Member {
		return Action{Kind: SetAside, Record: r,
			Why: fmt.Sprintf("slot %s was admitted as learner %x, but the data took the place of %x, which is for another "+
				"disk: it is set aside and the slot joins again", o.Claim.Slot, l.Join, d.Member)}
	}
	if p := proposals(o.presumed()).inStore(); p != nil && p.Led == nil &&
		(o.Alone || slices.Contains(p.Lost, o.Claim.Slot)) {
		return proposals(o).beside(wait("slot %s does not start while a %s is open", o.Claim.Slot, p.Title()))
	}
	if a := o.rollback(); a.Kind != "" {
		return a
	}
	if d.Unfit != "" {
		return wait("slot %s does not start: %s", o.Claim.Slot, d.Unfit)
	}
	if why := o.urlConflict(r); why != "" {
		return wait("%s", why)
	}
	if why := o.tooOld(r); why.Text != "" {
		return wait("%s", why)
	}
	peers := r.Charter.Peers()
	peers[o.Claim.Slot] = o.ownURL(r) // the slot may have been added after the record
	return Action{Kind: Start, Record: r, Member: d.Member, Peers: peers,
		Why: fmt.Sprintf("slot %s resumes with its data", o.Claim.Slot)}
}

// otherMember names the member of another slot whose data is on the disk, "" if nothing shows that. It happens if
// etcd's directory was copied from another node to bring this one back. Two processes would run that member.
func (o resuming) otherMember() string {
	d, r := o.Disk, o.Disk.Ledger.Record
	if !d.WAL || r == nil || o.changing() {
		return ""
	}
	of := func(slot string, id uint64) bool { return id == d.Member && slot != o.Claim.Slot }
	for _, slot := range slices.Sorted(maps.Keys(d.Founders)) {
		if of(slot, d.Founders[slot]) {
			return fmt.Sprintf("member %x, which is slot %s", d.Member, slot)
		}
	}
	for _, p := range o.live() {
		if p.Facts == nil || !p.Facts.Running || !p.Facts.of(r) {
			continue
		}
		for _, m := range p.Facts.Members {
			if of(m.Slot, m.ID) && slices.Contains(o.slots(r), m.Slot) {
				return fmt.Sprintf("member %x, which is slot %s according to node %s", m.ID, m.Slot, p.Node)
			}
		}
	}
	if d.Ledger.Role == RoleFounder && d.Founder != 0 && d.Founder != d.Member {
		return fmt.Sprintf("member %x, and the disk founded %s as member %x", d.Member, r.Token(), d.Founder)
	}
	return ""
}

// laterNode names a live node that says it is in a generation after ours, if the store also has one that it cannot
// prove: its signatures may be older than the authorities. Such a claim keeps a stopped member waiting (R17). "" if
// there is none.
func (o resuming) laterNode() string {
	mine := o.Disk.Ledger.Record
	if o.Store.Unknown == "" || o.Store.Unproven <= mine.Generation {
		return ""
	}
	for _, p := range o.live() {
		if p.Facts != nil && p.Facts.Record != nil && p.Facts.Record.descends(mine) {
			return p.Node
		}
	}
	return ""
}

// setAside gives up the data of a member that the cluster has removed: etcd itself said so (leader is ""), or the
// leader, which is asked directly first. A removal is final, so rivals do not matter, and the slot becomes free for
// them.
func (o resuming) setAside(leader string) Action {
	then := fmt.Sprintf("slot %s joins again", o.Claim.Slot)
	if r := o.Disk.Ledger.Record; !slices.Contains(o.slots(r), o.Claim.Slot) {
		then = fmt.Sprintf("slot %s, which the cluster does not have any more (%s), is given up", o.Claim.Slot,
			strings.Join(o.slots(r), ","))
	}
	who := "the cluster"
	if leader != "" {
		who = "leader " + leader + " says that the cluster"
	}
	return Action{Kind: SetAside, Record: o.Disk.Ledger.Record, Node: leader, Member: o.Disk.Member,
		Why: fmt.Sprintf("%s has removed member %x, which this disk was: its data is set aside and %s", who, o.Disk.Member,
			then)}
}

// known returns the record of the data on a disk without a ledger, and who knows it; nil if nobody does.
func (o resuming) known() (r *Record, by string) {
	if o.Disk.HasLedger {
		return nil, ""
	}
	for _, p := range o.Peers {
		if f := p.Facts; f != nil && f.Record != nil && f.CID != 0 && f.CID == o.Disk.ClusterID {
			return f.Record, "node " + p.Node
		}
	}
	if r := o.Store.Record; r != nil && o.Store.CID == o.Disk.ClusterID {
		return r, "the store"
	}
	return nil, ""
}

// rewrite restores the ledger.
func (o resuming) rewrite(r *Record, by string) Action {
	return Action{Kind: Repair, Record: r, Member: o.Disk.Member,
		Why: fmt.Sprintf("the founding ledger is missing beside data of %s, which %s knows: writing it again", r.Token(), by)}
}

// repair decides about etcd data without a ledger: it is used only if another node or the store knows a record with its
// cluster ID.
func (o resuming) repair() Action {
	if r, by := o.known(); r != nil {
		return o.rewrite(r, by)
	}
	return wait("slot %s holds etcd data of a cluster that nobody here knows (cluster %x, member %x): nothing is "+
		"touched; if it may be set aside, run %s", o.Claim.Slot, o.Disk.ClusterID, o.Disk.Member, setVolumeAside)
}

// enter brings a disk that has accepted a record, but holds no etcd data, into the cluster: as the founder it promised
// to be, as the learner it was admitted as, or by waiting for an admission.
func (o resuming) enter() Action {
	l := o.Disk.Ledger
	r := l.Record
	if o.givenUp() {
		return o.renounce("the operator gave up " + r.Token())
	}
	// The disk has never voted, so any evidence of another cluster vetoes its founding.
	if l.Started == "" && l.Role == RoleFounder && r.Cause == Founding {
		later, conflict := o.latest()
		switch {
		case conflict != "":
			return wait("%s", conflict)
		case later.ID != r.ID:
			return succession(o).follow(later)
		}
	}
	if next, _, _ := succession(o).ended(); next != nil {
		return succession(o).follow(next)
	}
	switch {
	case l.Started != "" || l.Role != RoleJoiner && (l.Role != RoleFounder || r.Cause != Founding):
		return o.await(r)
	case l.Role == RoleJoiner:
		return o.join(r, l.Join)
	case o.replacedAs(r) != "":
		return Action{Kind: Vacate, Record: r, Why: fmt.Sprintf("%s: slot %s joins again", o.replacedAs(r), o.Claim.Slot)}
	case o.begunBefore(o.Disk.Founder) != "":
		return Action{Kind: Vacate, Record: r,
			Why: fmt.Sprintf("%s; slot %s joins again", o.begunBefore(o.Disk.Founder), o.Claim.Slot)}
	case o.urlConflict(r) != "":
		return wait("%s", o.urlConflict(r))
	case o.noRoom() != "":
		return wait("%s", o.noRoom())
	default:
		return Action{Kind: Start, Record: r, Member: o.Disk.Founder, Peers: r.Charter.Peers(),
			Why: fmt.Sprintf("every disk has promised: slot %s starts as a founder of %s", o.Claim.Slot, r.Token())}
	}
}

// noRoom says that the volume has no room for a new member, "" if it has.
func (o resuming) noRoom() string { return o.Claim.NoRoom(0) }

// NoRoom says that the volume has no room for a new member and a database of this size in bytes, "" if it has. 0: the
// size is unknown, or the database is new. Without room for its log or the database etcd ends the process, and without
// its reserve the cluster would take no writes from the start.
func (c Claim) NoRoom(database int64) string {
	r := c.Room
	need := r.Begin() + database
	if r.Size == 0 || r.Free >= need {
		return ""
	}
	what := "a database"
	if database > 0 {
		what = fmt.Sprintf("the cluster's database (%d MiB)", database>>20)
	}
	return fmt.Sprintf("slot %s does not start: its volume of %d MiB has less than %d MiB free, which etcd's log "+
		"(%d MiB), %s and the reserve (%d MiB) need: make room there, or make it larger", c.Slot, r.Size>>20, need>>20,
		2*segment>>20, what, r.Enough()>>20)
}

// replacedAs says why the founder that this disk was to be is no longer a member, "" if it still is.
func (o resuming) replacedAs(r *Record) string {
	if by := o.removedBy(o.Disk.Founder); by != "" {
		return fmt.Sprintf("node %s knows that the cluster removed the founder of slot %s", by, o.Claim.Slot)
	}
	for _, p := range o.Peers {
		if p.Facts == nil || !p.Facts.of(r) {
			continue
		}
		for _, m := range p.Facts.Members {
			if m.Slot == o.Claim.Slot && m.ID != o.Disk.Founder {
				return fmt.Sprintf("node %s lists another member for slot %s", p.Node, o.Claim.Slot)
			}
		}
	}
	return ""
}

// await waits until a leader admits this disk.
func (o resuming) await(r *Record) Action {
	leader := o.leader(r)
	if resizing(o).idle(r) {
		return resizing(o).retire(r)
	}
	if leader == nil {
		return wait("slot %s has no member data and must be admitted by the leader of %s, and no leader is seen: a "+
			"majority of its members (%s) must run first%s%s",
			o.Claim.Slot, r.Token(), strings.Join(o.slots(r), ", "), o.whoRuns(r), founding(o).nobodyHas(r))
	}
	for _, ad := range leader.Facts.Admitted {
		// If it is not listed, the admission is of an earlier generation.
		listed := slices.ContainsFunc(leader.Facts.Members, func(m MemberInfo) bool { return m.ID == ad.ID })
		spent := ad.ID == o.Disk.Ledger.Join || o.begunBefore(ad.ID) != "" // and lost its data: a member begins once
		if ad.Disk == o.Claim.Disk && ad.Slot == o.Claim.Slot && listed && !spent && o.removedBy(ad.ID) == "" {
			secured, why := o.joins(r, leader.Facts.Members, ad.ID)
			if why != "" {
				return wait("%s", why)
			}
			return Action{Kind: Accept, Record: r, Member: ad.ID, Secured: secured,
				Why: fmt.Sprintf("leader %s has admitted slot %s as learner %x", leader.Node, ad.Slot, ad.ID)}
		}
	}
	if !slices.Contains(o.slots(r), o.Claim.Slot) {
		return wait("slot %s has no member data and is no longer in the cluster (%s): waiting for "+
			"leader %s to remove its member", o.Claim.Slot, strings.Join(o.slots(r), ","), leader.Node)
	}
	return wait("slot %s has no member data: waiting for leader %s to admit it as a learner", o.Claim.Slot, leader.Node)
}

// join starts the admitted learner, or waits for another admission if that learner was removed.
func (o resuming) join(r *Record, id uint64) Action {
	if by := o.removedBy(id); by != "" {
		return Action{Kind: Vacate, Record: r,
			Why: fmt.Sprintf("node %s knows that learner %x was removed before it started: slot %s waits to be admitted again",
				by, id, o.Claim.Slot)}
	}
	if why := o.begunBefore(id); why != "" {
		return Action{Kind: Vacate, Record: r, Why: fmt.Sprintf("%s; slot %s waits to be admitted again", why, o.Claim.Slot)}
	}
	leader := o.leader(r)
	if leader == nil {
		return wait("slot %s is admitted as learner %x and waits to see a leader of %s%s", o.Claim.Slot, id, r.Token(),
			o.whoRuns(r))
	}
	if why := o.urlConflict(r); why != "" {
		return wait("%s", why)
	}
	if why := o.tooOld(r); why.Text != "" {
		return wait("%s", why)
	}
	peers := map[string]string{}
	listed := false
	for _, m := range leader.Facts.Members {
		peers[m.Slot] = cmp.Or(m.PeerURL, PeerURL(r.Charter.PeerURL, m.Slot))
		listed = listed || m.ID == id
	}
	if !listed {
		return wait("slot %s is admitted as learner %x, which leader %s does not list yet", o.Claim.Slot, id, leader.Node)
	}
	if why := o.noRoom(); why != "" {
		return wait("%s", why)
	}
	return Action{Kind: Start, Record: r, Member: id, Join: true, Peers: peers,
		Why: fmt.Sprintf("slot %s joins %s as learner %x", o.Claim.Slot, r.Token(), id)}
}
