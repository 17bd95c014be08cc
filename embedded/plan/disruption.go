package plan

import (
	"fmt"
	"slices"
	"strings"
)

// disruption asks what the cluster would lack if this member went down on purpose.
type disruption view

// Seen is the leader's member list, with the leader itself marked as connected; nil from any other node.
func (f Facts) Seen() []MemberInfo {
	if !f.Running || !f.Leader {
		return nil
	}
	seen := slices.Clone(f.Members)
	for i := range seen {
		seen[i].Connected = seen[i].Connected || seen[i].ID == f.Member
	}
	return seen
}

// Heard returns the facts of a leader for which only the members that have just answered it count as connected.
func (m Member) Heard(ids []uint64) Member {
	m.Members = slices.Clone(m.Members)
	for i := range m.Members {
		m.Members[i].Connected = m.Members[i].Connected && slices.Contains(ids, m.Members[i].ID)
	}
	return m
}

// Disruption says what would be at risk if this member went down on purpose now (R14), "" if nothing would. A majority
// of all voters must stay connected without it, and no other change may be in progress. seen is what the leader has
// just reported ([Facts.Seen]), nil if no report came. It must be newer than the lock ([Member.Heard]): without the
// lock, another member may go down on purpose at any time, and one that has just vanished still looks connected.
func (obs Observation) Disruption(seen []MemberInfo) (risk string) {
	o := disruption(look(&obs))
	m := o.Member
	if seen == nil {
		seen = adopting(o).ownView()
	}
	switch {
	case !m.Running:
		return "etcd does not run here, so it is unknown here whether the others keep a quorum without it"
	case !m.Ready || !m.HasLead:
		return "this member sees no leader, so it is unknown here whether the others keep a quorum without it"
	case o.lockedBy() != "":
		return o.lockedBy()
	case o.changing():
		return "this node is about to begin a restored generation"
	case o.Disk.Ledger.Record != nil && proposals(o).frozen() != "":
		return proposals(o).frozen()
	case m.Learner:
		return ""
	case seen == nil:
		return "the leader has not said which members are connected to it"
	}
	return o.without(seen)
}

// without says which members the cluster would lack without this one.
func (o disruption) without(seen []MemberInfo) string {
	voters, left := 0, 0
	var away, learners []string
	for _, m := range seen {
		switch {
		case m.Learner:
			learners = append(learners, fmt.Sprintf("%s is catching up as a learner", o.whereabouts(m.Slot)))
			continue
		case m.ID != o.Member.ID && m.Connected:
			left++
		case m.ID != o.Member.ID:
			away = append(away, fmt.Sprintf("%s is not connected", o.whereabouts(m.Slot)))
		}
		voters++
	}
	need := voters/2 + 1
	switch enough := left >= need; {
	case voters == 1:
		return fmt.Sprintf("slot %s is the only voter: the cluster is down until it is back", o.Claim.Slot)
	case !enough && away == nil:
		return fmt.Sprintf("without slot %s, %d of %d voters would be left, and %d are needed: the "+
			"cluster is down until it is back", o.Claim.Slot, left, voters, need)
	case !enough:
		return fmt.Sprintf("%s: without slot %s, %d of %d voters would be left, and %d are needed", strings.Join(away, ", "),
			o.Claim.Slot, left, voters, need)
	case learners != nil:
		return strings.Join(learners, ", ")
	}
	return ""
}

// whereabouts names a slot and its holder.
func (o disruption) whereabouts(slot string) string {
	h, _ := o.holder(slot, 0)
	switch {
	case h == nil:
		return "slot " + slot
	case h.Facts.Drained:
		return fmt.Sprintf("slot %s, drained on %s,", slot, h.Node)
	}
	return fmt.Sprintf("slot %s on %s", slot, h.Node)
}

// Haste says why a process that was told to stop need not wait for a safe moment, "" if it should wait. Waiting does
// not help without a quorum, with one or two voters, or when the whole cluster is being stopped: every other voter has
// been told to stop as well, or is gone.
func (obs Observation) Haste() string {
	o := disruption(look(&obs))
	m := o.Member
	if !m.Running {
		return "etcd does not run"
	}
	if m.Learner {
		return "a learner does not count for the quorum"
	}
	voters, near, staying := o.countVoters()
	switch {
	case near <= voters/2:
		return fmt.Sprintf("there is no quorum: %d of %d voters are connected", near, voters)
	case voters <= 2:
		return "waiting does not help, because every voter is needed"
	case staying == 0:
		return "the whole cluster is being stopped"
	}
	return ""
}

// Deserted reports whether a member that goes down has nobody to hand over to: there is no quorum, or every other voter
// has been told to stop as well, or is gone. A new leader would be leaving, too.
func (obs Observation) Deserted() bool {
	o := disruption(look(&obs))
	voters, near, staying := o.countVoters()
	return near <= voters/2 || staying == 0
}

// Leaving names another voter that was told to stop as well, and goes first: the slot that sorts first does. It is asked
// where etcd refuses the lock that would keep both from going down at once.
func (obs Observation) Leaving() string {
	for _, p := range obs.Peers {
		f := p.Facts
		if p.Live && f != nil && f.Stopping && f.Running && f.Slot < obs.Claim.Slot {
			return fmt.Sprintf("slot %s on %s was told to stop as well, and goes first", f.Slot, p.Node)
		}
	}
	return ""
}

// countVoters counts the voters, including this member; those that are connected, including this one; and the other
// voters that nobody has told to stop.
func (o disruption) countVoters() (voters, near, staying int) {
	voters, near = 1, 1
	for _, v := range o.Member.Members {
		if v.Learner || v.ID == o.Member.ID {
			continue
		}
		voters++
		connected := slices.Contains(o.Member.Near, v.ID)
		if connected {
			near++
		}
		if o.stays(v.Slot, connected) {
			staying++
		}
	}
	return voters, near, staying
}

// stays reports whether nobody has told a slot's member to stop, as far as is known. A member that was given back can
// lead.
func (o disruption) stays(slot string, connected bool) bool {
	shared, known := o.shared(), false
	for _, p := range o.Peers {
		f := p.Facts
		if f == nil || f.Slot != slot {
			continue
		}
		if p.Live && !f.Stopping {
			return true
		}
		known = known || f.Stopping && (p.Live || !shared)
	}
	return connected && !known
}

// shared reports whether another program may run members of the cluster (R22): it was adopted, or goes back. If a
// member is connected although its node has left, it was given back then: another program runs it.
func (o knowledge) shared() bool {
	r := o.current()
	return r != nil && r.Cause == Adopted || o.Member.Returning()
}

// hasLock reports whether this slot holds the disruption lock.
func (o knowledge) hasLock() bool {
	return o.Member.Lock != nil && o.Member.Lock.Slot == o.Claim.Slot
}

// lockedBy names the holder of the disruption lock if it is another slot.
func (o knowledge) lockedBy() string {
	if o.Member.Lock == nil || o.hasLock() || o.moot(*o.Member.Lock) {
		return ""
	}
	return o.Member.Lock.String()
}

// Moot reports whether a disruption lock no longer serves its purpose, although nobody returns it: the holder's member
// was given back to another program (R22). Its node has left the gossip, and raft is connected to the member. Without
// this rule, each member that is given back would wait for the previous one's lock to expire.
func (obs Observation) Moot(l Lock) bool { return look(&obs).moot(l) }

func (o knowledge) moot(l Lock) bool {
	if !o.shared() {
		return false
	}
	for _, p := range o.Peers {
		if p.Live && (p.Node == l.Node || p.Facts != nil && p.Facts.Slot == l.Slot) {
			return false
		}
	}
	return slices.ContainsFunc(o.Member.Members, func(m MemberInfo) bool {
		return m.Slot == l.Slot && slices.Contains(o.Member.Near, m.ID)
	})
}

// unlock returns the disruption lock when its purpose is done: the slot serves again. While the slot still needs the
// lock, its loop is busy and decides nothing. If another node took the lock for this slot, that node no longer has the
// slot.
func (o disruption) unlock() Action {
	if !o.hasLock() {
		return Action{}
	}
	return Action{Kind: Unlock, Why: fmt.Sprintf("slot %s serves again: giving back the disruption lock that %s took (%s)",
		o.Claim.Slot, o.Member.Lock.Node, o.Member.Lock.Purpose)}
}
