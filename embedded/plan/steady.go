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
	reload, changed := reloading(o).alone()
	switch {
	case reload != nil:
		return *reload
	// The last entries this member received may not include its removal, and a learner never forgets its leader.
	case !m.Led() && o.dismissedBy(m.ID) != "":
		return resuming(o).setAside(o.dismissedBy(m.ID))
	case !m.Ready && m.Learner:
		return wait("etcd runs as a learner of slot %s and waits to hear from the leader", o.Claim.Slot).but(changed)
	case !m.HasLead:
		return wait("etcd runs and waits for a quorum%s", o.whoRuns(o.Disk.Ledger.Record)).but(changed)
	case !m.Ready:
		return wait("etcd runs, has a leader, and makes itself known to the cluster")
	case m.Learner:
		return wait("catching up as a learner").
			but(fmt.Sprintf("the leader promotes slot %s when it is in sync", o.Claim.Slot))
	}
	if m.Stalled && !m.Defragging { // nothing that needs raft or the disk would finish
		return wait("etcd runs, and raft shows it a leader, but no read through it is answered: the disk of slot %s may hang",
			o.Claim.Slot)
	}
	if a, ok := o.note(); ok {
		return a
	}
	if a, ok := disruption(o).unlock(); ok && !m.Alarmed(Corrupt) { // CORRUPT also refuses to return the lock
		return a
	}
	keep, note := upkeep(o).due()
	if keep != nil {
		return *keep
	}
	if !m.Leader {
		return wait("serving as a follower").but(o.Disagreement(), note)
	}
	return o.lead(note)
}

// lead takes the first possible step for the member list, and says what prevents the others.
func (o steady) lead(note Said) Action {
	voters := o.quorum().voters
	a := wait("serving as the leader")
	frozen, corrupt := proposals(o).frozen(), o.Member.Alarmed(Corrupt)
	held := cmp.Or(frozen, upkeep(o).halted())
	for _, s := range o.steps() {
		next := s.action
		switch {
		// A promotion finishes what has begun.
		case next != nil && (held == "" || frozen == "" && next.Kind == Promote) && (!corrupt || upkeep(o).replacesCorrupt(next)):
			return *next
		case next != nil && (next.Kind == Resize || next.Kind == HandOver):
			s.note = "the change of the slots waits"
		case next != nil && frozen != "":
			s.note = fmt.Sprintf("slot %s waits until the restore is over", next.Slot)
		case next != nil:
			s.note = fmt.Sprintf("slot %s waits to be %sd", next.Slot, next.Kind) // replaced, promoted, removed
		}
		a = a.but(s.note)
	}
	if proposals(o).open() == nil {
		a = a.but(held)
	}
	a = a.but(note)
	if mirror := o.mirror(); mirror != nil {
		return *mirror
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
func (o steady) note() (Action, bool) {
	s, l := o.Member.Set, o.Disk.Ledger
	if a := succession(o).unnoted(); a != nil {
		return Action{Kind: Note, Aborted: a.ID,
			Why: fmt.Sprintf("the proposal %s to end %s was aborted (%s): noting it on the disk of slot %s", a.ID,
				l.Record.Token(), a.Why, o.Claim.Slot)}, true
	}
	if a, ok := adopting(o).noteTaken(); ok {
		return a, true
	}
	if s == nil || s.Record != l.Record.ID || l.Set != nil && l.Set.Record == s.Record && l.Set.Serial >= s.Serial {
		return Action{}, false
	}
	return Action{Kind: Note, Set: s,
		Why: fmt.Sprintf("the cluster has agreed on the slots %s: noting it on the disk of slot %s",
			strings.Join(s.Slots, ","), o.Claim.Slot)}, true
}

// mirror puts our generation's record into a store that has none, or an older one, such as a store that was configured
// later. A foreign cluster in the store is no reason to stop: it is reported, and no disk of ours follows it.
func (o steady) mirror() *Action {
	mine, s := o.Disk.Ledger.Record, o.Store
	shared, unknown := founding(o).shared(nil)
	switch {
	case unknown != "" || !shared || s.Record != nil && (s.Record.ID == mine.ID || s.Record.descends(mine)):
		return nil
	case s.Record == nil || mine.descends(s.Record):
		return &Action{Kind: Mirror, Record: mine,
			Why: fmt.Sprintf("the backup store does not have the record of %s yet: adding it", mine.Token())}
	}
	return nil
}

// advance returns the step that brings a slot closer to being a voter, or a note on what it lacks.
func (o steady) advance(slot string, q quorum) (*Action, string) {
	m, listed := o.listed(slot)
	h, note := o.holder(slot, m.ID)
	if h == nil {
		if listed && m.Connected {
			return nil, ""
		}
		return nil, note
	}
	f := h.Facts
	switch {
	case listed && m.Learner && f.Running && f.Member == m.ID:
		return o.promote(h, m, q)
	case f.Phase == PhaseVacant:
		return o.admit(slot, h, m, q)
	case listed && m.Learner:
		return nil, fmt.Sprintf("slot %s (learner %x) has not started on %s yet", slot, m.ID, h.Node)
	case !listed:
		return nil, fmt.Sprintf("slot %s is not a member, and its disk on %s is %s", slot, h.Node, f.Phase)
	case !m.Connected && f.Drained:
		return nil, fmt.Sprintf("slot %s on %s is drained by an operator", slot, h.Node)
	case !m.Connected:
		return nil, fmt.Sprintf("slot %s on %s is not connected", slot, h.Node)
	}
	return nil, ""
}

// promote gives a learner its vote. The quorum may grow with it, so the learner must be connected and in sync. Then a
// majority of the old voters, with the learner, is a majority of the new ones.
func (o steady) promote(h *Peer, m MemberInfo, q quorum) (*Action, string) {
	switch {
	case !m.Connected:
		return nil, fmt.Sprintf("learner %x of slot %s runs on %s and is not connected", m.ID, m.Slot, h.Node)
	case !o.Member.InSync(m):
		return nil, fmt.Sprintf("learner %x of slot %s on %s is not in sync yet", m.ID, m.Slot, h.Node)
	case q.healthy <= q.voters/2:
		return nil, fmt.Sprintf("slot %s waits to be promoted, but only %d "+
			"of %d voters are connected", m.Slot, q.healthy, q.voters)
	}
	return &Action{Kind: Promote, Slot: m.Slot, Member: m.ID,
		Why: fmt.Sprintf("learner %x of slot %s is in sync on %s: promoting it", m.ID, m.Slot, h.Node)}, ""
}

// admit replaces the member of a slot whose holder has no data, for that holder's disk only.
func (o steady) admit(slot string, h *Peer, m MemberInfo, q quorum) (*Action, string) {
	f := h.Facts
	if !f.of(o.Disk.Ledger.Record) {
		return nil, fmt.Sprintf("slot %s on %s belongs to another cluster", slot, h.Node)
	}
	for _, ad := range o.Member.Admitted {
		if m.ID != 0 && m.Learner && ad.ID == m.ID && ad.Disk == f.Disk && m.Acked == 0 && f.Join != ad.ID {
			return nil, fmt.Sprintf("slot %s is admitted as learner %x; waiting for %s to start it", slot, m.ID, h.Node)
		}
	}
	peerURL, obstacle := securing(o).admits(slot, f)
	switch {
	case obstacle != "":
		return nil, obstacle
	case Older(f.Etcd, o.Member.ClusterVersion):
		return nil, fmt.Sprintf("slot %s is not admitted: %s embeds etcd %s and the cluster is at %s; run a holdfast with "+
			"that or a newer etcd there", slot, h.Node, f.Etcd, o.Member.ClusterVersion)
	case m.Connected:
		return nil, fmt.Sprintf("slot %s has no data on %s, yet member %x is connected: two holders?", slot, h.Node, m.ID)
	case q.healthy <= q.voters/2: // of all voters, hence also of the remaining ones
		return nil, fmt.Sprintf("slot %s waits to be admitted, but only %d "+
			"of %d voters are connected", slot, q.healthy, q.voters)
	case q.learner != nil && q.learner.Slot != slot:
		return nil, fmt.Sprintf("slot %s waits to be admitted until "+
			"learner %x of slot %s is a voter", slot, q.learner.ID, q.learner.Slot)
	case m.ID == 0 && len(q.away) > 0: // etcd refuses it, too; a lost member is replaced or removed first
		return nil, fmt.Sprintf("slot %s waits to be admitted: %s", slot, q.unconnected())
	case m.ID == 0:
		return &Action{Kind: Replace, Node: h.Node, Slot: slot, Disk: f.Disk, PeerURL: peerURL,
			Why: fmt.Sprintf("slot %s on %s is no member yet: adding it as a learner", slot, h.Node)}, ""
	}
	return &Action{Kind: Replace, Node: h.Node, Slot: slot, Disk: f.Disk, PeerURL: peerURL, Member: m.ID,
		Why: fmt.Sprintf("the disk of slot %s on %s has no member data: replacing the member by a learner", slot, h.Node)}, ""
}
