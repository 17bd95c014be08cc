package plan

import (
	"fmt"
	"slices"
)

// A disk that went back in time (R21): a snapshot of the machine or of the volume was rolled back, or an old copy was
// put in its place. It has forgotten what it acknowledged, and perhaps its vote. Etcd does not survive that: it panics
// when the leader counts on an entry that is not there.
//
// The leader knows how far each member has acknowledged its log in its term ([MemberInfo.Acked]). A member notes the
// term, fsync'd, before it acknowledges anything in it, and in one term nobody takes an entry back. So a disk that
// shows less than that is another one than it was. That is a proof, and nothing else is: a leader that did not hear
// from the member in its own term knows nothing of it, and without a leader a disk resumes with what it has, for all
// may have been rolled back together.

// RolledBack is the reason of a [SetAside] of data that went back in time.
const RolledBack = "rolled-back"

// rollback answers a disk whose log ends below what a leader of its generation has seen it acknowledge. It never
// starts beside that leader. Once the leader is asked directly and confirmed, it makes way for a replacement.
func (o resuming) rollback() (a Action, ok bool) {
	d, r := o.Disk, o.Disk.Ledger.Record
	l, acked := o.acknowledged(d.Member)
	if l == nil || d.Log == nil || !d.behind(l.Facts.Term, acked) {
		return Action{}, false
	}
	what := fmt.Sprintf("the disk of slot %s went back in time: its log ends at index %d, in term "+
		"%d, and leader %s has seen "+
		"its member %x acknowledge index %d, in term %d (was the machine or the volume rolled back, or is this an old copy?)",
		o.Claim.Slot, d.Log.Index, d.Term, l.Node, d.Member, acked, l.Facts.Term)
	if !l.Facts.Confirmed {
		return wait("%s; it does not start, and waits until a majority confirms that leader", what), true
	}
	return Action{Kind: SetAside, Record: r, Node: l.Node, Member: d.Member, Reason: RolledBack,
		Why: fmt.Sprintf("%s: its data is set aside, and never deleted by holdfast, and slot %s joins again",
			what, o.Claim.Slot)}, true
}

// behind reports whether the disk shows less than a member that has acknowledged an entry in a term.
func (d Disk) behind(term, index uint64) bool {
	return d.Term < term || d.Term == term && d.Log.Index < index
}

// acknowledged returns the leader of our generation in the newest term that is heard, if it has seen the member
// acknowledge anything in that term, and how far.
func (o resuming) acknowledged(member uint64) (leader *Peer, index uint64) {
	for _, p := range o.live() {
		f := p.Facts
		if f != nil && f.Leader && f.of(o.Disk.Ledger.Record) &&
			(leader == nil || f.Term > leader.Facts.Term) {
			leader = &p
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

// begunBefore says which leader has heard of a member that this disk, which has no log, is about to begin as: "" for
// none. A member begins once; one that began and is now without a log has lost it, or its ledger went back in time.
func (o resuming) begunBefore(member uint64) string {
	l, _ := o.acknowledged(member)
	if l == nil {
		return ""
	}
	return fmt.Sprintf("leader %s has seen member %x run, and the disk of slot %s has nothing of it: "+
		"the disk was wiped, or went back in time", l.Node, member, o.Claim.Slot)
}

// unheard returns a live node that has a leader of our generation, while that leader itself is not heard yet, "" for
// none: it may know how far the disk here had come.
func (o resuming) unheard() string {
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

// Quiet returns the facts as they are worth telling everybody: without how far the connected members have come, which
// every write changes. A member that starts is not connected; besides, it asks the leader directly.
func (f Facts) Quiet() Facts {
	f.Members = slices.Clone(f.Members)
	for i := range f.Members {
		if f.Members[i].Connected {
			f.Members[i].Acked = 0
		}
	}
	return f
}
