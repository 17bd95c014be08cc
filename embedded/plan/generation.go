package plan

import (
	"fmt"
	"slices"
)

// follow goes on into a later generation of the cluster, which is final: as a founder of it where its record names
// this disk, else by giving up what the disk held and waiting to be admitted.
func (o Observation) follow(r *Record) Action {
	slot, was := o.Claim.Slot, "nothing"
	if mine := o.Disk.Ledger.Record; mine != nil {
		was = mine.Token()
	}
	seat, _ := r.Charter.Seat(slot)
	member := o.Member.Running || o.Disk.WAL
	switch {
	case r.Restore != nil && seat.Disk == o.Claim.Disk && o.supplanted(r) == "":
		return Action{Kind: Enter, Record: r, Why: fmt.Sprintf("the cluster goes on as %s, with %s: slot %s founds it, and leaves %s for good", r.Token(), r.Restore.Source(), slot, was)}
	case member && o.supplanted(r) != "":
		return Action{Kind: SetAside, Record: r, Why: fmt.Sprintf("the cluster goes on as %s, which did not know that %s: the data of slot %s is set aside and it joins anew", r.Token(), o.supplanted(r), slot)}
	case o.Member.Running:
		return Action{Kind: SetAside, Record: r, Why: fmt.Sprintf("the cluster goes on as %s, in which this disk has no seat: the data of slot %s is set aside and it joins anew", r.Token(), slot)}
	case member:
		return Action{Kind: SetAside, Record: r,
			Why: fmt.Sprintf("the cluster has gone on as %s while this disk was away at %s: its data is set aside and slot %s joins anew", r.Token(), was, slot)}
	}
	return Action{Kind: Vacate, Record: r, Why: fmt.Sprintf("the cluster has gone on as %s: slot %s joins it", r.Token(), slot)}
}

// supplanted says which member of the generation before this node knows of and the record does not: it was added after
// those who concluded had looked, so that the disks of the record may not be enough to end that generation.
func (o Observation) supplanted(r *Record) string {
	if !o.Member.Running {
		return ""
	}
	for _, m := range o.Member.Members {
		s, seated := r.Charter.Seat(m.Slot)
		added := !seated && !m.Learner && (r.Restore == nil || !slices.Contains(r.Restore.Lost, m.Slot))
		if (s.Disk != "" && s.Member != m.ID || added) && o.removedBy(m.ID) == "" {
			return fmt.Sprintf("slot %s is member %x", m.Slot, m.ID)
		}
	}
	return ""
}

// changing reports whether the disk has entered a restored or recovered generation and does not hold its data yet.
func (o Observation) changing() bool {
	l := o.Disk.Ledger
	return l.Record != nil && l.Record.Restore != nil && l.Role == RoleFounder && l.Started == ""
}

// prepared reports whether the disk holds all that the proposal of this ID needs.
func (o Observation) prepared(id string) bool {
	p := o.Disk.Ledger.Prepared
	return p != nil && p.ID == id && o.Disk.Built == id
}

// change puts what was prepared in the place of what was. A founder of such a generation never begins with an
// empty log, so it builds anew what it has lost; where it cannot, it joins as a replacement as soon as the others
// have a leader to admit it.
func (o Observation) change() Action {
	r, slot := o.Disk.Ledger.Record, o.Claim.Slot
	swapped := o.Disk.WAL && o.Disk.ClusterID == o.Disk.RecordCID
	later, conflict := o.latest()
	switch {
	case conflict != "":
		return wait("%s", conflict)
	case later.ID != r.ID:
		return o.follow(later)
	case !o.Disk.WAL && o.anew():
		return o.renounce("the operator gave up " + r.Token())
	case o.replacedAs(r) != "":
		return o.step(r, o.replacedAs(r))
	case r.Cause == Recovered && !swapped:
		return o.carryOn()
	case swapped || o.prepared(r.ID):
		return o.swap(r)
	}
	obstacle := o.Unable
	if o.Store.Unknown != "" {
		obstacle = "the backup store does not answer: " + o.Store.Unknown
	}
	switch {
	case obstacle != "" && o.leader(r) != nil:
		return o.step(r, obstacle)
	case o.Store.Unknown != "":
		return wait("slot %s is a founder of %s and has yet to prepare backup %s, but %s%s", slot, r.Token(), r.Restore.Backup, obstacle, o.whoRuns(r))
	}
	return o.prepare(r.Restore)
}

// swap puts what the disk has prepared in the place of its data.
func (o Observation) swap(r *Record) Action {
	return Action{Kind: Swap, Record: r, Why: fmt.Sprintf("slot %s puts %s, which it has prepared, in the place of its data, and goes on as %s", o.Claim.Slot, r.Restore.Source(), r.Token())}
}

// step makes the disk a replacement in a generation that it was to found.
func (o Observation) step(r *Record, why string) Action {
	a := Action{Kind: Vacate, Record: r, Why: fmt.Sprintf("%s: slot %s joins %s anew", why, o.Claim.Slot, r.Token())}
	if o.Disk.WAL {
		a.Kind = SetAside
	}
	return a
}
