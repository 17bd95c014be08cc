package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// A member reads the authorities that it trusts only when it starts. If its files name others later, it is stale and is
// restarted in the same process, under the disruption lock: first the followers in the order of their slots, then the
// leader.
//
// A reload does not change the member list, so different minor versions of etcd do not prevent it: an upgrade is also
// one restart after the other. A learner that hears its leader waits until it is promoted, and the others wait for the
// learner.
//
// Restarting one by one works only if the members find each other again. If an authority has expired, the new
// certificates may arrive before the restarts: existing connections stay open, and new ones are refused. A voter that
// is away then cannot come back, so nobody waits for it. Instead, the members of a majority that will find each other
// restart at once ([Observation.Severed]).

// reloading decides when a member is restarted with its newly configured authorities.
type reloading view

// stale restarts a member that trusts other authorities than its files name.
func (o reloading) stale() Action {
	const waits = "the trusted authorities have changed; the reload waits: %s"
	if obstacle := o.obstacle(); obstacle != "" {
		return wait(waits, obstacle)
	}
	if o.severed() {
		return Action{Kind: Reload,
			Why: fmt.Sprintf("the members refuse new connections, because certificates come from an authority that they "+
				"do not trust yet: restarting the member of slot %s with it", o.Claim.Slot)}
	}
	if before := upkeep(o).before(func(f *Facts) bool { return f.Stale }); before != "" {
		return wait(waits, "slot "+before+" comes first")
	}
	return Action{Kind: Reload,
		Why: fmt.Sprintf("the trusted authorities have changed: restarting the member of slot %s with them", o.Claim.Slot)}
}

// obstacle says what prevents stopping a member for its authorities now.
func (o reloading) obstacle() string {
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

// Severed reports whether this member would refuse a new connection even from itself, because it presents a certificate
// of an authority that it does not trust, and would find a majority of the voters after a restart. Only the voters' own
// facts are evidence for that. Silence is none, because the gossip may be cut as well.
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
		case !f.Stale: // it will not trust this authority, which may be this node's mistake
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

// finds reports whether this member and another running one refuse each other's new connections now, and will not after
// a restart: the other one trusts the authority of our certificate, or presents a certificate of that authority and
// will be restarted, too. Stale alone is no evidence: only its clients' authority may have changed, or it may have
// another one.
func (o reloading) finds(f *Facts) bool {
	m := o.Member
	return !slices.Contains(m.Trusts, f.Issuer) &&
		(slices.Contains(f.Trusts, m.Issuer) || f.Stale && f.Issuer == m.Issuer)
}

// Unready says why a member that holds the disruption lock must not reload now, "" if nothing prevents it. seen is what
// the leader has just reported ([Facts.Seen]), nil if it has not.
func (obs Observation) Unready(seen []MemberInfo) string {
	o := reloading(look(&obs))
	return cmp.Or(unconnected(seen), o.obstacle())
}

// Adrift reports whether a member has no leader. A learner never forgets the one it had, so it must be connected to it.
func (m Member) Adrift() bool {
	return !m.HasLead || m.Learner && !slices.Contains(m.Near, uint64(m.LeaderID))
}

// alone decides for a stale member without a leader. It serves nothing, and changed or expired authorities may be the
// cause, so it needs neither a lock nor permission. During a mere election it does not restart, which would only
// prolong the election. It does not restart during a restore or a recovery either, because they read its data.
func (o reloading) alone() Action {
	const changed = "the trusted authorities have changed"
	switch m, frozen := o.Member, proposals(o).frozen(); {
	case !m.Stale || !m.Adrift() || o.dismissedBy(m.ID) != "":
		return Action{}
	case frozen != "":
		return wait("%s; the reload waits: %s", changed, frozen)
	case o.Disk.Log == nil: // only known after a while without a leader
		return wait("%s: without a leader for a while, the member is restarted with them", changed)
	}
	return Action{Kind: Reload,
		Why: fmt.Sprintf("there is no leader, and the trusted authorities have changed: restarting the "+
			"member of slot %s with them", o.Claim.Slot)}
}
