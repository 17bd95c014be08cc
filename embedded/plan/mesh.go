package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// mesh is what the other nodes say about themselves in the gossip, and how that fits our own disk and store.
type mesh struct{ *Observation }

// withoutOusted is the observation with nodes marked as gone that the gossip still believes live, although their disk's
// lock proves the opposite. Only one process has a lock: the operating system gives it to the next one only when the
// last one has ended or released the disk. So a node that had the lock in an earlier claim no longer holds the disk. A
// copy of the disk has another lock, except on a machine that was cloned with its memory. So our own claim only lets us
// ask (see [Observation.Ousted]). Another node's claim counts once its member runs, because that node has asked then. A
// lost node's claim does not count: the epoch goes back with a disk that goes back in time.
func (obs *Observation) withoutOusted() *Observation {
	claims := []*Facts{obs.Claim.facts()}
	for _, p := range obs.Peers {
		if p.Live && p.Facts != nil && p.Facts.Running {
			claims = append(claims, p.Facts)
		}
	}
	var o *Observation
	for i := range obs.Peers {
		if !slices.ContainsFunc(claims, obs.Peers[i].ousted) {
			continue
		}
		if o == nil {
			c := *obs
			o, c.Peers = &c, slices.Clone(obs.Peers)
		}
		o.Peers[i].Live = false
	}
	if o == nil {
		return obs
	}
	return o
}

// facts is our own claim, as others would see it.
func (c Claim) facts() *Facts { return &Facts{Disk: c.Disk, Lock: c.Lock, Epoch: c.Epoch} }

// ousted reports whether a node that the gossip believes live has lost its lock to the later claim in by.
func (p *Peer) ousted(by *Facts) bool {
	f := p.Facts
	return p.Live && f != nil && f.Lock != "" && by.Lock == f.Lock && by.Disk == f.Disk && by.Epoch > f.Epoch
}

// Ousted returns the nodes that the gossip believes live, although we have their lock. Before anything relies on that,
// each must say that it no longer holds the disk, or its machine that nobody listens there. A start is decided by a
// [Contest].
func (obs *Observation) Ousted() []string {
	var nodes []string
	for _, p := range obs.Peers {
		if p.ousted(obs.Claim.facts()) {
			nodes = append(nodes, p.Node)
		}
	}
	return nodes
}

// live returns the nodes that the gossip sees now.
func (o mesh) live() []Peer {
	live := make([]Peer, 0, len(o.Peers))
	for _, p := range o.Peers {
		if p.Live {
			live = append(live, p)
		}
	}
	return live
}

// leaders returns the live nodes that say they lead the generation. For a moment, two may say so.
func (o mesh) leaders(r *Record) []Peer {
	return slices.DeleteFunc(o.live(), func(p Peer) bool { return p.Facts == nil || !p.Facts.Leader || !p.Facts.of(r) })
}

// leader returns one of the leaders, nil if there is none.
func (o mesh) leader(r *Record) *Peer {
	if all := o.leaders(r); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// holder returns the live holder of a slot: of two, the one that is the listed member, else the one for which its rival
// waits. If there is none, the second result says so.
func (o mesh) holder(slot string, member uint64) (*Peer, string) {
	var found *Peer
	var note string
	for _, p := range o.live() {
		switch f := p.Facts; {
		case f == nil || f.Slot != slot:
		case o.otherGeneration(f):
			note = fmt.Sprintf("slot %s has no live holder, and the disk on %s is of %s", slot, p.Node, f.Record.Token())
		case f.Running && f.Member == member:
			return &p, ""
		case found == nil || o.stronger(*f, p.Node, *found.Facts, found.Node):
			found = &p
		}
	}
	if found == nil {
		return nil, cmp.Or(note, fmt.Sprintf("slot %s has no live holder", slot))
	}
	return found, ""
}

// otherGeneration reports whether a node's disk is of another generation than ours, and ours has data. The tokens
// differ, so raft cannot mix them: the node is no rival, and has no part in our generation. A stray that runs our slot
// must not keep ours from starting.
func (o mesh) otherGeneration(f *Facts) bool {
	mine := o.Disk.Ledger.Record
	return mine != nil && f.Record != nil && f.Record.ID != mine.ID && (o.Disk.WAL || f.Record.Lineage() != mine.Lineage())
}

// otherStore says why what our store says does not count for all, "" if it does.
func (o mesh) otherStore() (why string) {
	for _, p := range o.otherStores() {
		if !o.late(p) {
			return fmt.Sprintf("node %s uses another backup store: set snapshot.store to the same place everywhere", p.Node)
		}
		why = fmt.Sprintf("it is not known yet whether node %s uses the same backup store: wait a moment", p.Node)
	}
	return why
}

// late reports whether a node's nonce may be in our store by now: the node has just started, and our store was not read
// again since.
func (o mesh) late(p Peer) bool {
	return p.Facts.Store == o.Store.ID && slices.Contains(o.Store.Late, p.Node)
}

// presumed is the view in which each node that is late has been found in our store. Until that is known, what the store
// forbids is not done, and what it orders is not done either.
func (o mesh) presumed() view {
	all := *o.Observation
	all.Store.Met = slices.Concat(o.Store.Met, o.Store.Late)
	return look(&all)
}

// otherStores returns the live nodes of our cluster that use another backup store, so that the contents of ours do not
// count for all (R8): theirs has another ID, or their nonce is not in ours, which must be a copy then. Nodes without a
// disk of the cluster do not count.
func (o mesh) otherStores() (all []Peer) {
	mine := o.Disk.Ledger.Record
	for _, p := range o.live() {
		f := p.Facts
		switch {
		case f == nil || f.Store == "" || f.Record == nil && mine != nil:
		case mine != nil && f.Record.ID != mine.ID:
		case o.Store.Unknown != "" && (o.Store.ID == "" || o.Store.ID == f.Store): // cannot be known
		case f.Store != o.Store.ID || f.Nonce != "" && !slices.Contains(o.Store.Met, p.Node):
			all = append(all, p)
		}
	}
	return all
}

// removedBy returns a node that knows that the member was removed from our generation, "" if none does. An ID is never
// used again. It is only gossip: it denies a seat and an admission, but data is set aside only on a leader's word (see
// dismissedBy).
func (o mesh) removedBy(id uint64) string {
	for _, p := range o.Peers {
		if id != 0 && p.Facts != nil && slices.Contains(p.Facts.Removed, id) {
			return p.Node
		}
	}
	return ""
}

// dismissedBy returns a live leader of our generation that says that the member was removed, "" if none does (R6). The
// leader is asked directly before anything is done.
func (o mesh) dismissedBy(id uint64) string {
	for _, l := range o.leaders(o.Disk.Ledger.Record) {
		if id != 0 && slices.Contains(l.Facts.Removed, id) {
			return l.Node
		}
	}
	return ""
}

// promised counts the seats of a charter whose disks are known to have promised something, last of all.
func (o mesh) promised(c Charter, what func(Charter) bool) (seats int) {
	for _, s := range c.Seats {
		mine := o.Disk.Ledger.Promise()
		seats += boolean(s.Disk == o.Claim.Disk && mine != nil && what(*mine) ||
			slices.ContainsFunc(o.Peers, func(p Peer) bool {
				return p.Facts != nil && p.Facts.Disk == s.Disk && p.Facts.Promise != nil && what(*p.Facts.Promise)
			}))
	}
	return seats
}

// givenUp reports whether the operator gave the cluster up, and no live leader contradicts that.
func (o mesh) givenUp() bool {
	return o.Orders.New && !slices.ContainsFunc(o.Peers, func(p Peer) bool {
		return p.Live && p.Facts != nil && p.Facts.Leader
	})
}

// of reports whether the node's disk is in that generation.
func (f Facts) of(r *Record) bool { return r != nil && f.Record != nil && f.Record.ID == r.ID }

// silence says why nothing is known about a node that has no facts.
func (p Peer) silence() string {
	if p.Unread != "" {
		return fmt.Sprintf("what node %s holds is unknown: its state cannot be read here (%s)", p.Node, p.Unread)
	}
	return fmt.Sprintf("node %s has not said yet what it holds", p.Node)
}
