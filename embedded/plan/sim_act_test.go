package plan

import (
	"maps"
	"slices"
	"testing"
)

// perform lays out the durable steps of an action. Between any two of them the node may crash and the world may change.
// Every action ends with its announcement in the gossip.
func (n *node) perform(a Action) {
	d := n.disk
	write := func() { n.write(d, a) }
	tell := func() { n.publish(n.observe()) }
	switch a.Kind {
	case Wait:
	case Acquire:
		n.acquire(a)
	case Yield:
		if d.data != nil || len(d.aside) > 0 || d.ledger.Record != nil || d.marker && !n.w.settled(d) {
			n.w.fail("I4: the disk %s is yielded, which is not pristine", d.uuid)
		}
		d.holder, n.disk = nil, nil
		n.w.lost = append(n.w.lost, d)
		n.w.disks[n.i][slices.Index(n.w.names, d.slot)] = nil
	case Repair, Promise, Vacate, Accept:
		n.todo = []func(){write, tell}
	case Commit:
		n.todo = []func(){func() { n.mirror(a) }, write, tell}
	case Adopt:
		n.todo = []func(){func() { n.mirror(a) }, func() { d.moved = true }, write, tell}
	case SetAside:
		n.todo = []func(){func() { n.dismissed(a) }, func() { n.setAside(d) }, write, tell}
	case Start:
		n.todo = []func(){n.timely, n.askRivals, func() { n.start(d, a) }, write, tell}
	case Replace:
		n.todo = []func(){func() { n.confirm(a) }, func() { n.replace(a) }, func() { n.admit(a) }, tell}
	case Update:
		n.todo = []func(){func() { n.proc.data.c.update(n.w, n, a) }, tell}
	case Promote:
		n.todo = []func(){func() { n.proc.data.c.promote(n.w, n, a.Member) }}
	case Prepare:
		n.recovering(a)
	case Leave, Stay:
		n.leaving(a)
	case Note:
		n.todo = []func(){func() {
			if n.confirmed(a) {
				write()
			}
		}, tell}
	case Resize, Remove, HandOver, Retire:
		n.resizing(a)
	case Mirror, Propose, Discard, Conclude, Enter, Swap:
		n.restoring(a)
	case Unlock:
		n.todo = []func(){n.giveBack}
	case Reload:
		n.reload()
	case Renounce:
		n.todo = []func(){func() {
			if a.Mirror && !n.deaf() {
				n.store.record = nil
			}
		}, write, tell}
	}
}

// abort drops the rest of the action; the next decision sees the result.
func (n *node) abort() {
	n.todo = nil
	n.contest.End()
}

func (n *node) write(d *disk, a Action) {
	if d.holder != n {
		n.w.fail("%s writes a disk it does not hold", n.name)
		return
	}
	old := d.ledger
	d.ledger, d.marker = old.After(a, d.uuid), a.Kind != Renounce
	n.w.written(d, old, a)
}

// mirror puts the record into the store, if it must be there and the store has none.
func (n *node) mirror(a Action) {
	if !a.Mirror || n.store.none {
		return
	}
	st := n.store
	if n.deaf() {
		n.abort()
		return
	}
	if st.record == nil {
		st.record = a.Record
	}
	if st.record.ID != a.Record.ID || n.w.chance(10) { // the answer may be lost
		n.abort()
	}
}

func (n *node) setAside(d *disk) {
	if d.data != nil {
		n.w.puttingAside(d)
		d.aside = append(d.aside, d.data)
		d.data = nil
	}
	n.removed, n.proc = false, nil
}

// start opens or makes etcd's data. A joiner takes the ID that the member list has for its slot at that moment. If that
// is not the ID it was admitted as, the coordinator stops it at once, before it is announced.
func (n *node) start(d *disk, a Action) {
	w := n.w
	defer n.contest.End()
	if n.drained {
		w.fail("L6: %s starts although it is drained", n.name)
	}
	c := w.clusterOf(*a.Record)
	if d.data == nil {
		id := hash(a.Record.Token(), d.slot)
		if a.Join {
			id = c.listedFor(w, n)
			if id == 0 {
				n.abort()
				return
			}
		}
		d.data = &data{c: c, id: id}
		if a.Join && a.Record.Restore != nil { // the leader sends what it has
			d.data.base = a.Record.ID
		}
		if a.Join && id != a.Member {
			w.tally.event("joined under another admission")
			n.abort()
			return
		}
		w.born(d)
	}
	if d.data.c != c {
		w.fail("%s starts data of another cluster", n.name)
		return
	}
	if r := a.Record; r.Restore != nil && d.data.base != r.ID {
		w.fail("I8: %s starts in %s without what was restored", n.name, r.Token())
	}
	if !d.data.ran && d.data.base != "" && !a.Join && d.ledger.Role == RoleFounder {
		w.born(d)
	}
	d.data.ran = true
	n.proc = &proc{data: d.data, trusts: n.files}
	switch {
	case a.Join:
		n.proc.members = slices.Clone(c.members)
	case d.data.list != nil: // as last applied
		n.proc.members = slices.Clone(d.data.list)
	default:
		n.proc.members = slices.Clone(c.record.founders())
	}
	if d.data.list == nil {
		d.data.list = slices.Clone(n.proc.members)
	}
	w.started(n)
}

// founders is the member list that a founder starts with.
func (r Record) founders() []MemberInfo {
	var list []MemberInfo
	if r.Adopted != nil {
		for _, m := range r.Adopted.Members {
			list = append(list, MemberInfo{ID: m.ID, Slot: m.Slot, Started: true, PeerURL: PeerURL(r.Charter.PeerURL, m.Slot)})
		}
		return list
	}
	for _, s := range slices.Sorted(maps.Keys(r.Peers())) {
		list = append(list, MemberInfo{ID: hash(r.Token(), s), Slot: s, PeerURL: PeerURL(r.Charter.PeerURL, s)})
	}
	return list
}

// listedFor returns the ID that a running member in reach lists for a node's slot.
func (c *cluster) listedFor(w *world, n *node) uint64 {
	for _, m := range w.boxes {
		if m.proc == nil || m.proc.data.c != c || !w.reach(n, m) || m == n {
			continue
		}
		for _, mi := range c.members {
			if mi.Slot == n.disk.slot {
				return mi.ID
			}
		}
	}
	return 0
}

// confirm asks the holder directly, and gives up unless it says that its disk is vacant.
func (n *node) confirm(a Action) {
	w := n.w
	i := slices.IndexFunc(w.boxes, func(m *node) bool { return m.name == a.Node })
	if i < 0 { // a drill's node, and the drill is over
		n.abort()
		return
	}
	h := w.boxes[i]
	if !w.reach(n, h) || h.disk == nil || h.disk.uuid != a.Disk || h.disk.slot != a.Slot {
		n.abort()
		return
	}
	if o := h.observe(); look(&o).phase() != PhaseVacant {
		n.abort()
	}
}

func (n *node) replace(a Action) {
	d, m := n.w.named(a.Disk), n.proc.data.c.find(a.Member)
	if d != nil && d.data != nil && d.data.ran && !d.data.back && m != nil && !m.Learner && d.data.id == m.ID {
		n.w.fail("I4: %s removes voter %x, whose disk %s is whole", n.name, m.ID, d.uuid)
	}
	if a.Member != 0 && !n.proc.data.c.remove(n.w, n, a.Member) {
		n.abort()
	}
}

func (n *node) admit(a Action) {
	id := n.proc.data.c.add(n.w, n, a)
	if id == 0 {
		n.abort()
		return
	}
	n.admitted = append(slices.Clone(n.admitted), Admission{Slot: a.Slot, Disk: a.Disk, ID: id})
}

// TestStaleVacancy: the gossip says that a follower's disk is vacant, which was true long ago, and the follower is out
// of reach now. Its membership must not be given away.
func TestStaleVacancy(t *testing.T) {
	w := newWorld(1, life{slots: 3, nodes: 3}, newTally())
	if _, ok := w.recover(); !ok {
		t.Fatalf("no cluster: %s", w.describe())
	}
	leader := w.clusters[0].leader
	for _, n := range w.boxes {
		if n == leader {
			continue
		}
		f := *n.facts
		f.Phase, f.Running, f.Member = PhaseVacant, false, 0
		leader.views[n.i].facts = &f
		w.cutPeers(leader, n, true)
		break
	}
	for range 20 {
		leader.step()
	}
	if w.tally.kinds[Replace] == 0 {
		t.Fatal("the leader never tried to replace the follower")
	}
	if w.broken != "" {
		t.Fatal(w.broken)
	}
}
