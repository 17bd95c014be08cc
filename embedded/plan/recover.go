package plan

import (
	"fmt"
	"slices"
	"strings"
)

// recovering does what an open recovery needs from a node that has nothing else to do (R4, R5). Every voter leaves.
// Only the survivor prepares and concludes: it alone founds the new generation, and all other slots join it.
func (o proposals) recovering(p *Restore, a Action) Action {
	survivor := o.Claim.Disk == p.Disk
	if p == o.Orders.Alone {
		return o.withoutStore(p, a)
	}
	if p.Led != nil || o.fromThisDisk() == p {
		return o.continueInstead(p, a)
	}
	switch {
	case o.departs(p) && (!survivor || o.prepared(p.ID) || o.Unable != ""):
		return succession(o).leave(p)
	case !survivor:
		return a.but(o.progress(p))
	case !o.prepared(p.ID):
		return o.prepare(p)
	}
	r, missing := o.recovered(p)
	switch {
	case r == nil:
		return a.but(o.progress(p), missing)
	case !o.mayConclude(p):
		return a.but(o.progress(p), o.awaited(p))
	}
	return o.conclude(p, r)
}

// withoutStore carries out the operator's order after majority and store were lost together (R16): every other voter is
// named lost, and this disk enters the next generation alone. Its record is put into the store later.
func (o proposals) withoutStore(p *Restore, a Action) Action {
	if !o.prepared(p.ID) {
		return o.prepare(p)
	}
	s := surveying(o).survey()
	switch _, refusal := s.ChooseAlone(p.Lost, p.Survivor); {
	case refusal != "":
		return a.but(o.progress(p), refusal)
	case !o.Alone:
		return a.but(o.progress(p), o.awaited(p))
	}
	r := o.recoveryRecord(p, o.Disk.Ledger.Record, s.Slots)
	return Action{Kind: Enter, Record: r,
		Why: fmt.Sprintf("%s: every other voter was named lost, and the backup store does not answer: slot %s founds %s, "+
			"which cannot be taken back", o.progress(p), o.Claim.Slot, r.Token())}
}

// continueInstead continues from a disk that was declared lost for the present generation, and is back. That disk
// prepares. If the present generation has a leader, that leader consents and then concludes. Without a leader the disk
// concludes, once all voters of that generation are out.
func (o proposals) continueInstead(p *Restore, a Action) Action {
	s := o.Store
	mine := o.Claim.Disk == p.Disk
	switch {
	case p.Led != nil && !o.heardConsent(p.ID):
		return a.but(say("a %s is proposed by %s, and nothing ends before an operator confirms it on a node of %s: %s",
			p.Title(), p.By, s.Record.Token(), command("restore --confirm %s", p.ID)))
	case mine && !o.prepared(p.ID):
		return o.prepare(p)
	case p.Led == nil && !mine, !o.mayConclude(p):
		return a.but(o.progress(p), o.awaited(p))
	}
	h := o.bearer(p.Disk)
	ready := h != nil && h.facts.Prepared == p.ID
	f := fencing(o).fence(s.Record, p)
	switch {
	case !ready:
		return a.but(o.progress(p))
	case p.Led == nil && !f.deserted():
		return a.but(o.progress(p), f.undeserted(s.Record, p))
	}
	var slots []Survivor
	for _, slot := range f.slots {
		slots = append(slots, Survivor{Slot: slot, Member: f.states[slot].member})
	}
	return o.conclude(p, o.recoveryRecord(p, s.Record, slots))
}

// recoveryRecord makes the record of a recovery: only the survivor's seat has a disk.
func (o proposals) recoveryRecord(p *Restore, old *Record, slots []Survivor) *Record {
	c := Charter{Cluster: old.Charter.Cluster, Generation: p.Generation, PeerURL: p.Pattern(old.Charter)}
	seat := Seat{Slot: p.Survivor, Disk: p.Disk}
	if h := o.bearer(p.Disk); h != nil {
		seat.Epoch = h.facts.Epoch
	}
	for _, v := range slots {
		made := Seat{Slot: v.Slot, Member: v.Member}
		if v.Slot == p.Survivor {
			made.Disk, made.Epoch = seat.Disk, seat.Epoch
		}
		c.Seats = append(c.Seats, made)
	}
	if _, seated := c.Seat(p.Survivor); !seated {
		c.Seats = append(c.Seats, seat)
		sortSeats(c.Seats)
	}
	return &Record{Cluster: old.Cluster, Generation: p.Generation, ID: p.ID, Line: p.Line, Cause: Recovered, Restore: p,
		Charter: c}
}

// recovered makes the record that ends a generation without a majority, or says what is missing.
func (o proposals) recovered(p *Restore) (*Record, Said) {
	s := surveying(o).survey()
	chosen, refusal := s.Choose(p.Lost, p.Survivor)
	switch {
	case refusal != "":
		return nil, say("%s; if that does not end, abort it with %s", refusal, Command("recover --abort"))
	case chosen.Disk != p.Disk:
		return nil, say("the disk of slot %s is not the one that the recovery was proposed for", p.Survivor)
	}
	old := o.Store.Record
	if f := fencing(o).fence(old, p); !f.deserted() {
		return nil, Said{Text: f.undeserted(old, p)}
	}
	return o.recoveryRecord(p, old, s.Slots), Said{}
}

// recovery decides for a member without a leader while no recovery is proposed. It makes sure that the store has the
// generation's record. It proposes a recovery if the configuration allows that and the loss is proven.
func (o proposals) recovery(a Action) Action {
	m, s := o.Member, o.Store
	if !m.Running || o.Member.Led() || m.Learner || o.Disk.Log == nil {
		return a
	}
	if step := steady(o).mirror(); step.acts() {
		return step
	}
	known := o.current()
	if s.Unknown != "" {
		return a.but("a recovery needs the backup store, which does not answer: " + s.Unknown)
	}
	if s.Record == nil || s.Restore != nil || known == nil || known.ID != s.Record.ID {
		return a
	}
	survey := surveying(o).survey()
	lost := survey.Missing(nil)
	chosen, refusal := survey.Choose(lost, "")
	for _, here := range []Said{survey.kept(lost), o.unhoused(survey, lost)} {
		if here.Text != "" {
			return a.but(here)
		}
	}
	if slices.ContainsFunc(survey.Slots, func(v Survivor) bool { return v.Dropped && v.Disk == o.Claim.Disk }) &&
		refusal != "" {
		return a.but(refusal)
	}
	if refusal != "" || len(lost) == 0 {
		return a
	}
	if survey.Majority() { // they only lack each other, and giving up the rest would not change that
		return a.but(say("a majority of the voters (%s) runs here, and has no leader: no recovery is needed while they run; "+
			"open the peer port between their nodes, and look for a disk that hangs there: %s shows it", survey.here(true),
			Command("status")))
	}
	way := say("if the disks of %s are gone for good, run %s, which continues from slot %s", strings.Join(lost, ", "),
		command("recover --lost %s", strings.Join(lost, ",")), chosen.Slot)
	unproven := survey.Missing(survey.gone())
	// R16: never without an operator.
	if richer := o.backupBeyond(lost); richer.Text != "" && chosen.Disk == o.Claim.Disk {
		return a.but(richer, say("%s says how to continue from slot %s all the same", Command("recover"), chosen.Slot))
	}
	switch {
	case !o.Config.Recovery:
		return a.but(way)
	case len(unproven) > 0:
		return a.but(fmt.Sprintf("recovery is automatic, and waits: it is not proven that what %s held is gone",
			strings.Join(unproven, ", ")), way)
	case o.paused() != "":
		return a.but("recovery is automatic, and waits: "+o.paused(), way)
	case chosen.Disk != o.Claim.Disk:
		return a.but(fmt.Sprintf("recovery is automatic: node %s, whose log is the most advanced, proposes it", chosen.Node))
	case o.backupUnknown() != "":
		return a.but("recovery is automatic, and waits: "+o.backupUnknown(), way)
	}
	return Action{Kind: Propose, Request: &Request{By: "cluster.recovery: automatic", Lost: lost, Survivor: chosen.Slot,
		Disk: chosen.Disk, Log: chosen.Log},
		Why: fmt.Sprintf("the disks of %s are here and have lost their data, so the majority is gone for good: "+
			"proposing to continue from slot %s", strings.Join(lost, ", "), chosen.Slot)}
}

// unhoused names live nodes that held a slot that is called lost, and hold no volume now.
func (o proposals) unhoused(s Survey, lost []string) Said {
	var nodes []string
	for _, v := range s.Slots {
		bare := slices.ContainsFunc(o.live(), func(p Peer) bool {
			return p.Node == o.Holders[v.Slot] && p.Facts != nil && p.Facts.Slot == ""
		})
		if slices.Contains(lost, v.Slot) && bare {
			nodes = append(nodes, fmt.Sprintf("%s (slot %s)", o.Holders[v.Slot], v.Slot))
		}
	}
	if nodes == nil {
		return Said{}
	}
	return say("here without the volume held before: %s; %s says what keeps it; if the disk is gone for good, %s shows "+
		"what is left", strings.Join(nodes, ", "), Command("status"), Command("recover"))
}
