package plan

import (
	"fmt"
	"slices"
	"testing"
)

// How a generation ends in the simulation: consent, objection, leaving (R16 to R19); and drills and strays, which must
// not end one.

// drillKind is what kind of nodes do not belong to the cluster.
type drillKind int

const (
	onStore drillKind = iota // a drill that shares the store
	onCopy                   // a drill on a copy of the store
	stray                    // another cluster of the same name, with a store of its own
)

// drillTicks is how many of its own steps a node waits, without a leader, before it asks whether a living leader had
// time to object.
const drillTicks = 3

// drillDisks makes blank disks for the nodes of a drill.
func (w *world) drillDisks(universe int) {
	rows := 1
	if w.host {
		rows = w.drills
	}
	w.addDisks(rows, universe)
}

// drill adds the nodes of a drill.
func (w *world) drill() {
	if w.drills == 0 {
		return
	}
	w.drilling = true
	w.drillDisks(len(w.names))
	st := w.stores[0]
	if w.kind != onStore {
		st = &store{id: st.id}
	}
	if w.kind == stray {
		st.id = "T"
	}
	for range w.drills {
		i := len(w.boxes)
		w.stores = append(w.stores, st)
		w.boxes = append(w.boxes, &node{w: w, i: i, name: fmt.Sprintf("n%d", i+1), drill: true, store: st, up: true, wants: w.goal, minor: w.minor})
	}
	for i, n := range w.boxes {
		for len(n.views) < len(w.boxes) {
			n.views = append(n.views, heard{})
		}
		for len(w.gossipCut) <= i {
			w.gossipCut, w.peerCut = append(w.gossipCut, nil), append(w.peerCut, nil)
		}
		for len(w.gossipCut[i]) < len(w.boxes) {
			w.gossipCut[i], w.peerCut[i] = append(w.gossipCut[i], false), append(w.peerCut[i], false)
		}
	}
	for _, n := range w.boxes {
		n.boot()
	}
}

// rehearse is a step of a drill: the operator restores what the store knows, as if all were lost; the copy is made
// again; or a seed connects both networks for a while.
func (w *world) rehearse() {
	st := w.stores[len(w.stores)-1]
	switch r := w.rng.IntN(10); {
	case r < 2 && w.kind == onCopy && st.record == nil:
		st.copyOf(w.stores[0])
		w.tally.event("the store was copied")
	case r < 5 && w.kind != stray && st.record != nil:
		var lost []string
		if w.chance(70) {
			lost = st.record.Charter.Slots()
		}
		p := Restore{By: "a drill", Lost: lost, Overruled: st.objections(w)}
		if w.chance(30) {
			p.Led = &Stand{Node: "n1"}
		}
		w.propose(st, w.boxes[len(w.boxes)-1], p)
	case r < 6:
		w.contact = !w.contact
		if w.contact {
			w.tally.event("a drill met the cluster")
		}
		w.note("contact %v", w.contact)
	}
}

// part ends a drill: its nodes are disconnected, and forgotten.
func (w *world) part() {
	w.contact = false
	for _, n := range w.boxes {
		if n.drill {
			n.crash()
			n.up = false
			continue
		}
	}
	w.boxes = slices.DeleteFunc(w.boxes, func(n *node) bool { return n.drill })
	w.drilling = false
	for _, n := range w.boxes {
		n.views = n.views[:min(len(n.views), len(w.boxes))]
		if n.views == nil {
			n.up = false
		}
	}
}

func (st *store) copyOf(s *store) {
	st.record = s.record
	st.proposals = nil
	for _, p := range s.proposals {
		if !p.aborted && !p.concluded {
			continue // the token of what it would begin is fixed, so the store is not copied in the middle of a restore
		}
		c := *p
		st.proposals = append(st.proposals, &c)
	}
}

func (st *store) concluded() []Record {
	var all []Record
	for _, p := range st.proposals {
		if p.record != nil {
			all = append(all, *p.record)
		}
	}
	return all
}

// followed reports whether the store has a generation that ended a record's.
func (st *store) followed(r Record) bool {
	return slices.ContainsFunc(st.concluded(), func(c Record) bool { return c.descends(&r) })
}

func (st *store) ended() []Abort {
	var all []Abort
	for _, p := range st.proposals {
		if p.aborted && st.record != nil && p.Parent() == st.record.ID {
			all = append(all, Abort{ID: p.ID, Why: "aborted"})
		}
	}
	return all
}

// objections are the disks that objected; the operator sees them, and mostly quotes them.
func (st *store) objections(w *world) []string {
	var all []string
	for _, p := range st.proposals {
		if p.by != "" && w.chance(70) {
			all = append(all, p.by)
		}
	}
	return all
}

// met are the nodes that were found in this node's store, and those that may have started since it was read. Some of
// them will turn out to use another store.
func (n *node) met() (met, late []string) {
	for _, m := range n.w.boxes {
		switch ours := m.store == n.store || m.store.none && n.store.none; {
		case m.age < lateSteps && (m.age+n.age)%2 == 0:
			late = append(late, m.name)
		case ours:
			met = append(met, m.name)
		}
	}
	return met, late
}

// lateSteps is how many of a node's first steps others may take before they read the store again.
const lateSteps = 3

// led reports whether the member here reaches its leader, and that leader can commit.
func (n *node) led() bool {
	if n.proc == nil || !n.proc.hasLead {
		return false
	}
	l := n.proc.data.c.leader
	if l == nil || l != n && !n.w.reach(n, l) {
		return false
	}
	up, quorum := n.proc.data.c.reachable(n.w, l)
	return slices.Contains(up, l) && len(up) >= quorum
}

// shown is the leader that a node shows to an operator.
func (n *node) shown() *Stand {
	if !n.led() {
		return nil
	}
	return &Stand{Node: n.proc.data.c.leader.name}
}

// confirm lets an operator confirm the open proposal on a node of the cluster: the consent is committed to the
// keyspace.
func (w *world) confirm(st *store, n *node) {
	p, _ := st.open()
	if p == nil || p.Led == nil || !n.led() || st.reopened(p.ID) || n.drill || n.alien || n.proc.data.c.record.ID != p.Parent() || !n.proc.data.c.propose(w) {
		return
	}
	c := n.proc.data.c
	c.consent = &Consent{Record: c.record.ID, Proposal: p.ID, By: "the operator"}
	w.tally.event("consented")
	w.note("%s: consent to %s", c.record.ID, p.ID)
	c.attend(w, c.leader)
}

// look reads the store, and objects to the open proposal.
func (n *node) look() {
	if !n.up || n.deaf() {
		return
	}
	before, had := n.read, n.had
	n.w.clock++
	n.read, n.had = n.w.clock, n.led()
	for _, p := range n.store.proposals {
		if p.record == nil || n.heard(p.ID) {
			continue
		}
		if n.blind == nil {
			n.blind = map[string]bool{}
		}
		n.blind[p.ID] = before < p.made || !had
	}
	o := n.observe()
	if _, ok := Object(o); ok {
		n.abortIt(*o.Store.Restore)
	}
	n.withdraw(o)
}

func (n *node) heard(id string) bool {
	_, ok := n.blind[id]
	return ok
}

// alone counts the steps without a leader since the open proposal was read. After enough steps, every leader that
// reaches the store has had time to read the proposal and to abort it; that determines the length of the wait.
func (n *node) alone(o Observation) bool {
	p := o.Store.Restore
	if p == nil || o.Store.Unknown != "" || o.Member.Led() {
		n.waits, n.waited = "", 0
		return false
	}
	if n.waits != p.ID {
		n.waits, n.waited = p.ID, 0
	}
	n.waited++
	if n.waited == drillTicks {
		for _, m := range n.w.boxes {
			if m != n && m.led() {
				m.look()
			}
		}
	}
	return n.waited > drillTicks
}

// leaving lays out the steps of leaving a generation, and of staying after an abort.
func (n *node) leaving(a Action) {
	d := n.disk
	write := func() { n.write(d, a) }
	tell := func() { n.publish(n.observe()) }
	if a.Kind == Stay {
		n.todo = []func(){func() {
			if p := d.ledger.Left; !slices.ContainsFunc(n.store.proposals, func(q *proposed) bool { return q.ID == p.Proposal && q.aborted }) {
				n.w.fail("I15: disk %s votes again in %s, though nobody aborted %s", d.uuid, d.ledger.Record.Token(), p.Proposal)
			}
		}, write, tell}
		return
	}
	n.w.tally.event("left")
	if n.proc == nil && d.data != nil {
		left := *a.Left
		left.Members = slices.Clone(d.data.list)
		a.Left = &left
	}
	n.todo = []func(){func() { n.proc, n.removed = nil, false }, write, tell}
}

// judgeEnd: a member that has a leader leaves only for a conclusion that came without it. It enters another generation
// only with that leader's consent, or if it could not have prevented the end.
func (w *world) judgeEnd(n *node, o Observation, a Action) {
	if a.Kind == Conclude && a.Record.Restore.Led != nil && !(o.Member.Leader && n.led() && o.Disk.Ledger.Record.ID == a.Record.Parent()) {
		w.fail("I14: %s, which does not lead, concludes %s", n.name, a.Record.Token())
	}
	if !n.led() || n.drill {
		return
	}
	agreed := n.proc.data.c.consent
	if r := o.Store.Record; a.Kind == Leave && !n.blind[a.Left.Proposal] && (agreed == nil || agreed.Proposal != a.Left.Proposal && (r == nil || !slices.Contains(r.Line, agreed.Proposal))) {
		w.fail("I15: %s, which has a leader, leaves for %s", n.name, a.Left.Proposal)
	}
	next := a.Record
	if a.Kind != Enter && (a.Kind != SetAside || next.ID == o.Disk.Ledger.Record.ID || look(&o).stillborn(o.Disk.Ledger.Record)) {
		return
	}
	c := n.proc.data.c
	if c.record.ID == next.ID || c.consent != nil && (c.consent.Proposal == next.ID || slices.Contains(next.Line, c.consent.Proposal)) {
		return
	}
	for _, p := range n.store.proposals {
		if p.record != nil && p.Parent() == c.record.ID && n.blind[p.ID] {
			return
		}
	}
	w.fail("I15: %s, which has a leader, leaves %s for %s without its consent", n.name, c.record.Token(), next.Token())
}

// concluding: only its leader ends a generation that can commit and whose leader reaches the store.
func (w *world) concluding(n *node, r Record) {
	if n.store.reopened(r.ID) {
		w.fail("I16: %s concludes %s, which was aborted", n.name, r.Token())
	}
	if n.store != w.stores[0] {
		return
	}
	for _, c := range w.clusters {
		if c.record.ID != r.Parent() || c.leader == nil || !c.leader.led() {
			continue
		}
		switch {
		case r.Restore.Led == nil && !c.leader.deaf():
			w.fail("I14: %s concludes %s, and %s leads %s in reach of the store", n.name, r.Token(), c.leader.name, c.record.Token())
		case r.Restore.Led == nil && !w.lies[r.ID]:
			w.fail("I14: %s concludes %s, and %s still leads %s", n.name, r.Token(), c.leader.name, c.record.Token())
		case r.Restore.Led != nil && (c.consent == nil || c.consent.Proposal != r.ID):
			w.fail("I14: %s concludes %s without the consent of %s", n.name, r.Token(), c.record.Token())
		}
	}
}

// dismissed directly asks the leader that reported a removal.
func (n *node) dismissed(a Action) {
	if a.Node == "" {
		return
	}
	i := slices.IndexFunc(n.w.boxes, func(m *node) bool { return m.name == a.Node })
	if i < 0 {
		n.abort()
		return
	}
	l := n.w.boxes[i]
	switch {
	case l.proc == nil || !l.led() || l.proc.data.c.leader != l || l.proc.data.c != n.disk.data.c:
		n.abort()
	case a.Reason == RolledBack && l.proc.data.c.acked[a.Member] == 0 || a.Reason == "" && !slices.Contains(l.proc.removed, a.Member):
		n.abort()
	}
}

// TestFalseDismissal: the gossip says in the leader's name that a member was removed, which it was not. Its data must
// not be set aside, because the leader itself denies it.
func TestFalseDismissal(t *testing.T) {
	w := newWorld(1, life{slots: 3, nodes: 3}, newTally())
	if _, ok := w.recover(); !ok {
		t.Fatalf("no cluster: %s", w.describe())
	}
	leader := w.clusters[0].leader
	i := slices.IndexFunc(w.boxes, func(n *node) bool { return n != leader })
	n := w.boxes[i]
	f := *leader.facts
	f.Leader, f.Removed = true, []uint64{n.proc.data.id}
	n.crash()
	n.boot()
	for range 20 {
		n.views[leader.i] = heard{known: true, live: true, seq: leader.seq, facts: &f}
		n.step()
	}
	if w.tally.kinds[SetAside] == 0 {
		t.Fatal("the member never tried to set its data aside")
	}
	if w.broken != "" {
		t.Fatal(w.broken)
	}
}
