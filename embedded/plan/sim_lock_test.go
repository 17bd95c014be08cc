package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	lockTicks = 30 // ticks, in a cluster with a leader, until an unrefreshed lock expires
	waitTicks = 6  // steps that a process waits after it was told to stop
)

// lockState is the disruption lock of a cluster, and the members that are down on purpose.
type lockState struct {
	lock   *Lock
	left   int // ticks
	parted map[string]bool
}

// maintain is one thing that an operator does, or anyone who restarts processes.
func (w *world) maintain() {
	n := w.someNode()
	switch r := w.rng.IntN(100); {
	case !n.up:
		n.boot()
	case r < 40 && !n.drained && !n.stopping:
		w.note("%s is told to end", n.name)
		n.stopping, n.patience = true, waitTicks
	case r < 70 && !n.drained && !n.stopping && n.proc != nil && len(n.todo) == 0:
		n.drain(w.chance(10))
	case r < 90 && n.drained:
		w.note("%s is undrained", n.name)
		n.drained = false
	case r < 92:
		for _, n := range w.boxes {
			n.stopping, n.patience = n.up, waitTicks
		}
		w.note("all are told to end")
	}
}

// drain takes the lock, judges, and stops etcd; a crash may come between.
func (n *node) drain(force bool) {
	locked := n.takeLock("drain")
	risk := "no lock"
	if locked {
		risk = n.judgeDisruption()
	}
	switch {
	case risk == "" || force:
		n.w.tally.event("drained")
		n.todo = []func(){func() { n.drained = true; n.part(risk == ""); n.proc = nil }}
	case locked:
		n.w.tally.event("drain refused")
		n.todo = []func(){n.giveBack}
	}
}

// depart is one look of a process that was told to stop.
func (n *node) depart() {
	w, o := n.w, n.observe()
	n.publish(o)
	n.patience--
	risk := "no lock"
	switch {
	case len(n.todo) > 0: // the action is finished first
		do := n.todo[0]
		n.todo = n.todo[1:]
		do()
		return
	case o.Haste() != "":
		w.tally.event("stopped at once")
		n.part(false)
		n.crash()
		return
	case n.takeLock("stop"):
		risk = n.judgeDisruption()
	}
	switch {
	case risk == "":
		w.tally.event("stopped in turn")
	case n.patience > 0:
		return
	default:
		w.tally.event("stopped at risk")
	}
	n.part(risk == "")
	n.crash()
}

// judgeDisruption asks the plan and the leader, and checks the answer: if a member may go down, a majority of the
// voters stays in reach of the leader that was asked.
func (n *node) judgeDisruption() string { return n.judgeRisk(Observation.Disruption) }

func (n *node) judgeRisk(ask func(Observation, []MemberInfo) string) string {
	w, o := n.w, n.observe()
	leader := n
	var seen []MemberInfo
	if o.Member.Leader {
		seen = o.Facts(nil).Seen()
	} else {
		for _, m := range w.boxes {
			if m != n && m.up && m.proc != nil && m.proc.data.c == n.proc.data.c && !w.gossipCut[n.i][m.i] && !w.gossipCut[m.i][n.i] {
				if f := m.observe().Facts(nil); f.Leader {
					leader, seen = m, f.Seen()
					break
				}
			}
		}
	}
	risk := ask(o, seen)
	if risk != "" {
		return risk
	}
	voters, left := 0, 0
	for _, m := range leader.proc.members {
		if m.Learner {
			w.fail("L2: %s may go down although slot %s is a learner", n.name, m.Slot)
		}
		voters++
		r := n.proc.data.c.runner(w, m.ID)
		if r != nil && r != n && w.reach(leader, r) {
			left++
		}
	}
	if left <= voters/2 && voters > 2 {
		w.fail("L2: %s may go down, and that leaves %d of %d voters", n.name, left, voters)
	}
	return ""
}

// part notes that a member goes down on purpose; safely, if it was allowed to.
func (n *node) part(safely bool) {
	if n.proc == nil {
		return
	}
	s := &n.proc.data.c.locks
	if safely {
		for slot, other := range s.parted {
			if other && slot != n.disk.slot {
				n.w.fail("L1: %s (slot %s) goes down on purpose while slot %s is", n.name, n.disk.slot, slot)
			}
		}
	}
	if s.parted == nil {
		s.parted = map[string]bool{}
	}
	s.parted[n.disk.slot] = safely
	n.w.note("%s (slot %s) goes down on purpose, safely=%v", n.name, n.disk.slot, safely)
}

// takeLock commits the lock, if no other slot has it and there is a quorum.
func (n *node) takeLock(purpose string) bool {
	if n.proc == nil {
		return false
	}
	w, c := n.w, n.proc.data.c
	l := c.locks.lock
	if l != nil && (l.Slot != n.disk.slot || l.Node != n.name) || c.leader == nil || !w.reach(n, c.leader) || !c.propose(w) {
		return false
	}
	w.clock++
	c.locks.lock, c.locks.left = &Lock{Slot: n.disk.slot, Node: n.name, Purpose: purpose, Since: time.Unix(int64(w.clock), 0)}, lockTicks
	n.value = c.locks.lock
	w.note("%s locks", n.name)
	c.attend(w, n)
	n.proc.lock = c.locks.lock // its own write is applied when it returns
	return true
}

// giveBack returns the lock that is applied here, once this member has caught up.
func (n *node) giveBack() {
	if n.proc == nil || n.proc.lock == nil || n.proc.lock.Slot != n.disk.slot {
		return
	}
	w, c := n.w, n.proc.data.c
	if c.leader == nil || !w.reach(n, c.leader) || !c.propose(w) || c.locks.lock != n.proc.lock {
		return
	}
	n.proc.data.match = c.commit
	w.tally.event("lock given back")
	if s := n.proc.lock.Slot; c.locks.parted[s] && !c.serves(w, s) {
		w.fail("L5: %s gives back the lock of slot %s, which is down on purpose", n.name, s)
	}
	c.locks.lock = nil
	delete(c.locks.parted, n.disk.slot)
	w.note("%s unlocks", n.name)
	c.attend(w, n)
}

// serves reports whether the member of a slot runs and reaches the leader.
func (c *cluster) serves(w *world, slot string) bool {
	for _, n := range w.boxes {
		if n.proc != nil && n.proc.data.c == c && n.disk.slot == slot && c.leader != nil && w.reach(n, c.leader) {
			return true
		}
	}
	return false
}

// refresh makes a running member in reach refresh the lock of a drained one.
func (n *node) refresh() {
	w := n.w
	for _, m := range w.boxes {
		if m == n || m.proc == nil || w.gossipCut[n.i][m.i] || w.gossipCut[m.i][n.i] {
			continue
		}
		if c := m.proc.data.c; n.value != nil && c.locks.lock == n.value && c.leader != nil && w.reach(m, c.leader) {
			c.locks.left = lockTicks
			return
		}
	}
}

// age lets the lock expire; then its holder no longer has a claim to it.
func (s *lockState) age(w *world) {
	if s.lock == nil {
		return
	}
	if s.left--; s.left <= 0 {
		w.tally.event("lock expired")
		w.note("the lock of %s ends", s.lock.Node)
		delete(s.parted, s.lock.Slot)
		s.lock = nil
	}
}

// near are the members that a running member reaches.
func (n *node) near() (ids []uint64) {
	for _, m := range n.proc.members {
		if r := n.proc.data.c.runner(n.w, m.ID); r != nil && r != n && n.w.reach(n, r) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// TestLockSimulation simulates operators who drain, restart and stop members that are told to wait for each other,
// among crashes, partitions and expiring locks. No two members go down on purpose at the same time, unless an operator
// forces it or is impatient. In the end, nobody holds the lock any more.
func TestLockSimulation(t *testing.T) {
	s := sweepLives(t, 6000, 40, nil, maintained)
	came(t, s, s.events, "drained", "drain refused", "stopped in turn", "stopped at once", "stopped at risk",
		"lock expired", "lock given back")
}

func maintained(seed uint64, tally *tally, trace func(string, ...any)) (end, broken string) {
	r := rand.New(rand.NewPCG(seed, 3))
	l := life{slots: []int{3, 3, 3, 5}[r.IntN(4)], ticks: 300 + r.IntN(700), drains: true, calm: true}
	l.nodes = l.slots
	w := newWorld(seed, l, tally)
	w.trace = trace
	if _, ok := w.recover(); !ok {
		return "", "not healthy before the faults: " + w.broken + w.describe()
	}
	for range l.ticks {
		if w.tick(); w.broken != "" {
			return "", w.broken
		}
	}
	w.note("faults end")
	if _, ok := w.recover(); !ok {
		return "", fmt.Sprintf("liveness: %s%s", w.broken, w.describe())
	}
	for range lockTicks / 2 {
		for _, n := range w.boxes {
			n.step()
		}
		for _, c := range w.clusters {
			c.tick(w)
		}
	}
	i := slices.IndexFunc(w.clusters, func(c *cluster) bool { return c.locks.lock != nil })
	if w.broken == "" && i >= 0 {
		return "", fmt.Sprintf("L3: all serve, and yet: %s%s", w.clusters[i].locks.lock, w.describe())
	}
	return "", w.broken
}
