package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// maxResized bounds the slots of a life in which the operator changes them.
const maxResized = 5

// hardResizes are lives of changing slots that have broken an earlier version of the plan, or that break a mutant.
var hardResizes = []uint64{274, 901, 1007, 1293, 1744, 125, 194}

func resized(seed uint64) life {
	r := rand.New(rand.NewPCG(seed, 2))
	l := life{
		slots: []int{1, 3, 3, 5}[r.IntN(4)], host: r.IntN(3) == 0, store: storeMode(r.IntN(3)),
		ticks: 300 + r.IntN(2000), wipes: []int{0, 0, 1, 1, 2}[r.IntN(5)], calm: r.IntN(3) == 0, old: true, resizes: true,
	}
	l.nodes = max(l.slots, 3) + r.IntN(4)
	return l
}

// reconfigure lets the operator want other slots, or configure one more node with the wanted slots, or give a node an
// old configuration again.
func (w *world) reconfigure() {
	if !slices.ContainsFunc(w.clusters, func(c *cluster) bool { return c.quorate }) {
		return // slots are changed only when there is a cluster
	}
	n := w.someNode()
	switch r := w.rng.IntN(20); {
	case r == 0:
		size := 1 + w.rng.IntN(min(maxResized, w.nodes))
		some := w.rng.Perm(maxResized)[:size]
		slices.Sort(some)
		var goal []string
		for _, i := range some {
			goal = append(goal, w.names[i])
		}
		if w.kept(goal) {
			w.goal = goal
			w.note("the operator wants %v", w.goal)
		}
	case r < 16:
		n.wants = w.goal
	case r < 17:
		n.wants = w.names[:w.slots]
	}
}

// kept reports whether the slot of a voter is among some slots. Nobody changes all slots at once: a node that hears no
// other would found the new ones.
func (w *world) kept(some []string) bool {
	return slices.ContainsFunc(w.clusters, func(c *cluster) bool {
		return c.quorate && slices.ContainsFunc(c.members, func(m MemberInfo) bool { return !m.Learner && slices.Contains(some, m.Slot) })
	})
}

// resizing lays out the steps that follow a change of the slots.
func (n *node) resizing(a Action) {
	w, d := n.w, n.disk
	tell := func() { n.publish(n.observe()) }
	switch a.Kind {
	case Resize:
		n.todo = []func(){func() { n.proc.data.c.resize(w, n, *a.Set) }, tell}
	case Remove:
		n.todo = []func(){func() {
			c := n.proc.data.c
			if c.leader == n && c.set != nil && (n.proc.set == nil || n.proc.set.Serial != c.set.Serial) {
				w.fail("R15: %s removes %s by slots that are none any more", n.name, a.Slot)
			}
			if m := c.find(a.Member); c.leader == n && c.set != nil && m != nil && !m.Learner && slices.Contains(c.set.Slots, a.Slot) {
				w.fail("R15: %s removes %s, which the cluster wants (%v)", n.name, a.Slot, c.set.Slots)
			}
			c.remove(w, n, a.Member)
		}, tell}
	case HandOver:
		n.todo = []func(){func() { n.proc.data.c.handOver(w, n) }, tell}
	case Retire:
		if d.data != nil {
			w.fail("I4: %s gives up disk %s, which has data", n.name, d.uuid)
		}
		d.holder, d.released, n.disk = nil, true, nil
		n.todo = []func(){tell}
	}
}

// resize puts a set through the log, if it follows the current one.
func (c *cluster) resize(w *world, by *node, s SlotSet) {
	serial := uint64(0)
	if c.set != nil {
		serial = c.set.Serial
	}
	if c.leader != by || s.Record != c.record.ID || s.Serial != serial+1 || !c.propose(w) {
		return
	}
	c.set = &s
	w.tally.event(fmt.Sprintf("resized to %d", len(s.Slots)))
	c.attend(w, by)
}

func (c *cluster) handOver(w *world, by *node) {
	if c.leader != by {
		return
	}
	up, quorum := c.reachable(w, by)
	if len(up) < quorum {
		return
	}
	for _, i := range w.rng.Perm(len(up)) {
		if n := up[i]; n != by && n.proc.data.match == c.commit {
			c.crown(n, up)
			c.attend(w, by)
			c.attend(w, n)
			return
		}
	}
}

// judgeJoin: there is one join at a time, and a slot is added only if all voters are connected.
func (w *world) judgeJoin(n *node, o Observation, a Action) {
	for _, m := range o.Member.Members {
		if m.Learner && m.Slot != a.Slot {
			w.fail("R15: %s admits slot %s while learner %x of slot %s is under way", n.name, a.Slot, m.ID, m.Slot)
		}
		if a.Member == 0 && !m.Learner && !m.Connected && m.ID != o.Member.ID {
			w.fail("R15: %s adds slot %s while slot %s is away", n.name, a.Slot, m.Slot)
		}
	}
}

// judgePromotion: a learner that gets a vote is connected, and has what the leader has.
func (w *world) judgePromotion(n *node, o Observation, a Action) {
	for _, m := range o.Member.Members {
		if m.ID == a.Member && (!m.Connected || !o.Member.InSync(m)) {
			w.fail("R15: %s promotes learner %x of slot %s, connected %t, with %d of its log", n.name, m.ID, m.Slot, m.Connected, m.Matched)
		}
	}
}

// judgeResize: more than half of all voters' holders want the set, as far as the leader can know.
func (w *world) judgeResize(n *node, o Observation, a Action) {
	voters, want := 0, 0
	for _, m := range o.Member.Members {
		if m.Learner {
			continue
		}
		voters++
		wants := slices.ContainsFunc(o.Peers, func(p Peer) bool {
			return p.Live && p.Facts != nil && p.Facts.Member == m.ID && slices.Equal(p.Facts.Slots, a.Set.Slots)
		})
		want += boolToInt(wants || m.ID == o.Member.ID && slices.Equal(n.wants, a.Set.Slots))
	}
	if want*2 <= voters {
		w.fail("R15: %s changes the slots to %v, which %d of %d want", n.name, a.Set.Slots, want, voters)
	}
}

// judgeRemoval: the remaining members have a connected majority. No serving member goes while another is away, or
// before one that does not serve. The leader goes last, and does not remove itself.
func (w *world) judgeRemoval(n *node, o Observation, a Action) {
	var target MemberInfo
	left, there, learner, dead := 0, 0, false, false
	for _, m := range o.Member.Members {
		up := m.Connected || m.ID == o.Member.ID
		switch {
		case m.ID == a.Member:
			target = m
		case m.Learner:
			learner = true
		default:
			left, there = left+1, there+boolToInt(up)
			dead = dead || !up && n.proc.set != nil && !slices.Contains(n.proc.set.Slots, m.Slot)
			if a.Kind == HandOver && m.ID != o.Member.ID && n.proc.set != nil && !slices.Contains(n.proc.set.Slots, m.Slot) {
				w.fail("R15: leader %s hands over while %s is to be removed, too", n.name, m.Slot)
			}
		}
	}
	switch live := target.Connected; {
	case there*2 <= left:
		w.fail("R15: %s removes %s, and %d of %d are left", n.name, a.Slot, there, left)
	case a.Kind == Remove && a.Member == o.Member.ID:
		w.fail("R15: leader %s removes itself", n.name)
	case target.Learner:
	case learner:
		w.fail("R15: %s removes %s while a join is under way", n.name, a.Slot)
	case live && dead:
		w.fail("R15: %s removes %s, which serves, before one that is lost", n.name, a.Slot)
	case live && there < left:
		w.fail("R15: %s removes %s, which serves, while another is away", n.name, a.Slot)
	}
	if live := target.Connected; live {
		w.tally.event("removed one that serves")
	} else if a.Kind == Remove {
		w.tally.event("removed one that is lost")
	}
}

// cramped reports whether a wanted slot finds no node: no member leaves before the new ones are there. And a host has
// one disk, which it keeps.
func (w *world) cramped() bool {
	wanted := slices.Clone(w.goal)
	if open, _ := w.stores[0].open(); open != nil { // the proposal continues with its own slots, and the operator wants others
		wanted = append(wanted, open.Slots...)
	}
	if !w.host {
		slots := slices.Clone(wanted)
		for _, c := range w.clusters {
			for _, m := range c.members {
				slots = append(slots, m.Slot)
			}
		}
		for _, n := range w.boxes { // without a quorum, no node releases a disk that may be a member's
			if n.disk != nil {
				slots = append(slots, n.disk.slot)
			}
		}
		slices.Sort(slots)
		return w.nodes < len(slices.Compact(slots))
	}
	free, missing := 0, 0
	for _, row := range w.disks {
		free += boolToInt(!slices.ContainsFunc(row, func(d *disk) bool { return d != nil }))
	}
	for i, s := range w.names {
		has := slices.ContainsFunc(w.disks, func(row []*disk) bool { return row[i] != nil })
		missing += boolToInt(slices.Contains(wanted, s) && !has)
	}
	return missing > free
}

// forgotten reports whether no disk in the slots of a founding knows the cluster: an operator who changes all slots at
// once, and loses all nodes before that is agreed on, has founded another cluster.
func (w *world) forgotten(c *cluster, founding Charter) bool {
	return w.resizes && !slices.ContainsFunc(w.here(), func(d *disk) bool {
		_, ok := founding.Seat(d.slot)
		return ok && d.ledger.Record != nil && d.ledger.Record.ID == c.record.ID
	})
}

// unheard reports whether no node's configuration names a slot whose disk knows the cluster. After a crash of all
// nodes, none would claim it.
func (w *world) unheard() bool {
	return !slices.ContainsFunc(w.here(), func(d *disk) bool {
		return d.ledger.Record != nil && w.clusterOf(*d.ledger.Record).quorate && (slices.Contains(w.goal, d.slot) || d.holder != nil)
	})
}

func TestResizeSimulation(t *testing.T) {
	s := sweepLives(t, 2000, 150, hardResizes, of(resized))
	came(t, s, s.kinds, Note, Resize, Remove, HandOver, Retire)
	s.well(t, 8)
}
