package plan

import (
	"fmt"
	"slices"
)

// A disk went back in time (R21) if a snapshot of the machine or the volume was rolled back, or an old copy was put in
// its place. It has forgotten what it acknowledged, and perhaps its vote. etcd does not survive that: it panics when
// the leader relies on an entry that is not there.
//
// The leader knows how far each member has acknowledged its log in the leader's term ([MemberInfo.Acked]). A member
// fsyncs the term before it acknowledges anything in it, and within a term no entry is taken back. So a disk that shows
// less than that has gone back in time. Nothing else proves it. A leader that has not heard from the member in its own
// term knows nothing about it. Without a leader, a disk resumes with what it has, because all disks may have been
// rolled back together.

// RolledBack is the reason of a [SetAside] of data that went back in time.
const RolledBack = "rolled-back"

// rollback decides about a disk whose log ends below what a leader of its generation has seen it acknowledge. The disk
// never starts beside that leader. The leader must be confirmed by a majority, and is asked directly, before the disk
// gives way to a replacement.
func (o resuming) rollback() Action {
	d, r := o.Disk, o.Disk.Ledger.Record
	l, acked := o.acknowledged(d.Member)
	if l == nil || d.Log == nil || !d.behind(l.Facts.Term, acked) {
		return Action{}
	}
	what := fmt.Sprintf("the disk of slot %s went back in time: its log ends at index %d, in term %d, and leader %s has "+
		"seen its member %x acknowledge index %d, in term %d (was the machine or the volume rolled back, or is this an "+
		"old copy?)", o.Claim.Slot, d.Log.Index, d.Term, l.Node, d.Member, acked, l.Facts.Term)
	if !l.Facts.Confirmed {
		return wait("%s; it does not start, and waits until a majority confirms that leader", what)
	}
	return Action{Kind: SetAside, Record: r, Node: l.Node, Member: d.Member, Reason: RolledBack,
		Why: fmt.Sprintf("%s: its data is set aside, and never deleted by holdfast, and slot %s joins again",
			what, o.Claim.Slot)}
}

// behind reports whether the disk shows less than a member that has acknowledged an entry in a term.
func (d Disk) behind(term, index uint64) bool {
	return d.Term < term || d.Term == term && d.Log.Index < index
}

// acknowledged returns the live leader of our generation with the newest term, if it has seen the member acknowledge
// anything in that term, and the index.
func (o resuming) acknowledged(member uint64) (leader *Peer, index uint64) {
	for _, l := range o.leaders(o.Disk.Ledger.Record) {
		if leader == nil || l.Facts.Term > leader.Facts.Term {
			leader = &l
		}
	}
	if leader == nil {
		return nil, 0
	}
	i := slices.IndexFunc(leader.Facts.Members, func(m MemberInfo) bool { return m.ID == member })
	if i < 0 || leader.Facts.Members[i].Acked == 0 {
		return nil, 0
	}
	return leader, leader.Facts.Members[i].Acked
}

// begunBefore says which leader has heard of a member that this disk, which has no log, is about to begin as; "" for
// none. A member begins once: if it began and has no log now, the log is lost or the ledger went back in time.
func (o resuming) begunBefore(member uint64) string {
	l, _ := o.acknowledged(member)
	if l == nil {
		return ""
	}
	return fmt.Sprintf("leader %s has seen member %x run, and the disk of slot %s has nothing of it: "+
		"the disk was wiped, or went back in time", l.Node, member, o.Claim.Slot)
}

// unheardLeader returns a live node that has a leader of our generation which this node does not hear yet, "" for none.
// That leader may know how far this disk had come.
func (o resuming) unheardLeader() string {
	r := o.Disk.Ledger.Record
	if r == nil || !o.Disk.WAL || o.leader(r) != nil {
		return ""
	}
	for _, p := range o.live() {
		if f := p.Facts; f != nil && f.of(r) && f.Running && f.Confirmed {
			return p.Node
		}
	}
	return ""
}

// Quiet returns the facts for the gossip, without the acknowledged index of connected members, which changes with every
// write. A starting member is not connected, and it also asks the leader directly.
func (f Facts) Quiet() Facts {
	f.Members = slices.Clone(f.Members)
	for i := range f.Members {
		if f.Members[i].Connected {
			f.Members[i].Acked = 0
		}
	}
	return f
}
