package plan

import (
	"slices"
)

// The invariants. Each is checked where it could be violated.

// judge checks a decision against what the node could know: evidence of a cluster that has lived vetoes another
// founding.
func (w *world) judge(n *node, o Observation, a Action) {
	if o.Member.Paused != nil && slices.Contains([]Kind{Replace, Resize, Remove, Update, Defrag, Compact, Disarm}, a.Kind) {
		w.fail("I11: %s decides to %s, and sees that the cluster is paused", n.name, a.Kind)
	}
	w.judgeEnd(n, o, a)
	w.judgeRollback(n, o, a)
	switch a.Kind {
	case Reload:
		w.judgeReload(n, o)
		return
	case Start:
		w.judgeStart(n, o)
		return
	case Replace, Promote:
		connected, voters := 0, 0
		for _, m := range o.Member.Members {
			voters += boolToInt(!m.Learner)
			connected += boolToInt(!m.Learner && (m.Connected || m.ID == o.Member.ID))
		}
		if connected*2 <= voters {
			w.fail("R6: %s changes the members with %d of %d voters connected", n.name, connected, voters)
		}
		if a.Kind == Promote {
			w.judgePromotion(n, o, a)
			return
		}
		w.judgeJoin(n, o, a)
		return
	case Resize:
		w.judgeResize(n, o, a)
		return
	case Remove, HandOver:
		w.judgeRemoval(n, o, a)
		return
	case Promise, Commit:
	default:
		return
	}
	var id string
	if a.Record != nil {
		id = a.Record.ID
	}
	for _, p := range o.Peers {
		if p.Facts == nil || p.Facts.Record == nil || p.Facts.Record.ID == id {
			continue
		}
		if w.clusterOf(*p.Facts.Record).quorate {
			w.fail("I2: %s decides to %s although node %s shows %s", n.name, a.Kind, p.Node, p.Facts.Record.Token())
		}
	}
}

// judgeStart: no node starts a member that it could know to be removed, or a slot that it sees running.
func (w *world) judgeStart(n *node, o Observation) {
	id := o.Disk.Founder
	if o.Disk.WAL {
		id = o.Disk.Member
	} else if o.Disk.Ledger.Role == RoleJoiner {
		id = o.Disk.Ledger.Join
	}
	if o.Disk.WAL && o.Store.Unknown == "" && n.store.followed(*o.Disk.Ledger.Record) && !heedless(o) {
		w.fail("R17: %s starts in %s, which its store says is over", n.name, o.Disk.Ledger.Record.Token())
	}
	for _, p := range o.Peers {
		f := p.Facts
		if f == nil {
			continue
		}
		if mine := o.Disk.Ledger.Record; slices.Contains(f.Removed, id) && p.Live && f.Leader && f.Record.ID == mine.ID {
			w.fail("R6: %s starts member %x, which leader %s shows as removed", n.name, id, p.Node)
		}
		// The previous holder of this very disk has ended, because here a disk has one holder.
		if p.Live && f.Running && f.Slot == o.Claim.Slot && f.Lock != n.disk.lock && !look(&o).otherGeneration(f) {
			w.fail("R10: %s starts slot %s, which it sees running on %s", n.name, f.Slot, p.Node)
		}
		for _, m := range f.Members {
			if f.of(o.Disk.Ledger.Record) && !o.Disk.WAL && o.Disk.Ledger.Role == RoleFounder &&
				m.Slot == o.Claim.Slot && m.ID != id {
				w.fail("R6: %s starts the founder of slot %s, whom node %s knows as %x", n.name, m.Slot, p.Node, m.ID)
			}
		}
	}
}

// heedless reports whether a node may start although its store says that its generation is over: it sees a leader of
// that, or a node of that which certainly uses another store.
func heedless(o Observation) bool {
	return slices.ContainsFunc(o.Peers, func(p Peer) bool {
		f, s := p.Facts, o.Store
		if !p.Live || f == nil || !f.of(o.Disk.Ledger.Record) {
			return false
		}
		unmet := f.Nonce != "" && !slices.Contains(s.Met, p.Node) && !slices.Contains(s.Late, p.Node)
		return f.Leader || f.Store != "" && (f.Store != s.ID || unmet)
	})
}

// born: an ID begins with an empty log only once; a second beginning has forgotten its votes.
func (w *world) born(d *disk) {
	c, id := d.data.c, d.data.id
	if slices.Contains(c.booted, id) && w.reborn(d) {
		return
	}
	if slices.Contains(c.booted, id) {
		w.fail("I3: member %x of %s begins a second time, on disk %s, without its log", id, c.record.Token(), d.uuid)
	}
	c.booted = append(c.booted, id)
	if s, ok := c.record.Charter.Seat(d.slot); d.ledger.Role == RoleFounder && (!ok || s.Disk != d.uuid) {
		w.fail("I6: disk %s starts as founder of %s, which does not name it", d.uuid, c.record.Token())
	}
}

// started: no two processes run one member.
func (w *world) started(n *node) {
	for _, m := range w.boxes {
		if m != n && m.proc != nil && m.proc.data.c == n.proc.data.c && m.proc.data.id == n.proc.data.id {
			w.fail("I1: %s and %s both run member %x", n.name, m.name, n.proc.data.id)
		}
	}
}

// elected: a leader has every acknowledged entry. No other founding ever had a leader, unless all disks of one are
// foreign to all disks of the other, and nothing that both can see could have told.
func (w *world) elected(c *cluster, n *node) {
	if n.proc.data.match < c.commit && w.forgot(c, n) {
		return
	}
	if n.proc.data.match < c.commit {
		w.fail("I3: %s leads %s with %d of %d acknowledged entries", n.name, c.record.Token(), n.proc.data.match, c.commit)
	}
	slots := make([]string, 0, len(c.members))
	for _, m := range c.members {
		if slices.Contains(slots, m.Slot) {
			w.fail("I6: two members of slot %s", m.Slot)
		}
		slots = append(slots, m.Slot)
	}
	if c.quorate {
		return
	}
	c.quorate = true
	if n.drill {
		w.tally.event("a drill leads")
	} else {
		w.fenced(c)
	}
	for _, o := range w.clusters {
		if o == c || !o.quorate || n.drill || o.strange || c.record.descends(&o.record) || o.record.descends(&c.record) {
			continue
		}
		if w.store == storeShared || shareDisk(o.record.Charter, c.record.Charter) || !w.host && w.surviving(o) > 0 && !w.forgotten(o, c.record.Charter) {
			w.fail("I2: %s has a leader, and so had %s", c.record.Token(), o.record.Token())
		}
		w.tally.event("second founding of strange disks without a store")
	}
}

func shareDisk(a, b Charter) bool {
	return slices.ContainsFunc(a.Seats, func(s Seat) bool {
		return slices.ContainsFunc(b.Seats, func(t Seat) bool { return s.Disk == t.Disk })
	})
}

// puttingAside: a voter's data is never set aside.
func (w *world) puttingAside(d *disk) {
	c := d.data.c
	if m := c.find(d.data.id); m != nil && d.data.ran && !m.Learner && c.quorate && !d.data.back && !d.holder.store.followed(c.record) {
		w.fail("I4: disk %s of voter %x is set aside", d.uuid, m.ID)
	}
	if d.data.ran {
		w.tally.event("data set aside")
	}
}

// written: a ledger only goes forward.
func (w *world) written(d *disk, old Ledger, a Action) {
	now := d.ledger
	w.entered(d, old)
	switch a.Kind {
	case Renounce:
		return
	case Enter:
		if d.holder.proc != nil { // what it acknowledges from now on may be lost
			w.fail("R13: disk %s accepts %s while its old member runs", d.uuid, a.Record.Token())
		}
	case Repair, Adopt:
		if d.data.c != w.clusterOf(*a.Record) {
			w.fail("I5: the ledger of disk %s is repaired with the record of another cluster", d.uuid)
		}
		return
	case Promise:
		d.said = append(d.said, *a.Charter)
	}
	if len(now.Promises) < len(old.Promises) {
		w.fail("I5: disk %s forgets a promise", d.uuid)
	}
	for i, p := range old.Promises {
		if !p.equal(now.Promises[i]) {
			w.fail("I5: disk %s changes a promise", d.uuid)
		}
	}
	if a.Kind == Promise && old.Record != nil {
		w.fail("I5: disk %s promises after it accepted %s", d.uuid, old.Record.Token())
	}
	if a.Kind == Commit {
		w.committed(d, *a.Record)
	}
	if old.Record == nil {
		return
	}
	if now.Record == nil || now.Record.ID != old.Record.ID && !now.Record.descends(old.Record) {
		if w.clusterOf(*old.Record).quorate {
			w.fail("I5: disk %s goes from %s to another founding", d.uuid, old.Record.Token())
		}
		w.tally.event("left a stillborn founding")
	}
	if now.Role == RoleFounder && old.Role != RoleFounder && a.Kind != Enter {
		w.fail("I5: disk %s becomes a founder after it was %s", d.uuid, old.Role)
	}
}

// committed: every disk of an accepted charter has promised it, and the store has it if all nodes share one.
func (w *world) committed(d *disk, r Record) {
	all := append(w.in(w.disks), w.lost...)
	for _, s := range r.Charter.Seats {
		i := slices.IndexFunc(all, func(d *disk) bool { return d.uuid == s.Disk })
		if i < 0 || !slices.ContainsFunc(all[i].said, r.Charter.equal) {
			w.fail("I2: disk %s accepts %s, which disk %s has not promised", d.uuid, r.Token(), s.Disk)
		}
	}
	if st := d.holder.store; w.store == storeShared && (st.record == nil || st.record.Lineage() != r.ID) {
		w.fail("I2: disk %s accepts %s, which the store does not have", d.uuid, r.Token())
	}
}

// bereaved reports whether too many of the newest generation's disks are lost for it to continue.
func (w *world) bereaved() bool {
	for _, c := range w.clusters {
		if !w.followed(c.record) && (c.quorate || len(c.booted) > 0 || c.record.Restore != nil) && w.left(c) <= c.voters()/2 {
			return true
		}
	}
	return false
}

// excuse says why a life could not end well, "" if it should have.
func (w *world) excuse() string {
	operator := w.restores && w.store == storeShared // would have restored
	if w.bereaved() && !operator {
		return "a majority of the voters' disks is lost"
	}
	if w.robbed() {
		return "the only voter's disk was lost before it was taken over, and the store has the other program's mark"
	}
	for _, d := range w.here() {
		if d.data != nil && !d.marker && w.unknown(d) {
			return "the ledger beside the data is lost, and nobody else knows the record"
		}
	}
	if w.resizes && w.cramped() {
		return "a wanted slot finds no host that is free"
	}
	if founded := slices.DeleteFunc(slices.Clone(w.clusters), func(c *cluster) bool { return !c.quorate }); w.resizes && len(founded) > 1 {
		return "the slots that are left were founded by a node that heard of no other"
	}
	if w.resizes && w.unheard() {
		return "the configuration names no slot of which a disk knows the cluster"
	}
	if w.rivals() {
		return "two hosts hold one slot on disks that both have a past"
	}
	if slices.ContainsFunc(w.clusters, func(c *cluster) bool { return c.quorate }) {
		if leads := func(c *cluster) bool { return c.leader != nil }; w.outlasted() && !slices.ContainsFunc(w.clusters, leads) {
			return "a host waits with a promise that only a leader could end"
		}
		return ""
	}
	for _, d := range w.here() {
		if r := d.ledger.Record; r != nil && d.data != nil && w.moved(r.Charter)+len(r.Charter.Seats)-w.present(r.Charter) > len(r.Charter.Seats)/2 {
			return "a disk began with a founding that can have no leader, and the newer one waits for it"
		}
		for _, p := range d.ledger.Promises {
			if w.present(p) <= len(p.Seats)/2 {
				return "promised to a charter that lost the majority of its disks"
			}
			if w.waiting(p)+len(p.Seats)-w.present(p) >= (len(p.Seats)+1)/2 {
				return "promised to a charter with disks that lost their slots to others"
			}
		}
	}
	if slices.ContainsFunc(w.stores, func(st *store) bool {
		return st.record != nil && w.present(st.record.Charter) < len(st.record.Charter.Seats)
	}) {
		return "the store has the record of a charter that lost a disk"
	}
	return ""
}

func (c *cluster) voters() int {
	n := 0
	for _, m := range c.members {
		n += boolToInt(!m.Learner)
	}
	return n
}

// left counts the voters whose data exists, or that can still begin with it.
func (w *world) left(c *cluster) int {
	left := 0
	for _, d := range w.here() {
		switch {
		case d.data != nil && d.data.c == c:
			m := c.find(d.data.id)
			left += boolToInt(m != nil && !m.Learner)
		case d.data == nil && d.ledger.Started == "" && (d.ledger.Role == RoleFounder && (c.record.Cause != Recovered || d.begins(&c.record)) || d.ledger.Record == nil && slices.ContainsFunc(d.ledger.Promises, c.record.Charter.equal)):
			left += boolToInt(c.find(hash(c.record.Token(), d.slot)) != nil)
		}
	}
	return left
}

// here returns every disk of the cluster that is not lost.
func (w *world) here() []*disk { return w.in(w.disks[:w.rows]) }

// in returns the disks of some rows.
func (w *world) in(rows [][]*disk) []*disk {
	var all []*disk
	for _, row := range rows {
		all = append(all, slices.DeleteFunc(slices.Clone(row), func(d *disk) bool { return d == nil })...)
	}
	return all
}

func (w *world) named(uuid string) *disk {
	all := w.in(w.disks)
	if i := slices.IndexFunc(all, func(d *disk) bool { return d.uuid == uuid }); i >= 0 {
		return all[i]
	}
	return nil
}

// present counts the disks of a charter that are not lost.
func (w *world) present(c Charter) int {
	n := 0
	for _, s := range c.Seats {
		n += boolToInt(!slices.ContainsFunc(w.lost, func(d *disk) bool { return d.uuid == s.Disk }))
	}
	return n
}

// waiting counts the disks of a charter that wait for another holder of their slot.
func (w *world) waiting(c Charter) int {
	n := 0
	for i, box := range w.boxes {
		d := box.disk
		if d == nil || !slices.ContainsFunc(c.Seats, func(s Seat) bool { return s.Disk == d.uuid }) {
			continue
		}
		n += boolToInt(slices.ContainsFunc(w.boxes[:i], func(m *node) bool { return m.disk != nil && m.disk.slot == d.slot }))
	}
	return n
}

// outlasted reports whether a host that has only promised waits for another holder of its slot.
func (w *world) outlasted() bool {
	return slices.ContainsFunc(w.boxes, func(n *node) bool {
		d := n.disk
		return w.host && d != nil && d.data == nil && d.ledger.Record == nil && d.ledger.Promise() != nil &&
			slices.ContainsFunc(w.boxes, func(m *node) bool { return m != n && m.disk != nil && m.disk.slot == d.slot })
	})
}

// moved counts the disks of a charter that have promised a newer one.
func (w *world) moved(c Charter) int {
	n := 0
	for _, d := range w.here() {
		s, _ := c.Seat(d.slot)
		p := d.ledger.Promise()
		n += boolToInt(s.Disk == d.uuid && p != nil && p.newer(c))
	}
	return n
}

// unknown reports whether no other disk and no store knows the record of a disk's data.
func (w *world) unknown(d *disk) bool {
	for _, o := range w.here() {
		if r := o.ledger.Record; r != nil && o.data != nil && r.ID == d.data.c.record.ID {
			return false
		}
	}
	stores := w.stores
	if d.holder != nil {
		stores = []*store{d.holder.store}
	}
	return !slices.ContainsFunc(stores, func(s *store) bool { return s.record != nil && s.record.ID == d.data.c.record.ID })
}

// settled reports whether a cluster is founded without the disk, or in a store, so that the disk's promise is moot.
func (w *world) settled(d *disk) bool {
	return slices.ContainsFunc(w.stores, func(st *store) bool { return st.record != nil }) || slices.ContainsFunc(w.clusters, func(c *cluster) bool {
		return c.quorate && !slices.ContainsFunc(c.record.Charter.Seats, func(s Seat) bool { return s.Disk == d.uuid })
	})
}

// rivals reports whether a node waits for another holder of its slot, with a disk that it cannot give up. A disk that
// has only promised can be given up.
func (w *world) rivals() bool {
	stays := func(d *disk) bool {
		return d != nil && (d.data != nil || d.ledger.Record != nil || d.ledger.Prepared != nil)
	}
	for i, n := range w.boxes {
		for _, m := range w.boxes[:i] {
			if stays(n.disk) && stays(m.disk) && n.disk.slot == m.disk.slot {
				return true
			}
		}
	}
	return false
}
