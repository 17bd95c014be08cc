package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// renew is an event in the life of authorities: a new one appears, a node's files name it, an old one expires. As with
// bundles, none appears while a node knows only the one before the last, or trusts only that.
func (w *world) renew() {
	n := w.someNode()
	switch r := w.rng.IntN(100); {
	case r < 12 && !slices.ContainsFunc(w.boxes, func(n *node) bool { return min(n.files, n.trusts()) < w.issued-1 }):
		w.issued++
		w.note("authority %d", w.issued)
	case r < 85:
		if n.files != w.issued {
			w.note("the files of %s name authority %d", n.name, w.issued)
		}
		n.files = w.issued
	case r < 90:
		for _, n := range w.boxes {
			n.files = w.issued
		}
		w.note("all files name authority %d", w.issued)
	case r < 93 && w.ended < w.issued:
		w.ended = w.issued - w.rng.IntN(2)
		w.note("the authorities up to %d end", w.ended-1)
		w.tally.event("authority ended")
	}
}

// trusts is the newest authority that the running member trusts.
func (n *node) trusts() int {
	if n.proc == nil {
		return n.files
	}
	return n.proc.trusts
}

// understands reports whether two running members trust a valid authority in common: each trusts the last three. If
// they ever did, their connections stay open.
func (n *node) understands(m *node) bool {
	w := n.w
	if !w.renews || n == m || n.proc == nil || m.proc == nil {
		return true
	}
	lo, hi := min(n.proc.trusts, m.proc.trusts), max(n.proc.trusts, m.proc.trusts)
	if lo >= w.ended && hi-lo < 3 {
		w.standing[[2]*proc{n.proc, m.proc}], w.standing[[2]*proc{m.proc, n.proc}] = true, true
	}
	return w.standing[[2]*proc{n.proc, m.proc}]
}

// apart closes the connections of two nodes.
func (w *world) apart(n, m *node) {
	delete(w.standing, [2]*proc{n.proc, m.proc})
	delete(w.standing, [2]*proc{m.proc, n.proc})
}

// papers are the authorities that a member trusts, and the one of its certificate: what its files name, once none that
// it trusts is valid.
func (n *node) papers() (trusts []string, issuer string) {
	if !n.w.renews {
		return nil, ""
	}
	for i := range 3 {
		trusts = append(trusts, fmt.Sprint(n.proc.trusts-i))
	}
	if n.proc.trusts < n.w.ended {
		return trusts, fmt.Sprint(n.files)
	}
	return trusts, trusts[0]
}

// reload does what the coordinator does: lock, look again, hand over, stop the member. The next decision starts it.
func (n *node) reload() {
	w := n.w
	stop := func() { n.proc = nil }
	if !n.proc.hasLead || n.observe().Severed() {
		w.tally.event(map[bool]string{false: "reloaded without a leader", true: "reloaded at once"}[n.proc.hasLead])
		n.todo = []func(){stop}
		return
	}
	if !n.takeLock("reload") {
		return
	}
	if risk := n.judgeRisk(Observation.Unready); risk != "" {
		w.tally.event("reload refused")
		n.todo = []func(){n.giveBack}
		return
	}
	n.part(true)
	n.todo = []func(){n.cede, func() {
		c := n.proc.data.c
		voters := len(c.members)
		if c.leader == n && voters > 1 {
			w.tally.event("reload without a hand-over")
			delete(c.locks.parted, n.disk.slot)
			n.todo = []func(){n.giveBack}
			return
		}
		w.tally.event("reloaded under the lock")
		stop()
	}}
}

// cede hands the leadership over, if another voter has everything that is committed.
func (n *node) cede() {
	w, c := n.w, n.proc.data.c
	up, quorum := c.reachable(w, n)
	if c.leader != n || len(up) < quorum {
		return
	}
	for _, heir := range up {
		if r, q := c.reachable(w, heir); heir != n && heir.proc.data.match == c.commit && len(r) >= q {
			n.proc.leads = false
			c.crown(heir, r)
			c.locks.left = lockTicks
			w.elected(c, heir)
			c.attend(w, heir)
			return
		}
	}
}

// judgeReload checks a decision against what the node knows.
func (w *world) judgeReload(n *node, o Observation) {
	m, frozen := o.Member, proposals(look(&o)).frozen()
	switch {
	case !m.Stale:
		w.fail("L7: %s reloads, and its files are as they were", n.name)
	case !m.HasLead && o.Disk.Log == nil:
		w.fail("L7: %s reloads in an election", n.name)
	case frozen != "":
		w.fail("L7: %s reloads, although %s", n.name, frozen)
	case m.HasLead && m.Paused != nil:
		w.fail("L7: %s reloads while the cluster is paused", n.name)
	}
	for _, p := range o.Peers {
		if m.HasLead && m.Leader && !o.Severed() && p.Live && p.Facts != nil && p.Facts.Running && p.Facts.Stale {
			w.fail("L8: %s leads and reloads before slot %s", n.name, p.Facts.Slot)
		}
	}
}

// TestReloadSimulation simulates changing files of trusted authorities, among crashes, partitions, drains and pauses.
// Members are restarted under the lock, one at a time, and never so that the quorum is lost. In the end each member
// trusts what its files name, even if all authorities that were trusted have expired.
func TestReloadSimulation(t *testing.T) {
	s := sweepLives(t, 1500, 40, nil, renewed)
	came(t, s, s.events, "authority ended", "reloaded without a leader", "reloaded at once", "reloaded under the lock",
		"reload refused", "lock given back", "lock expired", "a living leader was deposed")
}

func renewed(seed uint64, tally *tally, trace func(string, ...any)) (end, broken string) {
	r := rand.New(rand.NewPCG(seed, 4))
	l := life{slots: []int{1, 2, 3, 3, 3, 5}[r.IntN(6)], ticks: 300 + r.IntN(700), drains: r.IntN(2) == 0, renews: true, calm: true}
	l.nodes = l.slots
	if r.IntN(3) == 0 { // a slot may be lost, and comes back as a learner
		l.wipes = 1
	}
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
	if _, ok := w.recover(); !ok && w.excuse() == "" {
		return "", fmt.Sprintf("liveness: %s%s", w.broken, w.describe())
	}
	for range 4 {
		if !slices.ContainsFunc(w.boxes, (*node).lags) {
			return "", w.broken
		}
		w.calmly(lockTicks)
	}
	if w.broken == "" && w.excuse() == "" {
		return "", "L9: no faults any more, and yet a member trusts what it did before: " + w.describe()
	}
	return "", w.broken
}

// lags reports whether a node's member does not trust what its files name.
func (n *node) lags() bool { return n.proc == nil || n.proc.trusts != n.files }

// calmly lets all nodes work and gossip.
func (w *world) calmly(rounds int) {
	for range rounds {
		for _, n := range w.boxes {
			n.step()
		}
		for _, n := range w.boxes {
			for _, m := range w.boxes {
				w.deliver(n, m)
				if n != m && m.views[n.i].facts != nil {
					m.views[n.i].live = true
				}
			}
		}
		for _, c := range w.clusters {
			c.tick(w)
		}
	}
}
