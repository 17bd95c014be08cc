package plan

import (
	"fmt"
	"slices"
	"strings"
)

// beside does what a restore or a recovery needs of a node that has nothing else to do: whatever is urgent (a removal, a rival, a
// strange disk, a start) has come before, and what waits can wait a little longer.
func (o Observation) beside(a Action) Action {
	if _, conflict := o.latest(); a.Kind != Wait || conflict != "" {
		return a
	}
	p := o.open()
	if d, ok := o.discard(); ok {
		return d
	}
	if n := o.stranger(); p == nil && n != "" && o.Store.Unknown == "" && o.Store.Restore != nil {
		return wait("%s; a %s is proposed, and waits because node %s uses another backup store", a.Why, o.Store.Restore.Title(), n)
	}
	if p == nil {
		if a = o.ask(a); a.Kind != Wait {
			return a
		}
		return o.recovery(a)
	}
	if p.Survivor != "" {
		return o.recovering(p, a)
	}
	if !slices.Contains(p.founders(o.Store.Record), o.Claim.Slot) {
		return wait("%s; %s", a.Why, o.progress(p))
	}
	if !o.prepared(p.ID) {
		return o.prepare(p)
	}
	r, missing := o.conclusion(p)
	if r == nil {
		return wait("%s; %s%s", a.Why, o.progress(p), missing)
	}
	return Action{Kind: Conclude, Record: r, Why: fmt.Sprintf("%s: the cluster goes on as %s, which cannot be taken back", o.progress(p), r.Token())}
}

// open returns the proposal that this node takes part in: the one for the generation after the newest, in a store
// that no live node differs from. A node whose store does not answer does not hinder the others.
func (o Observation) open() *Restore {
	s := o.Store
	if s.Unknown != "" || s.Record == nil || s.Restore == nil || !slices.Equal(s.Restore.Line, append(slices.Clone(s.Record.Line), s.Record.ID)) {
		return nil
	}
	if known, conflict := o.latest(); conflict != "" || known != nil && known.ID != s.Record.ID || o.stranger() != "" {
		return nil
	}
	return s.Restore
}

// stranger returns a live node that uses another backup store, so that what ours knows does not count for all (R8).
func (o Observation) stranger() string {
	for _, p := range o.live() {
		if p.Facts != nil && p.Facts.Store != "" && p.Facts.Store != o.Store.ID {
			return p.Node
		}
	}
	return ""
}

// frozen says that a restore or a recovery is under way, so that the member list must stay as it is: what concludes it counts on the
// members that it saw. Where the store does not answer us, the word of the others counts.
func (o Observation) frozen() string {
	if p := o.open(); p != nil {
		return o.progress(p)
	}
	for _, p := range o.live() {
		f := p.Facts
		if o.Store.Unknown != "" && f != nil && f.Restore != "" && f.Record != nil && f.Record.ID == o.Disk.Ledger.Record.ID {
			return fmt.Sprintf("node %s knows of a restore, and the backup store does not answer here: the member list stays as it is", p.Node)
		}
	}
	return ""
}

// prepare builds, next to etcd's data, what a restore or a recovery needs; what was built for another makes way for it.
func (o Observation) prepare(r *Restore) Action {
	if p := o.Disk.Ledger.Prepared; p != nil && p.ID != r.ID || o.Disk.Built != "" && o.Disk.Built != r.ID {
		return Action{Kind: Discard, Why: fmt.Sprintf("what slot %s holds of another restore makes way for %s", o.Claim.Slot, r.Source())}
	}
	a := Action{Kind: Prepare, Restore: r, Why: fmt.Sprintf("slot %s prepares the %s (attempt %d), asked for by %s", o.Claim.Slot, r.Title(), r.Attempt, r.By)}
	if o.Unable != "" {
		a.Why += "; it could not: " + o.Unable
	}
	return a
}

// discard removes what was prepared for a proposal that was aborted or is over. A store that does not answer, or knows
// less than the disk, is no evidence of an abort.
func (o Observation) discard() (Action, bool) {
	p, s := o.Disk.Ledger.Prepared, o.Store
	if p == nil && o.Disk.Built == "" {
		return Action{}, false
	}
	if r := o.Disk.Ledger.Record; p != nil && r != nil && r.Generation >= p.Generation {
		return Action{Kind: Discard, Why: fmt.Sprintf("what slot %s has prepared of %s is not needed any more", o.Claim.Slot, p.Source())}, true
	}
	if r := o.Disk.Ledger.Record; p == nil && r != nil && r.ID == o.Disk.Built && !o.changing() {
		return Action{Kind: Discard, Why: fmt.Sprintf("slot %s has joined %s another way: what it has begun to build of that is not needed any more", o.Claim.Slot, r.Token())}, true
	}
	wanted := func(id string) bool {
		return s.Restore != nil && s.Restore.ID == id || s.Record.ID == id
	}
	switch {
	case s.Unknown != "" || s.Record == nil:
		return Action{}, false
	case p != nil && (s.Record.Generation+1 < p.Generation || wanted(p.ID)):
		return Action{}, false
	case p == nil && wanted(o.Disk.Built):
		return Action{}, false
	}
	return Action{Kind: Discard, Why: fmt.Sprintf("what slot %s has prepared came to nothing", o.Claim.Slot)}, true
}

// ask proposes the restore that a foreign command asks for. The leader does, or where no leader is seen the live holder
// with the lowest name; two proposals cannot both be put into the store.
func (o Observation) ask(a Action) Action {
	s := o.Store
	known, _ := o.latest()
	if s.Unknown != "" || s.Record == nil || s.Restore != nil || known == nil || known.ID != s.Record.ID || o.stranger() != "" {
		return a
	}
	for _, r := range s.Requests {
		switch {
		case r.Problem != "":
			a.Why += fmt.Sprintf("; the command %s cannot be carried out: %s", r.Command, r.Problem)
		case o.proposes(known):
			return Action{Kind: Propose, Request: &r, Why: fmt.Sprintf("the command %s asks for a restore: proposing it", r.Command)}
		}
	}
	return a
}

// proposes reports whether it is for this node to propose.
func (o Observation) proposes(r *Record) bool {
	if o.Member.Running && o.Member.HasLead || o.leader(r) != nil {
		return o.Member.Leader
	}
	for _, p := range o.live() {
		if p.Facts != nil && p.Facts.Slot != "" && p.Node < o.Node {
			return false
		}
	}
	return true
}

// progress says how far a restore or a recovery is, slot by slot.
func (o Observation) progress(p *Restore) string {
	var done, rest []string
	need := 1
	slots := []string{p.Survivor}
	if p.Survivor == "" {
		slots = p.founders(o.Store.Record)
		need = len(slots)/2 + 1
	}
	for _, slot := range slots {
		h := o.occupant(slot)
		switch {
		case h == nil:
			rest = append(rest, slot+" has no live holder")
		case h.facts.Prepared == p.ID:
			done = append(done, slot)
		case h.facts.Drained:
			rest = append(rest, fmt.Sprintf("%s on %s is drained by an operator", slot, h.node))
		case h.facts.Unable != "":
			rest = append(rest, fmt.Sprintf("%s on %s: %s", slot, h.node, h.facts.Unable))
		default:
			rest = append(rest, fmt.Sprintf("%s on %s is at it", slot, h.node))
		}
	}
	all := "none prepared"
	if len(done) > 0 {
		all = strings.Join(done, ", ") + " prepared"
	}
	return fmt.Sprintf("%s (attempt %d): %s", p.Title(), p.Attempt, strings.Join(append(append([]string{all}, rest...), fmt.Sprintf("%d of %d are needed", need, len(slots))), "; "))
}

// occupant returns the live holder of a slot, us among them: of two, the one that its rival waits for.
func (o Observation) occupant(slot string) *holder {
	var found *holder
	consider := func(node string, f Facts) {
		if f.Slot == slot && (found == nil || stronger(f, node, found.facts, found.node)) {
			found = &holder{node, f}
		}
	}
	consider(o.Node, o.Facts(nil))
	for _, p := range o.live() {
		if p.Facts != nil {
			consider(p.Node, *p.Facts)
		}
	}
	return found
}
