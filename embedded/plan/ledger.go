package plan

import "slices"

// After returns the ledger that an action leaves behind on the disk it was decided for. It is what the
// coordinator writes and what the simulation writes, so that both carry out the same protocol. Kinds that
// do not touch the ledger return it unchanged.
//
// The promises are kept through everything but [Renounce]: a disk that forgot one could break it.
func (l Ledger) After(a Action, disk string) Ledger {
	switch a.Kind {
	case Repair:
		return Ledger{Record: a.Record, Role: RoleJoiner, Join: a.Member, Started: disk}
	case SetAside, Vacate: // what was prepared stays until it is discarded, which removes the directory first
		l.Record, l.Role, l.Join, l.Started = a.Record, RoleReplacement, 0, ""
	case Promise:
		l.Promises = append(slices.Clone(l.Promises), *a.Charter)
	case Commit:
		l.Record, l.Role = a.Record, RoleFounder
	case Accept:
		l.Record, l.Role, l.Join, l.Started = a.Record, RoleJoiner, a.Member, ""
	case Start:
		l.Started = disk
	case Prepare:
		l.Prepared = a.Restore
	case Discard:
		l.Prepared = nil
	case Enter:
		l.Record, l.Role, l.Join, l.Started = a.Record, RoleFounder, 0, ""
	case Swap:
		l.Started, l.Prepared = disk, nil
	case Note:
		l.Set = a.Set
	case Renounce:
		return Ledger{}
	}
	return l
}
