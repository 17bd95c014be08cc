package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// earlySteps is how many decisions a new process gives the gossip to find the others.
const earlySteps = 5

// travel saves a disk's content, or takes the disk back to it, including the ledger, while its node is down. The ledger
// goes back only within one generation that was led: no disk may forget what it promised before, or what it said about
// a proposal, because nobody could tell.
func (w *world) travel() {
	n := w.someNode()
	d := n.disk
	if d == nil || d.ledger.Record == nil || d.ledger.Left != nil || d.ledger.Prepared != nil || d.built != "" ||
		len(d.ledger.Aborted) > 0 {
		return
	}
	if d.saved == nil || w.chance(30) {
		if d.data == nil || d.data.ran {
			d.saved = d.copy()
		}
		return
	}
	s := d.saved
	if w.wipes == 0 || s.ledger.Record.ID != d.ledger.Record.ID || !w.clusterOf(*d.ledger.Record).quorate ||
		len(s.ledger.Promises) != len(d.ledger.Promises) || w.chance(50) {
		return
	}
	w.wipes--
	w.note("%s: disk %s goes back in time", n.name, d.uuid)
	n.crash()
	older := s.copy()
	if older.data != nil {
		older.data.back = d.data == nil || d.data.id != older.data.id || d.data.noted != older.data.noted ||
			d.data.match != older.data.match || d.data.back
	}
	if older.data == nil && d.data == nil && s.ledger.Join == d.ledger.Join && s.ledger.Started == d.ledger.Started {
		return
	}
	d.epoch, d.data, d.ledger, d.marker, d.back = older.epoch, older.data, older.ledger, older.marker, true
	w.tally.event("went back in time")
}

// copy copies the content of a disk.
func (d *disk) copy() *disk {
	c := &disk{epoch: d.epoch, ledger: d.ledger, marker: d.marker}
	if d.data != nil {
		data := *d.data
		c.data = &data
	}
	return c
}

// sick reports whether the leader relies on entries that the disk of a running member lacks: etcd panics there when it
// learns of that.
func (c *cluster) sick(n *node) bool {
	return c.leader != nil && n != c.leader && c.acked[n.proc.data.id] > n.proc.data.match
}

// forgot reports whether a voter that elected a leader had gone back in time. If there was no leader before that could
// tell, nobody can, and what it had acknowledged may be lost. That ends this life.
func (w *world) forgot(c *cluster, n *node) bool {
	up, _ := c.reachable(w, n)
	for _, v := range up {
		if v.proc.data.back {
			w.over = "what a disk forgot was lost, and there was no leader to say so"
			return true
		}
	}
	return false
}

// reborn reports whether a member begins a second time because its disk went back to before the first, and no leader
// was heard that could tell. That ends this life.
func (w *world) reborn(d *disk) bool {
	if !d.back {
		return false
	}
	for i, v := range d.holder.views {
		f := v.facts
		if !v.live || f == nil || !f.Leader || f.Record == nil || f.Record.ID != d.data.c.record.ID ||
			w.passedOn(w.boxes[i].name, f) {
			continue
		}
		if slices.ContainsFunc(f.Members, func(m MemberInfo) bool { return m.ID == d.data.id && m.Acked > 0 }) {
			return false
		}
	}
	w.over = "a disk forgot that its member ever began, and there was no leader to say so"
	return true
}

// passedOn reports whether another node has claimed the disk since a node announced it: that announcement is outdated.
func (w *world) passedOn(node string, f *Facts) bool {
	return slices.ContainsFunc(append(w.in(w.disks), w.lost...), func(d *disk) bool {
		return d.lock == f.Lock && (d.holder != nil && d.holder.name != node || d.holder == nil && d.epoch > f.Epoch)
	})
}

// timely directly asks the live leaders, right before a member resumes on its data.
func (n *node) timely() {
	w, o := n.w, n.observe()
	if !o.Disk.WAL {
		return
	}
	o.Peers = slices.Clone(o.Peers)
	for i, p := range o.Peers {
		j := slices.IndexFunc(w.boxes, func(m *node) bool { return m.name == p.Node })
		if r := o.Disk.Ledger.Record; !p.Live || p.Facts == nil || !p.Facts.Leader || p.Facts.Record.ID != r.ID || !w.reach(n, w.boxes[j]) {
			continue
		}
		f := w.boxes[j].observe().Facts(nil)
		o.Peers[i].Facts = &f
	}
	if Next(o).Kind != Start {
		w.tally.event("the leader was asked in time")
		n.abort()
	}
}

// judgeRollback: no node starts a member beside a leader that it sees to know more about it, and no data is set aside
// for going back in time that did not.
func (w *world) judgeRollback(n *node, o Observation, a Action) {
	d := o.Disk
	if a.Kind != Start || !d.WAL {
		return
	}
	leads := func(p Peer) bool {
		f := p.Facts
		return p.Live && f != nil && f.Leader && f.Record.ID == d.Ledger.Record.ID && !w.passedOn(p.Node, f)
	}
	newest := uint64(0)
	for _, p := range o.Peers {
		if leads(p) {
			newest = max(newest, p.Facts.Term)
		}
	}
	for _, p := range o.Peers {
		f := p.Facts
		if !leads(p) || f.Term < newest || d.Term > f.Term {
			continue
		}
		for _, m := range f.Members {
			if m.ID == d.Member && m.Acked > 0 && (d.Term < f.Term || m.Acked > d.Log.Index) {
				w.fail("R21: %s starts member %x, whose log ends at %d.%d, and leader %s has seen %d.%d of it",
					n.name, m.ID, d.Term, d.Log.Index, p.Node, f.Term, m.Acked)
			}
		}
	}
}

// TestRollbackSimulation simulates disks that go back in time, among crashes and partitions. No member begins a second
// time. No data is set aside that did not go back. No leader lacks what was acknowledged, unless a disk that went back
// has voted for it. In the end, every slot has a healthy voter.
func TestRollbackSimulation(t *testing.T) {
	s := sweepLives(t, 3000, 300, nil, travelled)
	came(t, s, s.events, "went back in time", "data set aside", "an etcd panicked on a disk that went back in time",
		"the leader was asked in time")
	s.well(t, 6)
}

func travelled(seed uint64, tally *tally, trace func(string, ...any)) (end, broken string) {
	r := rand.New(rand.NewPCG(seed, 6))
	l := life{slots: []int{1, 3, 3, 3, 3, 5}[r.IntN(6)], ticks: 300 + r.IntN(900), wipes: 1 + r.IntN(3),
		host: r.IntN(4) == 0, store: storeMode(r.IntN(3)), calm: r.IntN(2) == 0, travels: true}
	l.nodes = l.slots + r.IntN(2)
	l.restores = l.store == storeShared && r.IntN(4) == 0
	w := newWorld(seed, l, tally)
	w.trace = trace
	if _, ok := w.recover(); !ok {
		return "", "not healthy before the faults: " + w.broken + w.describe()
	}
	for range l.ticks {
		if w.tick(); w.broken != "" || w.over != "" {
			return w.over, w.broken
		}
	}
	w.note("faults end")
	_, ok := w.recover()
	switch {
	case w.broken != "" || w.over != "":
		return w.over, w.broken
	case ok:
		return "healthy", ""
	case w.excuse() != "":
		return w.excuse(), ""
	}
	return "", fmt.Sprintf("liveness: no faults any more, yet not all slots are healthy voters: %s", w.describe())
}
