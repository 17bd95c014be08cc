package plan

import (
	"cmp"
	"slices"
)

// After returns the ledger that an action leaves on the disk it was decided for. Both the coordinator and the
// simulation write what After returns, so they carry out the same protocol. Kinds that do not touch the ledger return
// it unchanged.
//
// Only [Renounce], and [Yield], which gives the disk up, drop the promises: a disk that forgot a promise could break
// it.
func (l Ledger) After(a Action, disk string) Ledger {
	switch a.Kind {
	case Repair:
		return Ledger{Record: a.Record, Role: RoleJoiner, Join: a.Member, Started: disk}
	case Adopt:
		l.Record, l.Role, l.Join, l.Started = a.Record, RoleJoiner, a.Member, disk
	case SetAside, Vacate: // what was prepared stays noted until Discard has removed the directory
		l = l.enter(a.Record)
		l.Role, l.Join, l.Started = RoleReplacement, 0, ""
	case Promise:
		l.Promises = append(slices.Clone(l.Promises), *a.Charter)
	case Commit:
		l.Record, l.Role = a.Record, RoleFounder
	case Accept:
		l.Record, l.Role, l.Join, l.Started = a.Record, RoleJoiner, a.Member, ""
		l.Secured = cmp.Or(a.Secured, l.Secured)
	case Start:
		l.Started = disk
	case Prepare:
		l.Prepared = a.Restore
	case Discard:
		l.Prepared = nil
	case Enter:
		l = l.enter(a.Record)
		l.Role, l.Join, l.Started = RoleFounder, 0, ""
	case Swap:
		l.Started, l.Prepared = disk, nil
	case Note:
		l.Set, l.Taken, l.Secured = cmp.Or(a.Set, l.Set), cmp.Or(a.Taken, l.Taken), cmp.Or(a.Secured, l.Secured)
		if a.Return {
			l.Taken = ""
		}
		l = l.remember(a.Aborted)
	case Leave:
		l.Left = a.Left
	case Stay:
		l = l.remember(a.Aborted)
		l.Left = nil
	case Renounce, Yield:
		return Ledger{}
	}
	return l
}

// maxAborted bounds what a disk remembers of proposals that were aborted.
const maxAborted = 64

// remember notes that a proposal was aborted.
func (l Ledger) remember(id string) Ledger {
	if id != "" && !slices.Contains(l.Aborted, id) {
		l.Aborted = append(slices.Clone(l.Aborted), id)
		l.Aborted = l.Aborted[max(0, len(l.Aborted)-maxAborted):]
	}
	return l
}

// enter accepts a record. What was noted of another generation is over with it.
func (l Ledger) enter(r *Record) Ledger {
	if l.Record == nil || l.Record.ID != r.ID {
		l.Left, l.Aborted, l.Secured = nil, nil, nil
	}
	l.Record = r
	return l
}
