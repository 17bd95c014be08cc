package plan

import (
	"slices"
)

// operatorRecovers lets the operator run `holdfast recover` on a node's machine. Mostly the slots declared lost really
// are; a careless operator names every slot that is not here.
func (w *world) operatorRecovers(n *node) {
	st := w.stores[0]
	if !n.up || n.deaf() || st.record == nil || w.store != storeShared {
		return
	}
	s := n.observe().Survey()
	lost := slices.DeleteFunc(w.dead(), func(slot string) bool {
		return !slices.ContainsFunc(s.Slots, func(v Survivor) bool { return v.Slot == slot })
	})
	for _, v := range s.Slots { // slots named along with the lost ones, because the advice names them
		if v.Voter && v.Member == 0 && !v.Here && !slices.Contains(lost, v.Slot) {
			lost = append(lost, v.Slot)
		}
	}
	if w.chance(15) {
		lost = s.Missing(nil)
	}
	chosen, refusal := s.Choose(lost, "")
	for _, v := range s.Slots { // the next look shows whether one was removed before
		d := w.named(v.Disk)
		if chosen.Slot == "" && v.Dropped && v.Runs && d != nil && d.data != nil && d.data.c.find(d.data.id) != nil {
			chosen, refusal = s.Choose(lost, v.Slot)
		}
	}
	if d := w.named(chosen.Disk); refusal == "" && d != nil && d.data != nil && d.data.c.find(d.data.id) == nil {
		refusal = "whoever looks knows that this member was removed before, where no node here does"
	}
	o := n.observe()
	if known := look(&o).current(); refusal != "" || known == nil || known.ID != st.record.ID {
		w.note("the operator cannot recover: %s", refusal)
		return
	}
	w.propose(st, n, Restore{By: "an operator who recovers", Overruled: st.objections(w), Lost: lost, Survivor: chosen.Slot, Disk: chosen.Disk, Log: chosen.Log})
}

// honest notes if a voter is declared lost that could vote again.
func (w *world) honest(r Restore) {
	dead := w.dead()
	if r.Led != nil || !slices.ContainsFunc(r.Lost, func(slot string) bool { return !slices.Contains(dead, slot) }) {
		return
	}
	w.lies[r.ID] = true
	w.tally.event("a voter that lives was declared lost")
	if r.By == "node" && r.Command == "" && r.Survivor != "" {
		w.fail("I13: by itself a node declares %v lost, of which only %v are", r.Lost, dead)
	}
}

// lied reports whether a generation descends from a lie: then it may have a rival, which is the operator's risk (R5).
func (w *world) lied(r Record) bool {
	return w.lies[r.ID] || slices.ContainsFunc(r.Line, func(id string) bool { return w.lies[id] })
}

// recovering lays out the steps that only a recovery takes, or takes differently.
func (n *node) recovering(a Action) {
	d := n.disk
	write := func() { n.write(d, a) }
	tell := func() { n.publish(n.observe()) }
	for range n.w.rng.IntN(3) * n.w.rng.IntN(8) { // it may be slow
		n.todo = append(n.todo, func() {})
	}
	old := *d.ledgerRecord(n.store)
	d.pattern = a.Restore.Pattern(old.Charter)
	if !(Config{PeerURL: n.peerURL(), FromHTTP: n.fromHTTP()}).Serves(d.pattern) {
		n.unable, n.todo = "other peer URLs", nil
		return
	}
	build := func() { n.build(d, a.Restore.ID) }
	if a.Restore.Survivor != "" {
		build = func() {
			r := *a.Restore
			r.Log = n.copyLog(d, r.ID)
			a.Restore = &r
		}
	}
	n.todo = append(n.todo, func() { d.built, d.complete, d.ledger.Prepared = "", false, nil }, build, func() { d.complete = true }, write, tell)
}

// abortIt aborts a proposal, unless it is already concluded.
func (n *node) abortIt(r Restore) {
	if n.deaf() {
		return
	}
	for _, p := range n.store.proposals {
		if p.ID == r.ID && !p.concluded && !p.aborted {
			p.aborted, p.by = true, n.disk.uuid
			n.w.note("%s objects to %s", n.name, r.ID)
			n.w.tally.event("aborted by a node")
		}
	}
}

// copyLog brings a copy of the data to the end of its log.
func (n *node) copyLog(d *disk, id string) *LogEnd {
	if d.data == nil || n.w.chance(15) {
		n.unable = "disk full"
		n.abort()
		return nil
	}
	d.built, d.complete, d.copied = id, false, d.data.match
	return d.data.end()
}

// chosen: no voter that was not declared lost has a committed entry that the survivor lacks.
func (w *world) chosen(r Record) {
	p := r.Restore
	survivor := w.named(p.Disk)
	if w.lied(r) || survivor == nil || survivor.data == nil {
		return
	}
	c := survivor.data.c
	if m := c.find(survivor.data.id); m == nil || m.Learner {
		w.fail("I11: %s continues from disk %s, which is no voter's", r.Token(), p.Disk)
	}
	for _, d := range w.here() {
		if d.data == nil || d.data.c != c || slices.Contains(p.Lost, d.slot) {
			continue
		}
		if m := c.find(d.data.id); m != nil && !m.Learner && d.data.match > survivor.data.match {
			w.fail("I11: %s continues from disk %s with %d entries, and disk %s has %d", r.Token(), p.Disk, survivor.data.match, d.uuid, d.data.match)
		}
	}
	founders := 0
	for _, s := range r.Charter.Seats {
		founders += boolToInt(s.Disk != "")
	}
	if founders != 1 || len(r.Peers()) != 1 {
		w.fail("I11: %s, a recovery, has %d founders and %d peers", r.Token(), founders, len(r.Peers()))
	}
}

// whole: what replaces a survivor's data contains everything that is committed there.
func (w *world) whole(d *disk, r Record) {
	if r.Cause == Recovered && d.built == r.ID && d.copied < d.data.match {
		w.fail("I12: disk %s swaps in %d entries for %d", d.uuid, d.copied, d.data.match)
	}
}
