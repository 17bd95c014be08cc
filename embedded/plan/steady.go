package plan

import (
	"cmp"
	"fmt"
	"strings"
)

// steady decides for a running member, and how the leader changes the member list.
type steady view

// serve decides while etcd runs. Only the raft leader acts on the cluster, through raft, one step at a time, and only
// with a majority of voters.
func (o steady) serve() Action {
	m := o.Member
	if next, _, _ := succession(o).ended(); next != nil {
		return succession(o).moveOn(next)
	}
	reload := reloading(o).alone()
	switch {
	case reload.acts():
		return reload
	// The last entries this member received may not include its removal, and a learner never forgets its leader.
	case !m.Led() && o.dismissedBy(m.ID) != "":
		return resuming(o).setAside(o.dismissedBy(m.ID))
	case !m.Ready && m.Learner:
		return wait("etcd runs as a learner of slot %s and waits to hear from the leader", o.Claim.Slot).but(reload.said())
	case !m.HasLead:
		return wait("etcd runs and waits for a quorum%s", o.whoRuns(o.Disk.Ledger.Record)).but(reload.said())
	case !m.Ready:
		return wait("etcd runs, has a leader, and makes itself known to the cluster")
	case m.Learner:
		return wait("catching up as a learner").
			but(fmt.Sprintf("the leader promotes slot %s when it is in sync", o.Claim.Slot))
	}
	if m.Stalled && !m.Defragging { // nothing that needs raft or the disk would finish
		return wait("etcd runs, and raft shows it a leader, but no read through it is answered: the disk of slot %s may "+
			"hang, or its messages may not get through", o.Claim.Slot)
	}
	if a := o.note(); a.acts() {
		return a
	}
	if a := disruption(o).unlock(); a.acts() && !m.Alarmed(Corrupt) { // CORRUPT also refuses to return the lock
		return a
	}
	keep := upkeep(o).due()
	switch {
	case keep.acts():
		return keep
	case !m.Leader:
		return wait("serving as a follower").but(o.Disagreement(), keep.said())
	}
	return o.lead(keep.said())
}

// lead takes the first possible step for the member list, and says what prevents the others.
func (o steady) lead(note Said) Action {
	voters := o.quorum().voters
	a := wait("serving as the leader")
	frozen, corrupt := proposals(o).frozen(), o.Member.Alarmed(Corrupt)
	held := cmp.Or(frozen, upkeep(o).halted())
	for _, next := range o.steps() {
		note := next.said()
		switch {
		// A promotion finishes what has begun.
		case next.Kind == Resize && o.Member.Alarmed(NoSpace): // a write; NOSPACE may wait for what comes after it
			note = say("the change of the slots waits")
		case next.acts() && (held == "" || frozen == "" && next.Kind == Promote) && (!corrupt || upkeep(o).replacesCorrupt(next)):
			return next
		case next.Kind == Resize || next.Kind == HandOver:
			note = say("the change of the slots waits")
		case next.acts() && frozen != "":
			note = say("slot %s waits until the restore is over", next.Slot)
		case next.acts():
			note = say("slot %s waits to be %sd", next.Slot, next.Kind) // replaced, promoted, removed
		}
		a = a.but(note)
	}
	if proposals(o).open() == nil {
		a = a.but(held)
	}
	a = a.but(note)
	if mirror := o.mirror(); mirror.acts() {
		return mirror
	}
	if len(a.Obstacles) > 0 {
		return a
	}
	if voters == 1 {
		return wait("serving as the only member")
	}
	return wait("serving as the leader: all %d members are voters and connected", voters)
}

// note writes down the slots that the cluster has agreed on, for when this disk is read without a quorum. It also notes
// the store's aborts, for when the store says otherwise.
func (o steady) note() Action {
	s, l := o.Member.Set, o.Disk.Ledger
	if a := succession(o).unnoted(); a != nil {
		return Action{Kind: Note, Aborted: a.ID,
			Why: fmt.Sprintf("the proposal %s to end %s was aborted (%s): noting it on the disk of slot %s", a.ID,
				l.Record.Token(), a.Why, o.Claim.Slot)}
	}
	if a := adopting(o).noteTaken(); a.acts() {
		return a
	}
	if s == nil || s.Record != l.Record.ID || l.Set != nil && l.Set.Record == s.Record && l.Set.Serial >= s.Serial {
		return Action{}
	}
	return Action{Kind: Note, Set: s,
		Why: fmt.Sprintf("the cluster has agreed on the slots %s: noting it on the disk of slot %s",
			strings.Join(s.Slots, ","), o.Claim.Slot)}
}

// mirror puts our generation's record into a store that has none, or an older one, such as a store that was configured
// later. A foreign cluster in the store is no reason to stop: it is reported, and no disk of ours follows it.
func (o steady) mirror() Action {
	mine, s := o.Disk.Ledger.Record, o.Store
	shared, unknown := founding(o).shared(nil)
	switch {
	case unknown != "" || !shared || s.Record != nil && (s.Record.ID == mine.ID || s.Record.descends(mine)):
	case s.Record == nil || mine.descends(s.Record):
		return Action{Kind: Mirror, Record: mine,
			Why: fmt.Sprintf("the backup store does not have the record of %s yet: adding it", mine.Token())}
	}
	return Action{}
}

// advance is the step that brings a slot closer to being a voter, or a Wait for what it lacks.
func (o steady) advance(slot string, q quorum) Action {
	m, listed := o.listed(slot)
	h, note := o.holder(slot, m.ID)
	if h == nil && listed && m.Connected {
		return Action{}
	}
	if h == nil {
		return wait("%s", note)
	}
	f := h.Facts
	switch {
	case listed && m.Learner && f.Running && f.Member == m.ID:
		return o.promote(h, m, q)
	case f.Drained && !m.Connected:
		return wait("slot %s on %s is drained by an operator", slot, h.Node)
	case f.Phase == PhaseVacant:
		return o.admit(slot, h, m, q)
	case listed && m.Learner:
		return wait("slot %s (learner %x) has not started on %s yet", slot, m.ID, h.Node)
	case !listed:
		return wait("slot %s is not a member, and its disk on %s is %s", slot, h.Node, f.Phase)
	case !m.Connected:
		return wait("slot %s on %s is not connected", slot, h.Node)
	}
	return Action{}
}

// promote gives a learner its vote. The quorum may grow with it, so the learner must be connected and in sync. Then a
// majority of the old voters, with the learner, is a majority of the new ones.
func (o steady) promote(h *Peer, m MemberInfo, q quorum) Action {
	switch {
	case !m.Connected:
		return wait("learner %x of slot %s runs on %s and is not connected", m.ID, m.Slot, h.Node)
	case !o.Member.InSync(m):
		return wait("learner %x of slot %s on %s is not in sync yet", m.ID, m.Slot, h.Node)
	case q.healthy <= q.voters/2:
		return wait("slot %s waits to be promoted, but only %d of %d voters are connected", m.Slot, q.healthy, q.voters)
	}
	return Action{Kind: Promote, Slot: m.Slot, Member: m.ID,
		Why: fmt.Sprintf("learner %x of slot %s is in sync on %s: promoting it", m.ID, m.Slot, h.Node)}
}

// admit replaces the member of a slot whose holder has no data, for that holder's disk only.
func (o steady) admit(slot string, h *Peer, m MemberInfo, q quorum) Action {
	f := h.Facts
	if !f.of(o.Disk.Ledger.Record) {
		return wait("slot %s on %s belongs to another cluster", slot, h.Node)
	}
	for _, ad := range o.Member.Admitted {
		if m.ID != 0 && m.Learner && ad.ID == m.ID && ad.Disk == f.Disk && m.Acked == 0 && f.Join != ad.ID {
			return wait("slot %s is admitted as learner %x; waiting for %s to start it", slot, m.ID, h.Node)
		}
	}
	peerURL, obstacle := securing(o).admits(slot, f)
	switch {
	case obstacle != "":
		return wait("%s", obstacle)
	case Older(f.Etcd, o.Member.ClusterVersion):
		return wait("slot %s is not admitted: %s embeds etcd %s and the cluster is at %s; run a holdfast with "+
			"that or a newer etcd there", slot, h.Node, f.Etcd, o.Member.ClusterVersion)
	case m.Connected:
		return wait("slot %s has no data on %s, yet member %x is connected: two holders?", slot, h.Node, m.ID)
	case q.healthy <= q.voters/2: // of all voters, hence also of the remaining ones
		return wait("slot %s waits to be admitted, but only %d of %d voters are connected", slot, q.healthy, q.voters)
	case q.learner != nil && q.learner.Slot != slot:
		return wait("slot %s waits to be admitted until learner %x of slot %s is a voter", slot, q.learner.ID,
			q.learner.Slot)
	case m.ID == 0 && len(q.away) > 0: // etcd refuses it, too; a lost member is replaced or removed first
		return wait("slot %s waits to be admitted: %s", slot, q.unconnected())
	case m.ID == 0:
		return Action{Kind: Replace, Node: h.Node, Slot: slot, Disk: f.Disk, PeerURL: peerURL,
			Why: fmt.Sprintf("slot %s on %s is no member yet: adding it as a learner", slot, h.Node)}
	}
	return Action{Kind: Replace, Node: h.Node, Slot: slot, Disk: f.Disk, PeerURL: peerURL, Member: m.ID,
		Why: fmt.Sprintf("the disk of slot %s on %s has no member data: replacing the member by a learner", slot, h.Node)}
}
