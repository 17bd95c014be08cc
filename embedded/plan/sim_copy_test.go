package plan

import (
	"fmt"
	"slices"
	"testing"
)

// askRivals asks the nodes that may start the same member, and then begins. Those that may, by the gossip, answer in a
// step each; all others answer in one step.
func (n *node) askRivals() {
	o, answers, then := n.observe(), map[string]Answer{}, n.todo
	ask := func(name string) { answers[name] = n.askRival(name, o.Contender()) }
	var others []string
	n.todo = nil
	for _, name := range n.contest.Whom(&o) {
		i := slices.IndexFunc(o.Peers, func(p Peer) bool { return p.Node == name })
		if f := o.Peers[i].Facts; f != nil && f.Disk != "" && !o.same(f) {
			others = append(others, name)
			continue
		}
		n.todo = append(n.todo, func() { ask(name) })
	}
	n.todo = append(n.todo, func() {
		for _, name := range others {
			ask(name)
		}
	}, func() {
		if n.contest.Obstacle(o, answers) != "" || !n.contest.Begin() {
			n.w.tally.event("gave way")
			n.abort()
		}
	})
	n.todo = append(n.todo, then...)
}

func (n *node) askRival(name string, about Contender) Answer {
	i := slices.IndexFunc(n.w.boxes, func(m *node) bool { return m.name == name })
	if i < 0 { // a drill's node, and the drill is over
		return Answer{Gone: true}
	}
	m := n.w.boxes[i]
	if !n.w.reach(n, m) {
		return Answer{Gone: !m.up && !n.w.peerCut[n.i][m.i]}
	}
	begun, deaf := m.contest.Asked(n.name, about), !m.views[n.i].live
	if deaf {
		m.contest.Forget(n.name)
	}
	o := m.observe()
	o.Member.Running = o.Member.Running || begun
	f := o.Facts(nil)
	return Answer{Facts: &f, Deaf: deaf}
}

// copies are the ways to copy a running member to a node that claims the copy.
var copies = map[string]func(of *disk, w *world) *disk{
	"a disk": func(of *disk, w *world) *disk {
		d := of.copy()
		d.uuid, d.lock = of.uuid, "of the copy"
		return d
	},
	"a machine with its memory": func(of *disk, w *world) *disk {
		d := of.copy()
		d.uuid, d.lock = of.uuid, of.lock
		return d
	},
	"etcd's data alone": func(of *disk, w *world) *disk {
		d := w.format(of.slot)
		d.data = of.copy().data
		return d
	},
}

// copied makes a cluster and copies one of its members to the standby. Unless all news is delivered, the nodes may have
// last heard that the members are about to run.
func copied(t *testing.T, seed uint64, make func(of *disk, w *world) *disk, heard bool) (w *world, thief, from *node) {
	w = newWorld(seed, life{slots: 3, nodes: 4, store: storeShared}, newTally())
	if _, ok := w.recover(); !ok {
		t.Fatalf("no cluster: %s", w.describe())
	}
	for range 5 * boolToInt(heard) {
		for _, n := range w.boxes {
			n.step()
			for _, m := range w.boxes {
				w.deliver(n, m)
			}
		}
	}
	spare := slices.IndexFunc(w.boxes, func(n *node) bool { return n.disk == nil })
	thief, from = w.boxes[spare], w.boxes[(spare+1+int(seed%3))%4]
	d := make(from.disk, w)
	d.slot, d.epoch, d.holder, d.data.back = from.disk.slot, from.disk.epoch+1, thief, true
	thief.disk, thief.none, thief.todo = d, "", nil
	return w, thief, from
}

// among lets the nodes decide and gossip for a while.
func (w *world) among(events int) {
	for range events {
		if w.broken != "" || w.over != "" {
			return
		}
		switch w.rng.IntN(3) {
		case 0:
			w.someNode().step()
		case 1:
			w.deliver(w.someNode(), w.someNode())
		default:
			w.clusters[0].tick(w)
		}
	}
}

// TestCopies copies the disk of a member while it runs. While all nodes reach each other, the copy never starts, and no
// node takes the original for gone. That also holds if the copy has its lock, as the clone of a machine with its memory
// has, and if the last news of the original is that it is about to run.
func TestCopies(t *testing.T) {
	for seed := range uint64(20) {
		for what, make := range copies {
			for _, heard := range []bool{true, false} {
				t.Run(fmt.Sprintf("%d/%s/%t", seed, what, heard), func(t *testing.T) {
					w, thief, from := copied(t, seed, make, heard)
					begun := from.proc
					w.among(800)
					switch {
					case w.broken != "":
						t.Error(w.broken)
					case thief.proc != nil || from.proc != begun:
						t.Errorf("R10: the copy on %s runs, %t, and the original on %s, %t", thief.name, thief.proc != nil, from.name, from.proc == begun)
					case what == "a machine with its memory" && w.tally.events["gave way"] == 0:
						t.Error("the clone never tried to start")
					}
				})
			}
		}
	}
}

// TestCopiesStart restarts the original and the copy again and again, so that both are about to start. They never run
// at the same time, and in the end the slot has a running member.
func TestCopiesStart(t *testing.T) {
	won := map[bool]int{}
	for seed := range uint64(100) {
		for what, make := range copies {
			t.Run(fmt.Sprintf("%d/%s", seed, what), func(t *testing.T) {
				w, thief, from := copied(t, seed, make, true)
				disks := []*disk{thief.disk, from.disk}
				for range 8 {
					for _, d := range disks { // either may run now, and then the other is outdated
						if d.data != nil {
							d.data.back = true
						}
					}
					for _, n := range []*node{thief, from} {
						n.crash()
						n.boot()
						for _, m := range w.boxes { // it listens before it starts
							if m != thief && m != from {
								w.deliver(m, n)
								w.deliver(m, n)
							}
						}
					}
					if d := disks[0]; d.holder == nil {
						d.holder, thief.disk = thief, d
						d.epoch++
					}
					for _, v := range []*heard{&from.views[thief.i], &thief.views[from.i]} {
						if v.facts != nil && w.chance(50) { // it held another disk before
							f := *v.facts
							f.Disk, f.Member = "another", 0
							v.facts = &f
						}
					}
					w.among(60)
				}
				won[thief.proc != nil]++
				if _, ok := w.recover(); !ok && w.over == "" {
					t.Errorf("%s%s", w.broken, w.describe())
				}
			})
		}
	}
	if won[true] == 0 || won[false] == 0 {
		t.Errorf("the copy ran, or not: %v", won)
	}
}

// TestCopyInAnotherSlot puts the data of one member in the place of another's, as if an operator brought a node back
// with a copy from another node. It never starts, with or without its old ledger, and does not keep the original member
// from starting.
func TestCopyInAnotherSlot(t *testing.T) {
	for seed := range uint64(20) {
		for _, ledger := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d/%t", seed, ledger), func(t *testing.T) {
				w := newWorld(seed, life{slots: 3, nodes: 3, store: storeShared}, newTally())
				if _, ok := w.recover(); !ok {
					t.Fatalf("no cluster: %s", w.describe())
				}
				from, to := w.boxes[seed%3], w.boxes[(seed+1)%3]
				own, d := from.disk, to.disk
				to.crash()
				d.data = own.copy().data
				d.data.back = true
				if !ledger {
					d.ledger, d.marker = Ledger{}, false
				}
				to.boot()
				to.disk, d.holder = d, to
				d.epoch += 5
				w.among(300)
				if to.proc != nil || from.proc == nil {
					t.Errorf("R10: the copy in another slot runs, %t, and the member, %t", to.proc != nil,
						from.proc != nil)
				}
				from.crash()
				from.boot()
				from.disk, own.holder = own, from
				w.among(600)
				if w.broken != "" || to.proc != nil || from.proc == nil {
					t.Errorf("R10: after a restart the copy in another slot runs, %t, and the member, %t %s",
						to.proc != nil, from.proc != nil, w.broken)
				}
			})
		}
	}
}
