package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// proposals asks what an open restore or recovery needs from this node, and whether to propose one.
type proposals view

// beside does what a restore or a recovery needs from a node that has nothing else to do. Anything urgent (a removal, a
// rival, a foreign disk, a start) was decided before, and what a node waits for can wait a little longer.
func (o proposals) beside(a Action) Action {
	if a.Kind != Wait || succession(o).contradicted() {
		return a
	}
	p := o.open()
	if d := o.discard(); d.acts() {
		return d
	}
	if n := o.otherStore(); p == nil && n != "" && o.Store.Unknown == "" && o.Store.Restore != nil {
		return a.but(say("a %s is proposed, and waits because %s", o.Store.Restore.Title(), n))
	}
	switch {
	case p == nil:
		if a = o.ask(a); a.Kind != Wait {
			return a
		}
		return o.recovery(a)
	case p.Survivor != "":
		return o.recovering(p, a)
	}
	return o.restoring(p, a)
}

// KeepBackups says why no backup may be pruned, "" if any may: while another program may run a voter, one of them may
// be the way back, and while a restore is proposed, nodes still fetch the one that it names.
func (obs Observation) KeepBackups() string {
	if r := obs.Store.Restore; r != nil {
		return fmt.Sprintf("the %s is under way", r.Title())
	}
	return obs.Mixed()
}

// restoring does what an open restore needs from this node. Every disk prepares, and without a leader every voter
// leaves. Then one node concludes: the leader that consented, or without a leader any node that has prepared and waited
// long enough.
func (o proposals) restoring(p *Restore, a Action) Action {
	if p.Led != nil && !o.heardConsent(p.ID) {
		return a.but(say("a %s is proposed by %s, and nothing begins before an operator confirms it on a node of this "+
			"cluster: %s, or %s", p.Title(), p.By, command("restore --confirm %s", p.ID), Command("restore --abort")))
	}
	founder := slices.Contains(p.founders(o.Store.Record), o.Claim.Slot)
	excused := !founder || o.Unable != ""
	r, missing := fencing(o).conclusion(p)
	switch {
	case o.departs(p) && (excused || o.prepared(p.ID)):
		return succession(o).leave(p)
	// A leader may have no seat, and nobody else may conclude.
	case r != nil && o.mayConclude(p) && (o.prepared(p.ID) || excused && p.Led != nil):
		return o.conclude(p, r)
	case !founder:
		return a.but(o.progress(p))
	case !o.prepared(p.ID):
		return o.prepare(p)
	case r == nil:
		return a.but(o.progress(p), missing)
	}
	return a.but(o.progress(p), o.awaited(p))
}

// departs reports whether this member has to leave its generation for an open, leaderless proposal (R16).
func (o proposals) departs(p *Restore) bool {
	return p.Led == nil && o.Alone && o.Disk.WAL && o.Disk.Ledger.Left == nil && !o.Member.Led()
}

// conclude makes a record the outcome of a proposal.
func (o proposals) conclude(p *Restore, r *Record) Action {
	return Action{Kind: Conclude, Record: r,
		Why: fmt.Sprintf("%s: the cluster continues as %s, which cannot be taken back", o.progress(p), r.Token())}
}

// heardConsent reports whether the leader of the generation that would end has consented, as applied here or as any of
// its members says. Preparing because of a false claim only costs room on the disk. A node that follows or concludes
// has applied the consent itself (R17).
func (o proposals) heardConsent(id string) bool {
	return o.consented(id) || slices.ContainsFunc(o.live(),
		func(p Peer) bool { return p.Facts != nil && p.Facts.Consent == id })
}

// mayConclude reports whether this node may conclude: after a consent only the leader, and without a leader any node
// that has waited as long as a living leader needs to object.
func (o proposals) mayConclude(p *Restore) bool {
	if p.Led != nil {
		return o.Member.Leader && o.Member.Led() && o.consented(p.ID)
	}
	return o.Alone && !o.Member.Led()
}

// awaited says what the conclusion waits for.
func (o proposals) awaited(p *Restore) string {
	if p.Led != nil {
		return "the leader, which has consented, concludes it"
	}
	return "it is concluded when no leader has objected for long enough"
}

// open returns the proposal that this node takes part in. If the disk remembers that it was aborted, it is over for
// good, whatever the store says: anyone who can delete there could open it again (R16).
func (o proposals) open() *Restore {
	p := o.inStore()
	if p != nil && slices.Contains(o.Disk.Ledger.Aborted, p.ID) {
		return nil
	}
	return p
}

// counting reports whether the open proposal counts on the held disk, which may have announced already that it has
// prepared. A node that has just started and is not found in the store yet is no reason to give the disk up.
func (o proposals) counting() bool {
	p := proposals(o.presumed()).open()
	return p != nil && slices.Contains(p.founders(o.Store.Record), o.Claim.Slot)
}

// inStore returns the proposal that the store shows as open, if all members share the store. It must be one to end our
// own generation, or for a blank disk the newest. A node whose store does not answer does not hinder the others.
func (o proposals) inStore() *Restore {
	s := o.Store
	if p := o.fromThisDisk(); p != nil {
		return p
	}
	if s.Unknown != "" || s.Record == nil || s.Restore == nil ||
		!slices.Equal(s.Restore.Line, append(slices.Clone(s.Record.Line), s.Record.ID)) {
		return nil
	}
	known := o.Disk.Ledger.Record
	if known == nil {
		known, _ = o.latest()
	}
	if known != nil && known.ID != s.Record.ID || succession(o).contradicted() || o.otherStore() != "" {
		return nil
	}
	return s.Restore
}

// fromThisDisk returns a proposal to continue from this disk's data that is not an ordinary open proposal of our
// generation. It is an operator's order after majority and store were lost together, or the beginning of the generation
// after the newest from a disk that was declared lost for the newest, and is back (R19).
func (o proposals) fromThisDisk() *Restore {
	mine, s := o.Disk.Ledger.Record, o.Store
	if mine == nil {
		return nil
	}
	if p := o.Orders.Alone; p != nil && p.Survivor != "" && s.Unknown != "" && p.Parent() == mine.ID && p.Disk == o.Claim.Disk {
		return p
	}
	if p := s.Restore; s.Unknown == "" && p != nil && p.Survivor != "" && s.Record != nil && s.Record.descends(mine) && p.Parent() == s.Record.ID && p.Disk == o.Claim.Disk {
		return p
	}
	return nil
}

// frozen says that a restore or a recovery is in progress, so that the member list must stay as it is: the conclusion
// relies on the members that it counted. If the store does not answer us, what other nodes say counts.
func (o proposals) frozen() string {
	if p := proposals(o.presumed()).inStore(); p != nil && (p.Led == nil || o.heardConsent(p.ID)) {
		return o.progress(p)
	}
	for _, p := range o.live() {
		f := p.Facts
		if o.Store.Unknown != "" && f != nil && f.Restore != "" && f.of(o.Disk.Ledger.Record) {
			return fmt.Sprintf("node %s knows of a restore, and the backup store does not answer here: the "+
				"member list stays as it is", p.Node)
		}
	}
	return ""
}

// prepare builds what a restore or a recovery needs beside etcd's data, after discarding what was built for another.
func (o proposals) prepare(r *Restore) Action {
	if p := o.Disk.Ledger.Prepared; p != nil && p.ID != r.ID || o.Disk.Built != "" && o.Disk.Built != r.ID {
		return Action{Kind: Discard, Why: fmt.Sprintf("slot %s deletes what it has prepared for another restore, to make "+
			"room for %s", o.Claim.Slot, r.Source())}
	}
	a := Action{Kind: Prepare, Restore: r,
		Why: fmt.Sprintf("slot %s prepares the %s (attempt %d), asked for by %s", o.Claim.Slot, r.Title(), r.Attempt, r.By)}
	if o.Unable != "" {
		return a.but("it could not: " + o.Unable)
	}
	return a
}

// discard removes what was prepared for a proposal that was aborted or is over. A store that does not answer, or that
// knows less than the disk, is no evidence of an abort.
func (o proposals) discard() Action {
	p, s := o.Disk.Ledger.Prepared, o.Store
	if p == nil && o.Disk.Built == "" {
		return Action{}
	}
	if r := o.Disk.Ledger.Record; p != nil && r != nil && r.Generation >= p.Generation {
		return Action{Kind: Discard, Why: fmt.Sprintf("what slot %s has prepared from %s is no longer needed", o.Claim.Slot,
			p.Source())}
	}
	if r := o.Disk.Ledger.Record; p == nil && r != nil && r.ID == o.Disk.Built && !o.changing() {
		return Action{Kind: Discard,
			Why: fmt.Sprintf("slot %s has joined %s without it: what it began to build is no longer needed",
				o.Claim.Slot, r.Token())}
	}
	wanted := func(id string) bool {
		return s.Restore != nil && s.Restore.ID == id || s.Record.ID == id
	}
	switch {
	case s.Unknown != "" || s.Record == nil:
		return Action{}
	case p != nil && (s.Record.Generation+1 < p.Generation || wanted(p.ID)), p == nil && wanted(o.Disk.Built):
		return Action{}
	}
	return Action{Kind: Discard, Why: fmt.Sprintf("what slot %s has prepared came to nothing", o.Claim.Slot)}
}

// Refusal says why another program's command in the store is not carried out; its Text is "" if nothing prevents it.
func (obs Observation) Refusal(q Request) Said {
	if !obs.Config.Foreign && q.Backup != "" {
		return say("restore.foreign-commands is false: if it is wanted, set that to true, or run %s; if not, delete it "+
			"with `etcd-manager-ctl delete-command %s`",
			command("restore %s", q.Backup), q.Command)
	}
	if mixed := adopting(look(&obs)).mixed(); mixed != "" && q.Backup != "" {
		return Said{Text: mixed}
	}
	return Said{Text: q.Problem}
}

// ask proposes the restore that a foreign command requests, if the configuration allows it, and deletes a command that
// has had its chance: if it stayed, it could roll the cluster back at any time. The leader does this, or without a
// leader the live holder with the lowest name. The store accepts only one of two proposals.
func (o proposals) ask(a Action) Action {
	s := o.Store
	known := o.current()
	if s.Unknown != "" || s.Record == nil || s.Restore != nil || known == nil || known.ID != s.Record.ID || o.otherStore() != "" {
		return a
	}
	for _, r := range s.Requests {
		switch why := o.Refusal(r); {
		case r.Over && o.Config.Foreign && o.proposes(known):
			return Action{Kind: Dismiss, Request: &r,
				Why: fmt.Sprintf("the command %s will not be carried out: %s", r.Command, why)}
		case why.Text != "":
			a = a.but(say("the command %s is not carried out: %s", r.Command, why))
		case o.proposes(known):
			return Action{Kind: Propose, Request: &r,
				Why: fmt.Sprintf("the command %s asks for a restore: proposing it", r.Command)}
		}
	}
	return a
}

// anyRuns reports whether a live node says that its member runs.
func (o proposals) anyRuns() bool {
	return slices.ContainsFunc(o.live(), func(p Peer) bool { return p.Facts != nil && p.Facts.Running })
}

// proposes reports whether this node is the one to propose.
func (o proposals) proposes(r *Record) bool {
	if o.Member.Running && o.Member.HasLead || o.leader(r) != nil {
		return o.Member.Leader
	}
	// The leader they elect would object, and the command never runs again.
	if !o.Leaderless && (o.Member.Running || o.Disk.WAL || o.anyRuns()) {
		return false
	}
	for _, p := range o.live() {
		if p.Facts != nil && p.Facts.Slot != "" && p.Node < o.Node {
			return false
		}
	}
	return true
}

// progress says how far a restore or a recovery has come, slot by slot.
func (o proposals) progress(p *Restore) string {
	var done, rest []string
	need := 1
	slots := []string{p.Survivor}
	if p.Survivor == "" {
		slots = p.founders(o.Store.Record)
		need = len(slots)/2 + 1
	}
	for _, slot := range slots {
		h := o.occupant(slot)
		if p.Survivor != "" {
			h = cmp.Or(o.bearer(p.Disk), h)
		}
		switch {
		case h == nil:
			rest = append(rest, slot+" has no live holder")
		case h.facts.Left != nil && h.facts.Left.Proposal == p.ID && h.facts.Prepared == p.ID:
			done = append(done, slot+" (has left)")
		case h.facts.Prepared == p.ID:
			done = append(done, slot)
		case h.facts.Drained:
			rest = append(rest, fmt.Sprintf("%s on %s is drained by an operator", slot, h.node))
		case h.facts.Unable != "":
			rest = append(rest, fmt.Sprintf("%s on %s: %s", slot, h.node, h.facts.Unable))
		default:
			rest = append(rest, fmt.Sprintf("%s on %s is preparing", slot, h.node))
		}
	}
	all := "none prepared"
	if len(done) > 0 {
		all = strings.Join(done, ", ") + " prepared"
	}
	return fmt.Sprintf("%s (attempt %d): %s", p.Title(), p.Attempt,
		strings.Join(append(append([]string{all}, rest...), fmt.Sprintf("%d of %d are needed", need, len(slots))), "; "))
}
