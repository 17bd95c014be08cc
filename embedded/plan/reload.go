package plan

import (
	"cmp"
	"fmt"
)

// A member reads the authorities that it trusts only when it starts. When others stand in the files by then it is
// stale, and is restarted in the same process: under the disruption lock, the followers in the order of their slots,
// the one that leads at last.
//
// It changes no member list, so members of different minors of etcd do not hinder it: a restart of one after the other
// is what an upgrade is. A learner that hears from its leader waits until it is promoted, as the others wait for it.

// reloading asks when a member is restarted with the authorities that it is told to trust.
type reloading view

// stale lets a member be restarted that trusts other authorities than it is told to.
func (o reloading) stale() (*Action, string) {
	const waits = "the trusted authorities have changed; the reload waits: %s"
	if obstacle := o.keeps(); obstacle != "" {
		return nil, fmt.Sprintf(waits, obstacle)
	}
	if before := upkeep(o).before(func(f *Facts) bool { return f.Stale }); before != "" {
		return nil, fmt.Sprintf(waits, "slot "+before+" comes first")
	}
	return &Action{Kind: Reload,
			Why: fmt.Sprintf("the trusted authorities have changed: restarting the member of slot %s with them", o.Claim.Slot)},
		""
}

// keeps says what must be over before a member is stopped for its authorities.
func (o reloading) keeps() string {
	if obstacle := cmp.Or(proposals(o).frozen(), o.paused(), upkeep(o).absent(), o.lockedBy()); obstacle != "" {
		return obstacle
	}
	if o.Member.Snapshot {
		return "a backup is being read"
	}
	return ""
}

// Unready says why a member that has the disruption lock for it must not be restarted now, "" if nothing is in the
// way. seen is what the leader has just told ([Facts.Seen]), nil if nobody has.
func (obs Observation) Unready(seen []MemberInfo) string {
	o := reloading(look(&obs))
	return cmp.Or(unconnected(seen), o.keeps())
}

// alone decides for a stale member without a leader. It serves nothing, and may be without a leader because the
// authorities have changed or ended, so it needs neither a lock nor anybody's word; but an election is no loss, and a
// restart in it would only make it longer. A restore or a recovery reads the data of such a member: that is not
// disturbed.
func (o reloading) alone() (a *Action, note string) {
	const changed = "the trusted authorities have changed"
	switch m, frozen := o.Member, proposals(o).frozen(); {
	case !m.Stale || m.HasLead || o.dismissedBy(m.ID) != "":
		return nil, ""
	case frozen != "":
		return nil, fmt.Sprintf("%s; the reload waits: %s", changed, frozen)
	case o.Disk.Log == nil: // told only when there was no leader for a while
		return nil, changed + ": without a leader for a while, the member is restarted with them"
	}
	return &Action{Kind: Reload,
		Why: fmt.Sprintf("there is no leader, and the trusted authorities have changed: restarting the member of slot %s with them", o.Claim.Slot)}, ""
}
