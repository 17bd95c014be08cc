package plan

import (
	"fmt"
	"slices"
	"strings"
)

// follow continues into a later generation, which is final: as one of its founders if its record names this disk.
// Otherwise the disk gives up what it held, and waits to be admitted.
func (o succession) follow(r *Record) Action {
	slot, was := o.Claim.Slot, "nothing"
	if mine := o.Disk.Ledger.Record; mine != nil {
		was = mine.Token()
	}
	seat, _ := r.Charter.Seat(slot)
	member := o.Member.Running || o.Disk.WAL
	switch {
	case r.Restore != nil && seat.Disk == o.Claim.Disk && o.supplanted(r) == "":
		return Action{Kind: Enter, Record: r,
			Why: fmt.Sprintf("the cluster continues as %s, with %s: slot %s founds it, and leaves %s for good", r.Token(),
				r.Restore.Source(), slot, was)}
	case o.Member.Running && o.leader(r) == nil:
		return Action{Kind: Leave, Left: o.leaving(r.ID),
			Why: fmt.Sprintf("%s ended in %s, %s: the member of slot %s stops, and its data stays in place "+
				"until a leader of %s is seen", was, r.Token(), o.unseated(r), slot, r.Token())}
	// If the other disks are lost before they serve, this disk's data may be the only copy.
	case member && o.leader(r) == nil && !o.Orders.Join:
		return wait("%s ended in %s, %s: the data of slot %s stays in place until a leader of that is seen; if there can "+
			"be none any more, %s here sets it aside%s", was, r.Token(), o.unseated(r), slot, Command("rejoin"), o.whoRuns(r))
	case member:
		return Action{Kind: SetAside, Record: r,
			Why: fmt.Sprintf("%s ended in %s, %s: the data of slot %s is set aside and it joins again", was, r.Token(),
				o.unseated(r), slot)}
	}
	return Action{Kind: Vacate, Record: r,
		Why: fmt.Sprintf("the cluster has continued as %s: slot %s joins it", r.Token(), slot)}
}

// supplanted names a member of the previous generation that this node knows of and the record does not. It was added
// after the concluder counted, so the disks of the record may not be enough to end that generation. What the member
// knew when it stopped for this record counts as well.
func (o succession) supplanted(r *Record) string {
	var members []MemberInfo
	if l := o.Disk.Ledger.Left; o.Member.Running {
		members = o.Member.Members
	} else if l != nil && l.Proposal == r.ID {
		members = l.Members
	}
	for _, m := range members {
		s, seated := r.Charter.Seat(m.Slot)
		added := !seated && !m.Learner && (r.Restore == nil || !slices.Contains(r.Restore.Lost, m.Slot))
		if (s.Disk != "" && s.Member != m.ID || added) && o.removedBy(m.ID) == "" {
			return fmt.Sprintf("slot %s is member %x", m.Slot, m.ID)
		}
	}
	return ""
}

// unseated says why this disk does not found a later generation.
func (o succession) unseated(r *Record) string {
	if why := o.supplanted(r); why != "" {
		return "which did not know that " + why
	}
	return "in which this disk has no seat"
}

// change swaps in what was prepared. A founder of a restored or recovered generation never begins with an empty log, so
// it prepares again what it has lost. If it cannot, it joins as a replacement as soon as there is a leader to admit it.
func (o succession) change() Action {
	r, slot := o.Disk.Ledger.Record, o.Claim.Slot
	swapped := o.Disk.WAL && o.Disk.ClusterID == o.Disk.RecordCID
	next, _, _ := o.ended()
	switch {
	case next != nil:
		return o.follow(next)
	case !o.Disk.WAL && o.givenUp():
		return o.renounce("the operator gave up " + r.Token())
	case resuming(o).replacedAs(r) != "":
		return o.joinInstead(r, resuming(o).replacedAs(r))
	case r.Cause == Recovered && !swapped && !o.vacated(r):
		return wait("slot %s continues as %s, and waits until a majority of the voters of the generation "+
			"before have stopped for it%s", slot, r.Token(), o.whoRuns(r))
	case r.Cause == Recovered && !swapped:
		return o.continueAlone()
	case swapped || o.prepared(r.ID):
		return o.swap(r)
	}
	obstacle := o.Unable
	if o.Store.Unknown != "" {
		obstacle = "the backup store does not answer: " + o.Store.Unknown
	}
	switch {
	case o.Starting:
		return wait("slot %s is a founder of %s and has yet to prepare backup %s: it waits a moment for the backup store: %s",
			slot, r.Token(), r.Restore.Backup, o.Store.Unknown)
	case obstacle != "" && o.leader(r) != nil:
		return o.joinInstead(r, obstacle)
	case o.Store.Unknown != "":
		return wait("slot %s is a founder of %s and has yet to prepare backup %s, but %s%s", slot, r.Token(),
			r.Restore.Backup, obstacle, o.whoRuns(r))
	}
	return proposals(o).prepare(r.Restore)
}

// vacated reports whether the previous generation can have no majority any more. The conclusion alone does not prove
// that if a leader has consented to a recovery (R19): the survivor is no voter of that generation, and its voters stop
// only when they have read the conclusion.
func (o succession) vacated(r *Record) bool {
	if r.Restore.Led == nil {
		return true
	}
	voters, out := 0, 0
	for _, s := range r.Charter.Seats {
		if s.Member == 0 {
			continue
		}
		voters++
		out += boolean(slices.ContainsFunc(o.Peers, func(p Peer) bool {
			f := p.Facts
			return f != nil && f.Slot == s.Slot && (f.of(r) || f.Left != nil && f.Left.Proposal == r.ID && f.Member == s.Member)
		}))
	}
	return voters-out < voters/2+1
}

// swap replaces the disk's data with what it has prepared.
func (o succession) swap(r *Record) Action {
	return Action{Kind: Swap, Record: r,
		Why: fmt.Sprintf("slot %s puts %s, which it has prepared, in the place of its data, and continues as %s",
			o.Claim.Slot, r.Restore.Source(), r.Token())}
}

// continueAlone decides for the survivor once it has entered the generation that it alone founds. What it has prepared
// is valid only if its log has not grown since, because etcd ran until it entered.
func (o succession) continueAlone() Action {
	r, d := o.Disk.Ledger.Record, o.Disk
	whole := o.prepared(r.ID) && d.Ledger.Prepared.Log != nil
	switch {
	case whole && (!d.WAL || d.Log != nil && *d.Log == *d.Ledger.Prepared.Log):
		return o.swap(r)
	case !d.WAL:
		return proposals(o).beside(wait("slot %s was to continue as %s with its own data, which is gone from the disk: "+
			"bring it back, or continue with a backup: %s",
			o.Claim.Slot, r.Token(), command("restore latest --lost %s", strings.Join(r.Charter.Slots(), ","))))
	case d.Log == nil:
		return wait("slot %s continues as %s, and looks for the end of its log", o.Claim.Slot, r.Token())
	}
	return proposals(o).prepare(r.Restore)
}

// joinInstead makes the disk a replacement in a generation that it was to found.
func (o succession) joinInstead(r *Record, why string) Action {
	a := Action{Kind: Vacate, Record: r, Why: fmt.Sprintf("%s: slot %s joins %s again", why, o.Claim.Slot, r.Token())}
	if o.Disk.WAL {
		a.Kind = SetAside
	}
	return a
}
