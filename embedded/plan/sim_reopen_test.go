package plan

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Somebody who can delete in the store reopens what was aborted (R16).

// forgetful is a life with restores in which aborts are deleted.
func forgetful(seed uint64) life {
	r := rand.New(rand.NewPCG(seed, 5))
	l := life{slots: []int{1, 3, 3, 3, 5}[r.IntN(5)], store: storeShared, old: true, restores: true, busy: true, deletes: true,
		ticks: 500 + r.IntN(1200), wipes: r.IntN(4)}
	l.nodes = l.slots + r.IntN(2)
	return l
}

// reopen deletes the abort of the last led proposal, once a leader has had time to see it: the consent is withdrawn, or
// that leader looks, or the disks of all voters remember the abort.
func (w *world) reopen() {
	st := w.stores[0]
	open, _ := st.open()
	n := len(st.proposals)
	if open != nil || n == 0 || st.down {
		return
	}
	p := st.proposals[n-1]
	i := slices.IndexFunc(w.clusters, func(c *cluster) bool { return st.record != nil && c.record.ID == st.record.ID })
	if i < 0 || !p.aborted || p.Led == nil || p.Parent() != st.record.ID {
		return
	}
	c := w.clusters[i]
	consented := c.consent != nil && c.consent.Proposal == p.ID
	remembers := func(id uint64) bool {
		return slices.ContainsFunc(w.here(), func(d *disk) bool {
			return d.data != nil && d.data.c == c && d.data.id == id && slices.Contains(d.ledger.Aborted, p.ID)
		})
	}
	all := !slices.ContainsFunc(c.members, func(m MemberInfo) bool { return !remembers(m.ID) })
	l := c.leader
	sees := l != nil && l.led() && !l.deaf() && l.proc.leads && slices.Contains(l.disk.ledger.Aborted, p.ID)
	switch {
	case consented && sees:
		l.look()
	case consented && !all:
		return
	}
	p.aborted, p.reopened = false, true
	w.tally.event("an abort was deleted")
	if consented {
		w.tally.event("an abort was deleted before the consent was withdrawn")
	}
	w.note("somebody deletes the abort of %s", p.ID)
}

// reopened reports whether the abort of a proposal was deleted. No operator confirms that proposal again.
func (st *store) reopened(id string) bool {
	return slices.ContainsFunc(st.proposals, func(p *proposed) bool { return p.ID == id && p.reopened })
}

// withdraw makes the leader withdraw its consent to what was aborted.
func (n *node) withdraw(o Observation) {
	for _, id := range o.Withdrawn() {
		if c := n.proc.data.c; c.consent != nil && c.consent.Proposal == id && c.leader == n && c.propose(n.w) {
			c.consent = nil
			n.w.tally.event("a consent was withdrawn")
			n.w.note("%s: consent to %s withdrawn", c.record.ID, id)
			c.attend(n.w, n)
		}
	}
}

// TestReopenSimulation simulates restores while somebody deletes aborts. What was aborted is never concluded, and in
// the end every slot has a healthy voter.
func TestReopenSimulation(t *testing.T) {
	s := sweepLives(t, 600, 100, []uint64{1920}, of(forgetful))
	came(t, s, s.events, "an abort was deleted", "an abort was deleted before the consent was withdrawn", "a consent was withdrawn", "consented")
	s.well(t, 6)
}
