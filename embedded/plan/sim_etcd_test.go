package plan

import (
	"maps"
	"slices"
)

// cluster is the abstract etcd of one token: one log that only grows, of which each disk has a prefix, and one
// committed member list. A leader needs a majority of running voters that reach it, and a log at least as long as
// theirs.
type cluster struct {
	record  Record
	cid     uint64
	members []MemberInfo
	removed []uint64
	booted  []uint64 // every ID that ever began with an empty log
	commit  int
	quorate bool // has ever had a leader
	strange bool // of a stray or a drill
	leader  *node
	added   int
	term    uint64         // of the newest leader
	acked   map[uint64]int // in that leader's term, by member
	last    uint64         // of the newest committed entry
	set     *SlotSet
	locks   lockState
	paused  *Pause // the key
	consent *Consent
	minor   int  // agreed on
	falls   bool // a downgrade is in progress
}

// have gives a disk everything that is committed.
func (d *data) have(c *cluster) {
	d.match, d.tail, d.term, d.noted, d.back = c.commit, 0, c.last, c.term, false
	c.acked[d.id] = d.match
}

// crown makes a node the leader of a new term, in which nothing has been acknowledged yet.
func (c *cluster) crown(n *node, by []*node) {
	c.leader, c.acked = n, map[uint64]int{}
	c.term++
	for _, v := range by {
		v.proc.data.noted = c.term
	}
}

// end is where the log on a disk ends.
func (d *data) end() *LogEnd { return &LogEnd{Term: d.term, Index: uint64(d.match + d.tail)} }

// clusterOf returns the cluster of a record, whose founders know each other from the start.
func (w *world) clusterOf(r Record) *cluster {
	for _, c := range w.clusters {
		if c.record.ID == r.ID {
			return c
		}
	}
	c := &cluster{record: r, cid: r.cid()}
	c.members = r.founders()
	if w.versions {
		c.minor = 6
	}
	w.clusters = append(w.clusters, c)
	return c
}

// runner returns the node that runs a member.
func (c *cluster) runner(w *world, id uint64) *node {
	for _, n := range w.boxes {
		if n.proc != nil && n.proc.data.c == c && n.proc.data.id == id {
			return n
		}
	}
	return nil
}

func (c *cluster) find(id uint64) *MemberInfo {
	for i := range c.members {
		if c.members[i].ID == id {
			return &c.members[i]
		}
	}
	return nil
}

// reachable returns the running voters that reach a node, and how many make a quorum.
func (c *cluster) reachable(w *world, n *node) (up []*node, quorum int) {
	voters := 0
	for _, m := range c.members {
		if m.Learner {
			continue
		}
		voters++
		if r := c.runner(w, m.ID); r != nil && w.reach(n, r) && !c.sick(r) {
			up = append(up, r)
		}
	}
	return up, voters/2 + 1
}

// tick elects, replicates, applies, and stops removed members.
func (c *cluster) tick(w *world) {
	w.talk(c)
	if n := c.leader; n != nil {
		up, quorum := c.reachable(w, n)
		if !slices.Contains(up, n) || len(up) < quorum {
			c.leader = nil
			if n.proc != nil && n.proc.data.c == c && w.chance(50) { // it does not know of its removal yet, and keeps writing
				n.proc.data.tail, n.proc.data.term = n.proc.data.tail+w.rng.IntN(6), c.term
			}
		}
	}
	if c.leader == nil {
		c.elect(w, nil)
	} else if w.chance(2) { // a member campaigns early, on wrong evidence
		c.elect(w, c.leader)
	}
	if c.leader != nil {
		c.locks.age(w)
	}
	if c.leader != nil && w.chance(50) {
		c.propose(w)
	}
	if w.versions && c.leader != nil && w.chance(30) {
		c.agree(w)
	}
	for _, n := range w.boxes {
		if n.proc != nil && n.proc.data.c == c {
			c.attend(w, n)
			n.learn(c)
		}
	}
}

// elect makes a leader of one that can win; if there is a choice, another one than old, which lives.
func (c *cluster) elect(w *world, old *node) {
	for _, i := range w.rng.Perm(len(w.boxes)) {
		n := w.boxes[i]
		if n.proc == nil || n.proc.data.c != c || n == old {
			continue
		}
		up, quorum := c.reachable(w, n)
		votes := 0
		for _, v := range up {
			if v.proc.data.match <= n.proc.data.match {
				votes++
			}
		}
		if !slices.Contains(up, n) || votes < quorum {
			continue
		}
		c.crown(n, up)
		c.locks.left = lockTicks
		w.note("%s leads %s", n.name, c.record.ID)
		if old != nil {
			w.tally.event("a living leader was deposed")
		}
		c.strange = c.strange || n.drill
		w.elected(c, n)
		return
	}
}

// propose commits one entry on a random quorum, and reports whether it could.
func (c *cluster) propose(w *world) bool {
	up, quorum := c.reachable(w, c.leader)
	if !slices.Contains(up, c.leader) || len(up) < quorum {
		return false
	}
	w.outdated(c)
	c.commit, c.last = c.commit+1, c.term
	c.leader.proc.data.have(c)
	w.rng.Shuffle(len(up), func(i, j int) { up[i], up[j] = up[j], up[i] })
	have := 1
	for _, n := range up {
		if n != c.leader && (have < quorum || w.chance(50)) {
			n.proc.data.have(c)
			have++
		}
	}
	return true
}

// attend lets one member receive messages from the others.
func (c *cluster) attend(w *world, n *node) {
	p := n.proc
	if slices.Contains(c.removed, p.data.id) {
		if c.leader != nil && w.reach(n, c.leader) {
			w.note("%s learns that %x is removed", n.name, p.data.id)
			n.proc, n.removed, n.todo = nil, true, nil
		}
		return
	}
	if c.leader != nil && w.reach(n, c.leader) && c.sick(n) {
		w.tally.event("an etcd panicked on a disk that went back in time")
		w.note("%s panics", n.name)
		n.crash()
		return
	}
	if c.leader == nil || !w.reach(n, c.leader) {
		p.hasLead = false
		if w.chance(50) {
			p.leads = false
		}
		return
	}
	if p.hasLead, p.ready, p.leads = true, true, n == c.leader; p.leads {
		p.term, p.acked = c.term, maps.Clone(c.acked)
	}
	if w.chance(60) || n == c.leader {
		p.data.have(c)
		if m := c.find(p.data.id); m != nil {
			m.Started = true
		}
		p.data.list = slices.Clone(c.members)
		p.members, p.removed, p.paused, p.set = slices.Clone(c.members), slices.Clone(c.removed), c.paused, c.set
		p.lock, p.cluster, p.consent = c.locks.lock, etcd(c.minor), c.consent
	}
}

// pause lets an operator, on the leader's machine, pause or resume the cluster.
func (c *cluster) pause(w *world, resume bool) {
	if c.leader == nil || resume == (c.paused == nil) || !c.propose(w) {
		return
	}
	c.paused = &Pause{By: "the operator"}
	if resume {
		c.paused = nil
	} else {
		w.tally.event("paused")
	}
	w.note("%s: paused %t", c.record.ID, !resume)
	c.attend(w, c.leader)
}

// remove, add and promote change the member list through the log, if the node really leads.
func (c *cluster) remove(w *world, by *node, id uint64) bool {
	if c.leader != by || c.find(id) == nil || !c.propose(w) {
		return false
	}
	c.members = slices.DeleteFunc(c.members, func(m MemberInfo) bool { return m.ID == id })
	c.removed = append(c.removed, id)
	c.attend(w, by)
	return true
}

func (c *cluster) add(w *world, by *node, a Action) uint64 {
	slot := a.Slot
	taken := slices.ContainsFunc(c.members, func(m MemberInfo) bool { return m.Slot == slot })
	if c.leader != by || taken || !c.propose(w) {
		return 0
	}
	c.added++
	id := hash(c.record.ID, slot) + uint64(c.added)
	c.members = append(c.members, MemberInfo{ID: id, Slot: slot, Learner: true, PeerURL: a.PeerURL})
	c.attend(w, by)
	return id
}

func (c *cluster) promote(w *world, by *node, id uint64) {
	m, r := c.find(id), c.runner(w, id)
	if c.leader != by || m == nil || r == nil || r.proc.data.match < c.commit || !w.reach(by, r) || !c.propose(w) {
		return
	}
	r.proc.data.have(c)
	m.Learner = false
	c.attend(w, by)
}
