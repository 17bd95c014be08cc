package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// A member reads the authorities that it trusts only when it starts. When others stand in the files by then it is
// stale, and is restarted in the same process: under the disruption lock, the followers in the order of their slots,
// the one that leads at last.
//
// It changes no member list, so members of different minors of etcd do not hinder it: a restart of one after the other
// is what an upgrade is. A learner that hears from its leader waits until it is promoted, as the others wait for it.
//
// One after the other needs members that find each other again. Where an authority has ended, the certificates that
// follow may come before the restarts: connections that stand live on, and new ones are refused. A voter that was away
// then cannot come back, so nobody waits for it, and a majority that will find each other restarts at once
// ([Observation.Severed]).

// reloading asks when a member is restarted with the authorities that it is told to trust.
type reloading view

// stale lets a member be restarted that trusts other authorities than it is told to.
func (o reloading) stale() (*Action, string) {
	const waits = "the trusted authorities have changed; the reload waits: %s"
	if obstacle := o.keeps(); obstacle != "" {
		return nil, fmt.Sprintf(waits, obstacle)
	}
	if o.severed() {
		return &Action{Kind: Reload,
			Why: fmt.Sprintf("the members refuse new connections, because certificates come from an authority that they "+
				"do not trust yet: restarting the member of slot %s with it", o.Claim.Slot)}, ""
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
	if obstacle := cmp.Or(proposals(o).frozen(), o.paused()); obstacle != "" || o.severed() {
		return obstacle
	}
	if obstacle := cmp.Or(upkeep(o).absent(), o.lockedBy()); obstacle != "" {
		return obstacle
	}
	if o.Member.Snapshot {
		return "a backup is being read"
	}
	return ""
}

// Severed reports whether this member would refuse a new connection even of itself, for it presents a certificate of an
// authority that it does not trust, and after a restart it finds a majority of the voters. Only what they say of
// themselves is evidence: that nobody says otherwise is none, for the gossip may be cut as well.
func (obs Observation) Severed() bool { return reloading(look(&obs)).severed() }

func (o reloading) severed() bool {
	m := o.Member
	if !m.Stale || m.Issuer == "" || len(m.Trusts) == 0 || slices.Contains(m.Trusts, m.Issuer) {
		return false
	}
	found := []uint64{m.ID}
	for _, p := range o.Peers {
		switch f := p.Facts; {
		case !p.Live || f == nil || !f.Running || !f.of(o.Disk.Ledger.Record):
		case o.finds(f):
			found = append(found, f.Member)
		case !f.Stale: // it will not know this authority, which may be this node's mistake
			return false
		}
	}
	here := 0
	for _, i := range m.Members {
		if !i.Learner && slices.Contains(found, i.ID) {
			here++
		}
	}
	return 2*here > m.Voters()
}

// finds reports whether this member and another that runs refuse each other's new connections now, and will not after a
// restart: the other one trusts the authority that signed for this one, or presents the same and is to be restarted as
// well. Stale alone is no evidence of that: its clients' authority may have changed, or it was given another one.
func (o reloading) finds(f *Facts) bool {
	m := o.Member
	return !slices.Contains(m.Trusts, f.Issuer) &&
		(slices.Contains(f.Trusts, m.Issuer) || f.Stale && f.Issuer == m.Issuer)
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
		Why: fmt.Sprintf("there is no leader, and the trusted authorities have changed: restarting the "+
			"member of slot %s with them", o.Claim.Slot)}, ""
}
